"""Topics and partitions: their image and how records change it. What is decided about them is in the modules beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from immutables import Map

from barnabas.core.metadata.levels import Levels
from barnabas.core.metadata.partition import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    RECOVERED,
    RECOVERING,
    PartitionRegistration,
)
from barnabas.core.metadata.partition_index import PartitionIndex
from barnabas.core.replicated import ReplayError, VersionedRecord, replays
from barnabas.model.uuid import Uuid
from barnabas.wire.records.clear_elr_record import ClearElrRecord
from barnabas.wire.records.partition_change_record import PartitionChangeRecord
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.remove_topic_record import RemoveTopicRecord
from barnabas.wire.records.topic_record import TopicRecord


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic and its partitions by number."""

    name: str
    id: Uuid
    partitions: Map[int, PartitionRegistration] = field(default_factory=Map)


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """All topics, by name and by id, and where to look for the partitions that a change concerns.

    colliding: names that hold `.` or `_`, by what metrics make of them.
    """

    by_name: Map[str, TopicImage] = field(default_factory=Map)
    by_id: Map[Uuid, TopicImage] = field(default_factory=Map)
    colliding: Map[str, frozenset[str]] = field(default_factory=Map)
    index: PartitionIndex = field(default_factory=PartitionIndex)

    def partition(self, name: str, partition: int) -> PartitionRegistration | None:
        """Give a partition, None when there is no such topic or partition."""
        topic = self.by_name.get(name)
        return None if topic is None else topic.partitions.get(partition)

    def with_partition(self, topic: TopicImage, number: int, partition: PartitionRegistration) -> TopicsImage:
        """Give the topics with one partition of this topic added or replaced."""
        changed = TopicImage(topic.name, topic.id, topic.partitions.set(number, partition))
        index = self.index.changed((topic.id, number), topic.partitions.get(number), partition)
        return TopicsImage(
            self.by_name.set(topic.name, changed), self.by_id.set(topic.id, changed), self.colliding, index
        )


def collision_key(name: str) -> str | None:
    """Give what a name becomes where `.` and `_` cannot be told apart; None for a name with neither."""
    return name.replace(".", "_") if "." in name or "_" in name else None


def _topic(image: TopicsImage, topic_id: Uuid) -> TopicImage:
    topic = image.by_id.get(topic_id)
    if topic is None:
        raise ReplayError(f"the metadata log names topic id {topic_id}, which no earlier record made")
    return topic


@replays(TopicRecord)
def add_topic(image: TopicsImage, r: TopicRecord) -> TopicsImage:
    """Make a topic without partitions; they follow."""
    key = collision_key(r.name)
    if key is not None:
        names = image.colliding.get(key, frozenset()) | {r.name}
        image = replace(image, colliding=image.colliding.set(key, names))
    topic = TopicImage(r.name, r.topic_id)
    return replace(image, by_name=image.by_name.set(r.name, topic), by_id=image.by_id.set(r.topic_id, topic))


@replays(PartitionRecord)
def add_partition(image: TopicsImage, r: PartitionRecord) -> TopicsImage:
    """Register a partition."""
    topic = _topic(image, r.topic_id)
    return image.with_partition(topic, r.partition_id, PartitionRegistration.of(r))


@replays(PartitionChangeRecord)
def change_partition(image: TopicsImage, r: PartitionChangeRecord) -> TopicsImage:
    """Change what the record names of a partition."""
    topic = _topic(image, r.topic_id)
    partition = topic.partitions.get(r.partition_id)
    if partition is None:
        raise ReplayError(f"the metadata log changes {topic.name}-{r.partition_id}, which no earlier record made")
    return image.with_partition(topic, r.partition_id, partition.changed(r))


@replays(RemoveTopicRecord)
def remove_topic(image: TopicsImage, r: RemoveTopicRecord) -> TopicsImage:
    """Remove a topic with its partitions. (Its configs go too: see `configs`.)"""
    topic = _topic(image, r.topic_id)
    by_name = image.by_name
    current = by_name.get(topic.name)
    if current is not None and current.id == topic.id:
        by_name = by_name.delete(topic.name)
    colliding = image.colliding
    key = collision_key(topic.name)
    if key is not None and topic.name not in by_name:
        left = colliding.get(key, frozenset()) - {topic.name}
        colliding = colliding.set(key, left) if left else colliding.delete(key)
    index = image.index
    for number, partition in topic.partitions.items():
        index = index.changed((topic.id, number), partition, None)
    return TopicsImage(by_name, image.by_id.delete(topic.id), colliding, index)


@replays(ClearElrRecord)
def clear_elr(image: TopicsImage, r: ClearElrRecord) -> TopicsImage:
    """Forget the eligible leaders of one topic, or of all when the name is empty."""
    if r.topic_name:
        named = image.by_name.get(r.topic_name)
        if named is None:
            raise ReplayError(f"the metadata log clears the ELR of {r.topic_name!r}, which does not exist")
        return _without_elr(image, named)
    for topic in list(image.by_id.values()):
        image = _without_elr(image, topic)
    return image


def _without_elr(image: TopicsImage, topic: TopicImage) -> TopicsImage:
    for number, partition in topic.partitions.items():
        if partition.elr or partition.last_known_elr:
            cleared = PartitionChangeRecord(
                partition_id=number, topic_id=topic.id, eligible_leader_replicas=[], last_known_elr=[]
            )
            image = image.with_partition(image.by_id[topic.id], number, partition.changed(cleared))
    return image


REPLAYS: Final[tuple[Callable[..., Any], ...]] = (
    add_topic,
    add_partition,
    change_partition,
    remove_topic,
    clear_elr,
)


def snapshot_records(image: TopicsImage, levels: Levels) -> Iterator[VersionedRecord]:
    """Give the records that make the image: each topic before its partitions."""
    for topic in sorted(image.by_id.values(), key=lambda topic: topic.name):
        yield VersionedRecord(TopicRecord(name=topic.name, topic_id=topic.id), 0)
        for number, partition in sorted(topic.partitions.items()):
            yield partition.record(topic.id, number, levels)


__all__ = [
    "NO_LEADER",
    "NO_LEADER_CHANGE",
    "RECOVERED",
    "RECOVERING",
    "REPLAYS",
    "PartitionRegistration",
    "TopicImage",
    "TopicsImage",
    "collision_key",
    "snapshot_records",
]
