"""The `uniform` assignor (KIP-848): members get equally many partitions, and keep what they have where they can.

Here for members that all want the same topics: nobody has more than one partition more than another, and no
partition moves that need not. `mixed.py` is for members that want different topics.
"""

from __future__ import annotations

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
    had: dict[str, list[tuple[Uuid, int]]] = {member_id: [] for member_id in sorted(spec.members)}
    for member_id, topic_id, partitions in kept(spec, counts):
        had[member_id].extend((topic_id, partition) for partition in partitions)
    quotas = _quotas({member_id: len(have) for member_id, have in had.items()}, sum(counts.values()))

    owned = {partition for have in had.values() for partition in have}
    free = [(topic_id, n) for topic_id in subscribed for n in range(counts[topic_id]) if (topic_id, n) not in owned]
    for member_id, have in had.items():
        free += have[quotas[member_id] :]
    assignment: dict[str, dict[Uuid, set[int]]] = {}
    given = 0
    for member_id, have in had.items():
        wants = max(0, quotas[member_id] - len(have))
        by_topic = assignment[member_id] = {}
        for topic_id, partition in have[: quotas[member_id]] + free[given : given + wants]:
            by_topic.setdefault(topic_id, set()).add(partition)
        given += wants
    return frozen(assignment)


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
