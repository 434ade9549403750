"""The `uniform` assignor (KIP-848): members get equally many partitions, and keep what they have where they can.

Here for members that all want the same topics: nobody has more than one partition more than another, and no
partition moves that need not. `mixed.py` is for members that want different topics.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.core.groups.assignors.mixed import assign_mixed
from barnabas.core.groups.assignors.spec import Assignment, GroupSpec, Topics, existing_count, frozen, kept
from barnabas.model.uuid import Uuid


def assign_uniformly(spec: GroupSpec, topics: Topics) -> Assignment:
    """Give the balanced assignment; PartitionAssignorError when a topic that a member wants is not there."""
    return (_assign_alike if spec.homogeneous else assign_mixed)(spec, topics)


def _assign_alike(spec: GroupSpec, topics: Topics) -> Assignment:
    if not spec.members:
        return {}
    subscribed = sorted(next(iter(spec.members.values())).subscribed)
    counts = {topic_id: existing_count(topics, topic_id) for topic_id in subscribed}
    keeping, unowned = kept(spec, counts)
    assignment = dict(keeping)
    sizes = {member_id: sum(map(len, mine.values())) for member_id, mine in assignment.items()}
    quotas = _quotas(sizes, sum(counts.values()))

    free = [(topic_id, partition) for topic_id in subscribed for partition in sorted(unowned[topic_id])]
    # Those that have what they shall have keep it as it stands: in a large group that is nearly everybody.
    changing = {
        member_id: _in_order(assignment[member_id]) for member_id, size in sizes.items() if size != quotas[member_id]
    }
    for member_id, have in changing.items():
        free += have[quotas[member_id] :]
    moved: dict[str, dict[Uuid, set[int]]] = {}
    given = 0
    for member_id, have in changing.items():
        wants = max(0, quotas[member_id] - len(have))
        by_topic = moved[member_id] = {}
        for topic_id, partition in have[: quotas[member_id]] + free[given : given + wants]:
            by_topic.setdefault(topic_id, set()).add(partition)
        given += wants
    assignment.update(frozen(moved))
    return assignment


def _in_order(mine: Mapping[Uuid, frozenset[int]]) -> list[tuple[Uuid, int]]:
    return [(topic_id, partition) for topic_id in sorted(mine) for partition in sorted(mine[topic_id])]


def _quotas(sizes: dict[str, int], total: int) -> dict[str, int]:
    """Say how many partitions each member shall have: all equally many, and one more for those left over.

    The one more goes to members that have it already, as long as there are such; then to the last ones.
    """
    low, extras = divmod(total, len(sizes))
    quotas = {}
    for left, (member_id, size) in zip(range(len(sizes), 0, -1), sizes.items(), strict=True):
        extra = extras > 0 and (size > low or left <= extras)
        extras -= extra
        quotas[member_id] = low + extra
    return quotas
