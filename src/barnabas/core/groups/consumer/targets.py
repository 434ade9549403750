"""Who shall have which partition: asks an assignor, and says what differs from the target so far (KIP-848)."""

from __future__ import annotations

from functools import cache
from typing import Final

from barnabas.core.groups.assignors import ASSIGNORS
from barnabas.core.groups.assignors.spec import GroupSpec, MemberSpec, PartitionAssignorError
from barnabas.core.groups.consumer import records
from barnabas.core.groups.consumer.member import Target
from barnabas.core.groups.consumer.replaying import Draft
from barnabas.core.groups.consumer.world import World
from barnabas.wire.errors import ApiError, ErrorCode

NO_TARGET: Final[Target] = {}


def is_due(assignment_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Whether a new target may be computed, or the last one is too young (KIP-1263)."""
    return assignment_ms == 0 or interval_ms == 0 or now_ms >= assignment_ms + interval_ms


def compute(draft: Draft, world: World, default_assignor: str, now_ms: int) -> None:
    """Write the target of the group's epoch: what changed of it, and that it is the newest."""
    group, target = draft.group, draft.group.target
    ids_of = cache(world.ids_of)  # most members of a group read the same
    spec = GroupSpec(
        {
            member_id: MemberSpec(
                member.rack_id,
                member.instance_id,
                ids_of(group.topics_of(member)),
                target.get(member_id, NO_TARGET),
            )
            for member_id, member in group.members.items()
        },
        group.is_homogeneous,
    )
    try:
        assignment = ASSIGNORS[group.preferred_assignor(default_assignor)](spec, world)
    except PartitionAssignorError as e:
        message = f"Failed to compute a new target assignment for epoch {group.epoch}: {e}"
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message) from e
    for member_id in sorted(group.members):
        wanted = assignment.get(member_id, NO_TARGET)
        if target.get(member_id) != wanted:
            draft.write(records.target(group.group_id, member_id, wanted))
    draft.write(records.target_epoch(group.group_id, group.epoch, now_ms))
