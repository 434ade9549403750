"""Replicas and group shards follow the topics of the metadata log."""

from __future__ import annotations

from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from barnabas.server.metrics import ServerMetrics
from barnabas.server.partitions import Partition, Partitions


class TopicPublisher:
    """Makes, moves and drops replicas as the log says."""

    def __init__(self, partitions: Partitions, groups: GroupCoordinator, metrics: ServerMetrics) -> None:
        self._partitions = partitions
        self._groups = groups
        self._metrics = metrics

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take up the topics of a delta; those that are gone first, as a name may be used again."""
        for topic_id, name in delta.deleted_topics.items():
            for number in delta.before.topics.by_id[topic_id].partitions:
                self._partitions.drop(TopicPartition(name, number))
            self._metrics.forget_topic(name)
        changed: list[Partition] = []
        for topic_id, numbers in delta.topics.items():
            changed += self._partitions.replay_topic(image.topics.by_id[topic_id], sorted(numbers))
        for partition in changed:
            if partition.tp.topic == OFFSETS_TOPIC:
                if partition.is_leader:
                    self._groups.elected(partition.tp.partition)
                else:
                    self._groups.resigned(partition.tp.partition)
        if delta.deleted_topics:
            self._groups.topics_deleted([(name, topic_id) for topic_id, name in delta.deleted_topics.items()])
