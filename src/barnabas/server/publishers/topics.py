"""Replicas and group shards follow the topics of the metadata log."""

from __future__ import annotations

from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.server.groups.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from barnabas.server.metrics import ServerMetrics
from barnabas.server.replication.replica_manager import ReplicaManager


class TopicPublisher:
    """Makes, moves and drops replicas as the log says."""

    def __init__(self, replicas: ReplicaManager, groups: GroupCoordinator, metrics: ServerMetrics) -> None:
        self._replicas = replicas
        self._groups = groups
        self._metrics = metrics

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take up the topics of a delta."""
        for partition, left in self._replicas.publish(delta, image):
            if partition.tp.topic == OFFSETS_TOPIC:
                if partition.is_leader and not left:
                    self._groups.elected(partition.tp.partition)
                else:
                    self._groups.resigned(partition.tp.partition)
        for name in delta.deleted_topics.values():
            self._metrics.topics.forget(name)
        if delta.deleted_topics:
            self._groups.topics_deleted([(name, topic_id) for topic_id, name in delta.deleted_topics.items()])
