"""DescribeGroups and ListGroups: what an administrator sees of the groups of a shard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from barnabas.core.groups.classic import DEAD, STABLE, Member
from barnabas.core.groups.consumer.group import PROTOCOL_TYPE
from barnabas.core.groups.image import ShardImage
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from barnabas.wire.messages.list_groups import ListedGroup

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
FIRST_VERSION_NAMING_ABSENCE: Final = 6


def describe(image: ShardImage, group_ids: Iterable[str], version: int) -> list[DescribedGroup]:
    """Describe groups by id; one that is not there is Dead, and since v6 an error as well (KIP-1043).

    Groups of the consumer protocol are not there for it: ConsumerGroupDescribe describes them.
    """
    return [_describe(image, group_id, version) for group_id in group_ids]


def _describe(image: ShardImage, group_id: str, version: int) -> DescribedGroup:
    group = image.groups.get(group_id)
    if group is None:
        absent = DescribedGroup(group_id=group_id, group_state=DEAD.value)
        if version >= FIRST_VERSION_NAMING_ABSENCE:
            absent.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            why = "is not a classic group" if group_id in image.consumers else "not found"
            absent.error_message = f"Group {group_id} {why}."
        return absent
    protocol = (group.protocol or "") if group.state is STABLE else ""
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol,
        members=[_member(m, protocol) for m in group.members.values()],
    )


def _member(member: Member, protocol: str) -> DescribedGroupMember:
    """Describe a member; its metadata only in a stable group, where the protocol is settled."""
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol) if protocol else b"",
        member_assignment=member.assignment,
    )


def listed(image: ShardImage, states: Sequence[str], types: Sequence[str]) -> list[ListedGroup]:
    """List groups in some states and of some types, either in any case; none named means all."""
    wanted_states = {state.lower().strip() for state in states}
    wanted_types = {one.lower() for one in types}
    return sorted(
        (
            one
            for one in _listed(image)
            if (not wanted_types or one.group_type in wanted_types)
            and (not wanted_states or one.group_state.lower() in wanted_states)
        ),
        key=lambda one: one.group_id,
    )


def _listed(image: ShardImage) -> Iterator[ListedGroup]:
    for group_id, group in image.groups.items():
        protocol_type, state = group.protocol_type or "", group.state.value
        yield ListedGroup(group_id=group_id, protocol_type=protocol_type, group_state=state, group_type=CLASSIC)
    for group_id, consumers in image.consumers.items():
        state = consumers.state.value
        yield ListedGroup(group_id=group_id, protocol_type=PROTOCOL_TYPE, group_state=state, group_type=CONSUMER)
