"""Topics and partitions: their image and how records change it. What is decided about them is in the modules beside.

A partition epoch grows with every change, a leader epoch with every change of leader (and with some others, where the
record names the leader again). ELR: eligible leader replicas, which may lead though not in the ISR (KIP-966).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from immutables import Map

from barnabas.core.metadata.directories import MIGRATING
from barnabas.core.metadata.levels import Levels
from barnabas.core.replicated import ReplayError, VersionedRecord, replays
from barnabas.model.uuid import Uuid
from barnabas.wire.records.clear_elr_record import ClearElrRecord
from barnabas.wire.records.partition_change_record import PartitionChangeRecord
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.remove_topic_record import RemoveTopicRecord
from barnabas.wire.records.topic_record import TopicRecord

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2
RECOVERED: Final = 0
RECOVERING: Final = 1
"""Leader recovery state after an unclean election, until the leader says that it has recovered (KIP-704)."""
NO_RECOVERY_CHANGE: Final = -1


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """A partition as the controller knows it. directories: where each of `replicas` is, in the same order."""

    replicas: tuple[int, ...]
    directories: tuple[Uuid, ...]
    isr: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader: int = NO_LEADER
    leader_recovery_state: int = RECOVERED
    leader_epoch: int = 0
    partition_epoch: int = 0

    @property
    def preferred_leader(self) -> int:
        """The replica that leads when all is well."""
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def reassigning(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding_replicas or self.removing_replicas)

    def directory_of(self, replica: int) -> Uuid:
        """Give the directory id of a replica; ValueError when it is none of this partition."""
        return self.directories[self.replicas.index(replica)]

    def changed(self, r: PartitionChangeRecord) -> PartitionRegistration:
        """Give the partition after the change."""
        replicas = self.replicas if r.replicas is None else tuple(r.replicas)
        leads_anew = r.leader != NO_LEADER_CHANGE
        return PartitionRegistration(
            replicas=replicas,
            directories=_directories(self.directories if r.directories is None else r.directories, replicas),
            isr=_or(r.isr, self.isr),
            adding_replicas=_or(r.adding_replicas, self.adding_replicas),
            removing_replicas=_or(r.removing_replicas, self.removing_replicas),
            elr=_or(r.eligible_leader_replicas, self.elr),
            last_known_elr=_or(r.last_known_elr, self.last_known_elr),
            leader=r.leader if leads_anew else self.leader,
            leader_recovery_state=(
                self.leader_recovery_state if r.leader_recovery_state == NO_RECOVERY_CHANGE else r.leader_recovery_state
            ),
            leader_epoch=self.leader_epoch + leads_anew,
            partition_epoch=self.partition_epoch + 1,
        )

    def record(self, topic_id: Uuid, partition: int, levels: Levels) -> VersionedRecord:
        """Give the record that registers the partition as it is; what `levels` does not know is left out."""
        r = PartitionRecord(
            partition_id=partition,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing_replicas),
            adding_replicas=list(self.adding_replicas),
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )
        if levels.elr and self.elr:
            r.eligible_leader_replicas = list(self.elr)
        if levels.elr and self.last_known_elr:
            r.last_known_elr = list(self.last_known_elr)
        if levels.directories:
            r.directories = list(self.directories)
        return VersionedRecord(r, levels.partition_version)


def _or(new: list[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else tuple(new)


def _directories(given: list[Uuid] | tuple[Uuid, ...] | None, replicas: tuple[int, ...]) -> tuple[Uuid, ...]:
    if not given or all(directory == MIGRATING for directory in given):
        return (MIGRATING,) * len(replicas)
    if len(given) != len(replicas):
        raise ReplayError(f"a partition record names {len(given)} directories for {len(replicas)} replicas")
    return tuple(given)


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic and its partitions by number."""

    name: str
    id: Uuid
    partitions: Map[int, PartitionRegistration] = field(default_factory=Map)


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """All topics, by name and by id; colliding: names that hold `.` or `_`, by what metrics make of them."""

    by_name: Map[str, TopicImage] = field(default_factory=Map)
    by_id: Map[Uuid, TopicImage] = field(default_factory=Map)
    colliding: Map[str, frozenset[str]] = field(default_factory=Map)

    def partition(self, name: str, partition: int) -> PartitionRegistration | None:
        """Give a partition, None when there is no such topic or partition."""
        topic = self.by_name.get(name)
        return None if topic is None else topic.partitions.get(partition)

    def with_topic(self, topic: TopicImage) -> TopicsImage:
        """Give the topics with this one added or replaced."""
        return TopicsImage(self.by_name.set(topic.name, topic), self.by_id.set(topic.id, topic), self.colliding)


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
    return image.with_topic(TopicImage(r.name, r.topic_id))


@replays(PartitionRecord)
def add_partition(image: TopicsImage, r: PartitionRecord) -> TopicsImage:
    """Register a partition."""
    topic = _topic(image, r.topic_id)
    partition = PartitionRegistration(
        replicas=tuple(r.replicas),
        directories=_directories(r.directories, tuple(r.replicas)),
        isr=tuple(r.isr),
        adding_replicas=tuple(r.adding_replicas),
        removing_replicas=tuple(r.removing_replicas),
        elr=tuple(r.eligible_leader_replicas or ()),
        last_known_elr=tuple(r.last_known_elr or ()),
        leader=r.leader,
        leader_recovery_state=r.leader_recovery_state,
        leader_epoch=r.leader_epoch,
        partition_epoch=r.partition_epoch,
    )
    return image.with_topic(replace(topic, partitions=topic.partitions.set(r.partition_id, partition)))


@replays(PartitionChangeRecord)
def change_partition(image: TopicsImage, r: PartitionChangeRecord) -> TopicsImage:
    """Change what the record names of a partition."""
    topic = _topic(image, r.topic_id)
    partition = topic.partitions.get(r.partition_id)
    if partition is None:
        raise ReplayError(f"the metadata log changes {topic.name}-{r.partition_id}, which no earlier record made")
    return image.with_topic(replace(topic, partitions=topic.partitions.set(r.partition_id, partition.changed(r))))


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
    return TopicsImage(by_name, image.by_id.delete(topic.id), colliding)


@replays(ClearElrRecord)
def clear_elr(image: TopicsImage, r: ClearElrRecord) -> TopicsImage:
    """Forget the eligible leaders of one topic, or of all when the name is empty."""
    if r.topic_name:
        named = image.by_name.get(r.topic_name)
        if named is None:
            raise ReplayError(f"the metadata log clears the ELR of {r.topic_name!r}, which does not exist")
        return image.with_topic(_without_elr(named))
    for topic in list(image.by_id.values()):
        image = image.with_topic(_without_elr(topic))
    return image


def _without_elr(topic: TopicImage) -> TopicImage:
    partitions = topic.partitions
    for number, partition in topic.partitions.items():
        if partition.elr or partition.last_known_elr:
            cleared = PartitionChangeRecord(
                partition_id=number, topic_id=topic.id, eligible_leader_replicas=[], last_known_elr=[]
            )
            partitions = partitions.set(number, partition.changed(cleared))
    return topic if partitions is topic.partitions else replace(topic, partitions=partitions)


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
