"""Many records about topics replayed in one go: a snapshot, or the partitions of a broker that died.

The same outcome as one record after another, at a fraction of the cost: persistent maps are rebuilt once for the whole
run, not once a record.
"""

from __future__ import annotations

from typing import Any, Final

from barnabas.core.metadata.partition import PartitionRegistration
from barnabas.core.metadata.partition_index import PlaceId
from barnabas.core.metadata.topics import TopicImage, TopicsImage, collision_key
from barnabas.core.replicated import ReplayError
from barnabas.model.uuid import Uuid
from barnabas.wire.records.partition_change_record import PartitionChangeRecord
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.topic_record import TopicRecord

RUNS: Final = frozenset({TopicRecord, PartitionRecord, PartitionChangeRecord})
"""The records that a run takes; any other ends it."""


class TopicRun:
    """Takes records of `RUNS`, one after the other; `finish` gives the topics after all of them."""

    __slots__ = ("_colliding", "_image", "_partitions", "_topics")

    def __init__(self, image: TopicsImage) -> None:
        self._image = image
        self._topics: dict[Uuid, TopicImage] = {}
        self._colliding: dict[str, frozenset[str]] = {}
        self._partitions: dict[PlaceId, PartitionRegistration] = {}

    def add(self, record: Any) -> None:
        """Take one record; ReplayError when it does not fit, and then the run is as it was."""
        if type(record) is TopicRecord:
            self._add_topic(record)
            return
        topic = self._topic(record.topic_id)
        place = (topic.id, record.partition_id)
        if type(record) is PartitionRecord:
            self._partitions[place] = PartitionRegistration.of(record)
            return
        partition = self._partitions.get(place) or topic.partitions.get(record.partition_id)
        if partition is None:
            raise ReplayError(f"the metadata log changes {topic.name}-{place[1]}, which no earlier record made")
        self._partitions[place] = partition.changed(record)

    def partition(self, record: PartitionChangeRecord) -> PartitionRegistration | None:
        """Give the partition that a record changes as the run has left it so far, None when there is none."""
        found = self._partitions.get((record.topic_id, record.partition_id))
        if found is None:
            topic = self._topics.get(record.topic_id) or self._image.by_id.get(record.topic_id)
            found = None if topic is None else topic.partitions.get(record.partition_id)
        return found

    def _add_topic(self, record: TopicRecord) -> None:
        key = collision_key(record.name)
        if key is not None:
            names = self._colliding.get(key) or self._image.colliding.get(key) or frozenset()
            self._colliding[key] = names | {record.name}
        self._topics[record.topic_id] = TopicImage(record.name, record.topic_id)

    def _topic(self, topic_id: Uuid) -> TopicImage:
        topic = self._topics.get(topic_id)
        if topic is None:
            topic = self._image.by_id.get(topic_id)
            if topic is None:
                raise ReplayError(f"the metadata log names topic id {topic_id}, which no earlier record made")
            self._topics[topic_id] = topic
        return topic

    def finish(self) -> TopicsImage:
        """Give the topics after the run."""
        by_topic: dict[Uuid, dict[int, PartitionRegistration]] = {topic_id: {} for topic_id in self._topics}
        changes = {}
        for (topic_id, number), partition in self._partitions.items():
            by_topic[topic_id][number] = partition
            changes[topic_id, number] = (self._topics[topic_id].partitions.get(number), partition)
        changed = [
            TopicImage(topic.name, topic.id, topic.partitions.update(by_topic[topic.id]))
            for topic in self._topics.values()
        ]
        image = self._image
        return TopicsImage(
            image.by_name.update({topic.name: topic for topic in changed}),
            image.by_id.update({topic.id: topic for topic in changed}),
            image.colliding.update(self._colliding),
            image.index.with_changes(changes),
        )
