"""Committed offsets: an immutable image, what may be committed, fetched and deleted, and what expires.

Offsets of an open transaction stand apart, by producer id, until its marker says whether they count
(KIP-98, KIP-447).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from immutables import Map

from barnabas.model.uuid import ZERO_UUID, Uuid
from barnabas.wire.records.offset_commit_value import OffsetCommitValue


class Place(NamedTuple):
    """What an offset is committed for."""

    group_id: str
    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    """An offset and what came with it. leader_epoch, expire_ms: -1 when absent.

    record_offset: where in `__consumer_offsets` it was written; a later commit has a greater one.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int
    topic_id: Uuid
    record_offset: int

    @classmethod
    def from_record(cls, record_offset: int, value: OffsetCommitValue) -> CommittedOffset:
        """Give what a record in the log says."""
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )

    def is_expired(self, base_ms: int, now_ms: int, retention_ms: int) -> bool:
        """Whether its own time has come (old clients gave one), or retention has passed since base_ms."""
        return now_ms >= self.expire_ms if self.expire_ms != -1 else now_ms - base_ms >= retention_ms


_Partitions = Map[int, CommittedOffset]
_Topics = Map[str, "Map[int, CommittedOffset]"]


@dataclass(frozen=True, slots=True)
class OffsetsImage:
    """All offsets of a shard. open_producers: [group][(topic, partition)], the producers with a pending one."""

    by_group: Map[str, _Topics] = field(default_factory=Map)
    pending: Map[int, Map[Place, CommittedOffset]] = field(default_factory=Map)
    open_producers: Map[str, Map[tuple[str, int], frozenset[int]]] = field(default_factory=Map)

    def __len__(self) -> int:
        return sum(len(partitions) for topics in self.by_group.values() for partitions in topics.values())

    def get(self, place: Place) -> CommittedOffset | None:
        """Give the committed offset of a place, pending ones aside."""
        topics = self.by_group.get(place.group_id)
        partitions = topics.get(place.topic) if topics is not None else None
        return partitions.get(place.partition) if partitions is not None else None

    def topics(self, group_id: str) -> list[tuple[str, list[tuple[int, CommittedOffset]]]]:
        """Give a group's offsets as (topic, [(partition, offset)]), sorted."""
        topics = self.by_group.get(group_id)
        if topics is None:
            return []
        return [(topic, sorted(partitions.items())) for topic, partitions in sorted(topics.items())]

    def has_open_transaction(self, group_id: str) -> bool:
        """Whether the group has an offset in an open transaction."""
        return group_id in self.open_producers

    def is_unstable(self, place: Place) -> bool:
        """Whether an open transaction may still change the place's offset."""
        producers = self.open_producers.get(place.group_id)
        return producers is not None and (place.topic, place.partition) in producers

    def places(self, group_id: str) -> Iterator[Place]:
        """Give all places of a group, committed first, then those that are only pending."""
        for topic, partitions in self.topics(group_id):
            for partition, _ in partitions:
                yield Place(group_id, topic, partition)
        for topic, partition in sorted(self.open_producers.get(group_id, Map())):
            place = Place(group_id, topic, partition)
            if self.get(place) is None:
                yield place

    # replay

    def put(self, place: Place, committed: CommittedOffset) -> OffsetsImage:
        """Give the image after a commit outside any transaction."""
        topics = self.by_group.get(place.group_id, _NO_TOPICS)
        partitions = topics.get(place.topic, _NO_PARTITIONS)
        topics = topics.set(place.topic, partitions.set(place.partition, committed))
        return OffsetsImage(self.by_group.set(place.group_id, topics), self.pending, self.open_producers)

    def put_pending(self, place: Place, producer_id: int, committed: CommittedOffset) -> OffsetsImage:
        """Give the image after a commit inside an open transaction."""
        mine = self.pending.get(producer_id, _NO_PENDING)
        group = self.open_producers.get(place.group_id, _NO_PRODUCERS)
        where = (place.topic, place.partition)
        producers = group.get(where, frozenset()) | {producer_id}
        return replace(
            self,
            pending=self.pending.set(producer_id, mine.set(place, committed)),
            open_producers=self.open_producers.set(place.group_id, group.set(where, producers)),
        )

    def remove(self, place: Place) -> OffsetsImage:
        """Give the image after a tombstone, which ends pending offsets of the place as well."""
        image = self._without_committed(place)
        for producer_id in image._producers(place):
            mine = image.pending.get(producer_id)
            if mine is not None and place in mine:
                image = replace(image, pending=image.pending.set(producer_id, mine.delete(place)))
        return image._close(place, image._producers(place))

    def end_transaction(self, producer_id: int, *, commit: bool) -> OffsetsImage:
        """Give the image after a transaction's marker; of two commits the one later in the log stays."""
        mine = self.pending.get(producer_id)
        if mine is None:
            return self
        image = replace(self, pending=self.pending.delete(producer_id))
        for place, committed in mine.items():
            image = image._close(place, frozenset({producer_id}))
            existing = image.get(place)
            if commit and (existing is None or committed.record_offset > existing.record_offset):
                image = image.put(place, committed)
        return image

    def _producers(self, place: Place) -> frozenset[int]:
        return self.open_producers.get(place.group_id, _NO_PRODUCERS).get((place.topic, place.partition), frozenset())

    def _close(self, place: Place, producers: frozenset[int]) -> OffsetsImage:
        group = self.open_producers.get(place.group_id)
        where = (place.topic, place.partition)
        if group is None or where not in group:
            return self
        rest = group[where] - producers
        group = group.set(where, rest) if rest else group.delete(where)
        groups = self.open_producers
        return replace(
            self,
            open_producers=groups.set(place.group_id, group) if group else groups.delete(place.group_id),
        )

    def _without_committed(self, place: Place) -> OffsetsImage:
        topics = self.by_group.get(place.group_id)
        partitions = topics.get(place.topic) if topics is not None else None
        if topics is None or partitions is None or place.partition not in partitions:
            return self
        partitions = partitions.delete(place.partition)
        topics = topics.set(place.topic, partitions) if partitions else topics.delete(place.topic)
        groups = self.by_group
        return replace(self, by_group=groups.set(place.group_id, topics) if topics else groups.delete(place.group_id))


def is_other_topic(committed: CommittedOffset, topic_id: Uuid) -> bool:
    """Whether the offset was committed for an earlier topic of the same name."""
    return ZERO_UUID not in (committed.topic_id, topic_id) and committed.topic_id != topic_id


_NO_PARTITIONS: _Partitions = Map()
_NO_TOPICS: _Topics = Map()
_NO_PENDING: Map[Place, CommittedOffset] = Map()
_NO_PRODUCERS: Map[tuple[str, int], frozenset[int]] = Map()
