"""What a coordinator knows of the cluster's topics when it turns subscriptions into assignments (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

from barnabas.core.groups.consumer.hashing import topic_hash
from barnabas.model.uuid import Uuid


@dataclass(frozen=True)
class Topic:
    """A topic. racks: of each partition's replicas, one entry a partition; they may be empty.

    The hash is computed once, so keep the value of a topic that did not change.
    """

    topic_id: Uuid
    name: str
    racks: tuple[tuple[str, ...], ...]

    @cached_property
    def hash(self) -> int:
        """Give what stands for id, name, partitions and racks in the hash of a group's metadata."""
        return topic_hash(self.topic_id, self.name, self.racks)


class TopicPatterns(Protocol):
    """Matches regular expressions of subscriptions against the topics that the one who asks may describe."""

    def check(self, regex: str) -> None:
        """Raise ApiError INVALID_REGULAR_EXPRESSION when this is none."""

    def match(self, regex: str) -> frozenset[str]:
        """Give the names of the topics that match as a whole."""


class NoPatterns:
    """The patterns of one who may describe nothing."""

    def check(self, regex: str) -> None:
        """Take everything."""

    def match(self, regex: str) -> frozenset[str]:
        """Give nothing."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class World:
    """The topics, and what one principal may find among them.

    version: grows with every change of topics, partitions or racks (it may grow with others as well).
    new_topics_version: the version in which a topic was last created.
    """

    version: int = -1
    by_name: Mapping[str, Topic] = field(default_factory=dict)
    by_id: Mapping[Uuid, Topic] = field(default_factory=dict)
    new_topics_version: int = -1
    patterns: TopicPatterns = field(default_factory=NoPatterns)

    @classmethod
    def of(cls, topics: Iterable[Topic], version: int, new_topics_version: int, patterns: TopicPatterns) -> World:
        """Give the world with these topics."""
        by_name = {topic.name: topic for topic in topics}
        by_id = {topic.topic_id: topic for topic in by_name.values()}
        return cls(version, by_name, by_id, new_topics_version, patterns)

    def ids_of(self, names: Iterable[str]) -> frozenset[Uuid]:
        """Give the ids of those topics that are there."""
        by_name = self.by_name
        return frozenset(by_name[name].topic_id for name in names if name in by_name)

    def partition_count(self, topic_id: Uuid) -> int:
        """Give how many partitions the topic has, -1 when there is no such topic."""
        topic = self.by_id.get(topic_id)
        return -1 if topic is None else len(topic.racks)

    def racks_of(self, topic_id: Uuid, partition: int) -> frozenset[str]:
        """Give the racks that have a replica of the partition."""
        topic = self.by_id.get(topic_id)
        return frozenset() if topic is None or partition >= len(topic.racks) else frozenset(topic.racks[partition])

    def hashes_of(self, names: Iterable[str]) -> dict[str, int]:
        """Give the hashes of those topics that are there."""
        return {name: self.by_name[name].hash for name in names if name in self.by_name}


NO_WORLD: Final = World()
