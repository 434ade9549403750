"""How the leader of a classic group shares partitions out: range and roundrobin, as Java's assignors do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Final

from barnabas.model.topic_partition import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""Member id -> its partitions."""
Assignor = Callable[[Mapping[str, Sequence[str]], Mapping[str, int]], Assignment]
"""(member id -> subscribed topics, topic -> number of partitions) -> assignment."""


def range_(subscriptions: Mapping[str, Sequence[str]], partitions: Mapping[str, int]) -> Assignment:
    """Topic by topic, give each member a run of neighbours; the first members get one more."""
    given: Assignment = {member: [] for member in subscriptions}
    for topic in sorted(partitions):
        members = sorted(m for m, topics in subscriptions.items() if topic in topics)
        start = 0
        for i, member in enumerate(members):
            each, more = divmod(partitions[topic], len(members))
            count = each + (i < more)
            given[member] += [TopicPartition(topic, p) for p in range(start, start + count)]
            start += count
    return given


def round_robin(subscriptions: Mapping[str, Sequence[str]], partitions: Mapping[str, int]) -> Assignment:
    """Deal all partitions out one by one, passing over members that do not want the topic."""
    given: Assignment = {member: [] for member in subscriptions}
    wanted = {topic for topics in subscriptions.values() for topic in topics}
    members = cycle(sorted(subscriptions))
    for topic in sorted(wanted & partitions.keys()):
        for partition in range(partitions[topic]):
            member = next(m for m in members if topic in subscriptions[m])
            given[member].append(TopicPartition(topic, partition))
    return given


ASSIGNORS: Final[Mapping[str, Assignor]] = {"range": range_, "roundrobin": round_robin}
_JAVA: Final = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
}


def assignor_names(strategies: Sequence[str]) -> list[str]:
    """Give the names, as they travel, of configured strategies; those we do not have are left out."""
    names = [_JAVA.get(s, s) for s in strategies]
    return [n for n in names if n in ASSIGNORS] or ["range"]
