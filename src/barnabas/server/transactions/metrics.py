"""What the transaction coordinator and the verifier of transactions have, under Kafka's MBean names."""

from __future__ import annotations

from typing import Final

from barnabas.model.metrics import Metrics, mbean
from barnabas.server.coordinators.load_times import publish_load_times
from barnabas.server.transactions.transaction_coordinator import TransactionCoordinator

MARKERS: Final = "TransactionMarkerChannelManager"


def publish_transaction_metrics(registry: Metrics, transactions: TransactionCoordinator) -> None:
    """Publish how long partitions took to load, and how many transactions wait: for leaders, and to be noted."""
    publish_load_times(registry, mbean("kafka.server", type="transaction-coordinator-metrics"), transactions.shards)
    waiting = {
        "UnknownDestinationQueueSize": transactions.markers.without_leader,
        "LogAppendRetryQueueSize": lambda: len(transactions.noting_again),
    }
    for name, read in waiting.items():
        registry.gauge(mbean("kafka.coordinator.transaction", type=MARKERS, name=name), read)
