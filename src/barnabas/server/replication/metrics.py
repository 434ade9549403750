"""What of replicas is read off when somebody looks: gauges under Kafka's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.model.metrics import Metrics, mbean

if TYPE_CHECKING:
    from barnabas.server.replication.partition import Partition
    from barnabas.server.replication.purgatory import Purgatory
    from barnabas.server.replication.replica_manager import ReplicaManager


def publish_replica_metrics(metrics: Metrics, replicas: ReplicaManager) -> None:
    """Publish the gauges of replicas, fetchers, quotas and waiting requests."""
    partitions, fetchers = replicas.partitions, replicas.fetchers

    def led(name: str, holds: Callable[[Partition], bool]) -> None:
        metrics.gauge(
            mbean("kafka.server", type="ReplicaManager", name=name),
            lambda: sum(p.leadership is not None and holds(p) for p in partitions),
        )

    led("LeaderCount", lambda p: True)
    led("UnderReplicatedPartitions", lambda p: p.led().under_replicated)
    led("UnderMinIsrPartitionCount", lambda p: len(p.led().isr) < p.min_isr)
    led("AtMinIsrPartitionCount", lambda p: len(p.led().isr) == p.min_isr)
    led("ReassigningPartitions", lambda p: p.led().reassigning)
    metrics.gauge(mbean("kafka.server", type="ReplicaManager", name="PartitionCount"), lambda: len(partitions))
    metrics.gauge(
        mbean("kafka.server", type="ReplicaManager", name="OfflineReplicaCount"), lambda: partitions.offline_count
    )
    metrics.gauge(
        mbean("kafka.server", type="ReplicaManager", name="ProducerIdCount"),
        lambda: sum(len(p.log.producers.entries) for p in partitions),
    )
    fetcher_metrics: dict[str, Callable[[], int | float]] = {
        "MaxLag": fetchers.max_lag,
        "FailedPartitionsCount": fetchers.failed_count,
        "DeadThreadCount": fetchers.dead_count,
        "MinFetchRate": fetchers.min_fetch_rate,
    }
    for name, read in fetcher_metrics.items():
        metrics.gauge(mbean("kafka.server", type="ReplicaFetcherManager", name=name, clientId="Replica"), read)
    metrics.gauge(
        mbean("kafka.server", type="ReplicaAlterLogDirsManager", name="MaxLag", clientId="ReplicaAlterLogDirs"),
        replicas.moves.lag,
    )
    waiting = {"Produce": replicas.writes, "Fetch": replicas.fetches, "DeleteRecords": replicas.deletions}
    for operation, purgatory in waiting.items():
        _purgatory(metrics, operation, purgatory)
    for kind, quota in (("Leader", replicas.leader_quota), ("Follower", replicas.follower_quota)):
        metrics.gauge(mbean("kafka.server", type=f"{kind}Replication"), quota.rate, "byte-rate")


def _purgatory(metrics: Metrics, operation: str, purgatory: Purgatory) -> None:
    for name in ("PurgatorySize", "NumDelayedOperations"):
        metrics.gauge(
            mbean("kafka.server", type="DelayedOperationPurgatory", name=name, delayedOperation=operation),
            lambda: purgatory.size,
        )
