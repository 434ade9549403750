"""Replicas and the coordinators' shards follow the topics of the metadata log."""

from __future__ import annotations

from typing import Protocol

from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.server.groups.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from barnabas.server.metrics import ServerMetrics
from barnabas.server.replication.replica_manager import ReplicaManager
from barnabas.server.transactions.transaction_coordinator import TRANSACTION_TOPIC, TransactionCoordinator


class _Coordinator(Protocol):
    def elected(self, partition: int) -> object: ...

    def resigned(self, partition: int) -> None: ...


class TopicPublisher:
    """Makes, moves and drops replicas as the log says."""

    def __init__(
        self,
        replicas: ReplicaManager,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        metrics: ServerMetrics,
    ) -> None:
        self._replicas = replicas
        self._groups = groups
        self._coordinators: dict[str, _Coordinator] = {OFFSETS_TOPIC: groups, TRANSACTION_TOPIC: transactions}
        self._metrics = metrics

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take up the topics of a delta."""
        self._groups.topics.publish(delta, image)
        for partition, left in self._replicas.publish(delta, image):
            coordinator = self._coordinators.get(partition.tp.topic)
            if coordinator is None:
                continue
            if partition.is_leader and not left:
                coordinator.elected(partition.tp.partition)
            else:
                coordinator.resigned(partition.tp.partition)
        for name in delta.deleted_topics.values():
            self._metrics.topics.forget(name)
        if delta.deleted_topics:
            self._groups.topics_deleted([(name, topic_id) for topic_id, name in delta.deleted_topics.items()])
