"""The `range` assignor (KIP-848): of each topic, every member gets one run of neighbouring partitions.

Topics of one size are cut alike, so that members of one subscription get the same numbers of each: what
joins of streams need. Static members come first, by instance id, so that a restart under a new member id
changes nothing. What members have had plays no part.
"""

from __future__ import annotations

from collections import Counter

from barnabas.core.groups.assignors.spec import Assignment, GroupSpec, Topics, existing_count
from barnabas.model.uuid import Uuid


def assign_ranges(spec: GroupSpec, topics: Topics) -> Assignment:
    """Give the assignment by ranges; PartitionAssignorError when a topic that a member wants is not there."""
    subscribers = Counter(topic_id for member in spec.members.values() for topic_id in member.subscribed)
    cuts = {topic_id: _Cuts(existing_count(topics, topic_id), count) for topic_id, count in subscribers.items()}
    assignment: dict[str, dict[Uuid, frozenset[int]]] = {}
    for member_id in _in_turn(spec):
        runs = {topic_id: cuts[topic_id].next() for topic_id in spec.members[member_id].subscribed}
        assignment[member_id] = {topic_id: frozenset(run) for topic_id, run in runs.items() if run}
    return assignment


def _in_turn(spec: GroupSpec) -> list[str]:
    """Order members: the static ones by instance id, then the others by member id."""

    def turn(member_id: str) -> tuple[bool, str]:
        instance_id = spec.members[member_id].instance_id
        return instance_id is None, member_id if instance_id is None else instance_id

    return sorted(spec.members, key=turn)


class _Cuts:
    """A topic being cut into as many runs as it has subscribers; the first ones get the remainder."""

    __slots__ = ("_extra", "_quota", "_start")

    def __init__(self, partition_count: int, subscribers: int) -> None:
        self._quota, self._extra = divmod(partition_count, subscribers)
        self._start = 0

    def next(self) -> range:
        """Give the next subscriber's run, which may be empty."""
        end = self._start + self._quota + (self._extra > 0)
        self._extra -= self._extra > 0
        run = range(self._start, end)
        self._start = end
        return run
