"""What of replicas is read off when somebody looks: gauges under Kafka's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from barnabas.model.metrics import Bean, Metrics, mbean

if TYPE_CHECKING:
    from barnabas.core.replication.leadership import Leadership
    from barnabas.server.replication.fetchers import ReplicaFetchers
    from barnabas.server.replication.partition import Partition
    from barnabas.server.replication.partitions import Partitions
    from barnabas.server.replication.purgatory import Purgatory
    from barnabas.server.replication.replica_manager import ReplicaManager


def publish_replica_metrics(metrics: Metrics, replicas: ReplicaManager, longest_transaction_ms: int) -> None:
    """Publish the gauges of replicas, fetchers, quotas and waiting requests.

    longest_transaction_ms: how long one may take that is not late.
    """
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
    led(
        "PartitionsWithLateTransactionsCount",
        lambda p: p.log.producers.has_late_transaction(metrics.clock.now_ms(), longest_transaction_ms),
    )
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
    moves: dict[str, Callable[[], int | float]] = {
        "MaxLag": replicas.moves.lag,
        "DeadThreadCount": replicas.moves.dead_count,
        "FailedPartitionsCount": lambda: len(replicas.moves.failed),
    }
    for name, read in moves.items():
        tags = {"type": "ReplicaAlterLogDirsManager", "name": name, "clientId": "ReplicaAlterLogDirs"}
        metrics.gauge(mbean("kafka.server", **tags), read)
    queued = mbean("kafka.server", type="AssignmentsManager", name="QueuedReplicaToDirAssignments")
    metrics.gauge(queued, lambda: replicas.reports.queued)
    waiting = {"Produce": replicas.writes, "Fetch": replicas.fetches, "DeleteRecords": replicas.deletions}
    for operation, purgatory in waiting.items():
        _purgatory(metrics, operation, purgatory)
    _expirations(metrics, replicas)
    metrics.source("kafka.cluster:type=Partition", lambda: _of_partitions(partitions))
    metrics.source("kafka.server:type=FetcherStats", lambda: _of_fetchers(fetchers))
    metrics.source("kafka.server:type=FetcherLagMetrics", lambda: _lags(fetchers))
    for kind, quota in (("Leader", replicas.leader_quota), ("Follower", replicas.follower_quota)):
        metrics.gauge(mbean("kafka.server", type=f"{kind}Replication"), quota.rate, "byte-rate")


def _expirations(metrics: Metrics, replicas: ReplicaManager) -> None:
    fetches = replicas.fetches

    def expires(kind: str, count: Callable[[], int], **tags: str) -> None:
        metrics.counted(mbean("kafka.server", type=f"Delayed{kind}Metrics", name="ExpiresPerSec", **tags), count)

    expires("Produce", lambda: replicas.writes.expirations)
    expires("Fetch", lambda: fetches.follower_expirations, fetcherType="follower")
    expires("Fetch", lambda: fetches.expirations - fetches.follower_expirations, fetcherType="consumer")


def _of_partitions(partitions: Partitions) -> Iterator[Bean]:
    """Enumerate the gauges of partitions; those of a leader are 0 on a follower, as in Kafka."""
    for name, read in _OF_A_PARTITION.items():
        for partition in list(partitions):
            topic, number = partition.tp.topic, str(partition.tp.partition)
            bean = mbean("kafka.cluster", type="Partition", name=name, topic=topic, partition=number)
            yield bean, {"Value": read(partition)}


def _of_a_leader(read: Callable[[Partition, Leadership], int]) -> Callable[[Partition], int]:
    return lambda partition: 0 if (led := partition.leadership) is None else read(partition, led)


_OF_A_PARTITION: Final[dict[str, Callable[[Partition], int]]] = {
    "AtMinIsr": _of_a_leader(lambda p, led: int(len(led.isr) == p.min_isr)),
    "InSyncReplicasCount": _of_a_leader(lambda p, led: len(led.isr)),
    "LastStableOffsetLag": lambda p: p.log.high_watermark - p.log.last_stable_offset,
    "ReplicasCount": _of_a_leader(lambda p, led: len(p.replicas)),
    "UnderMinIsr": _of_a_leader(lambda p, led: int(len(led.isr) < p.min_isr)),
    "UnderReplicated": _of_a_leader(lambda p, led: int(led.under_replicated)),
}


def _of_fetchers(fetchers: ReplicaFetchers) -> Iterator[Bean]:
    for client, fetcher in fetchers.connections():
        address = fetchers.address(fetcher.leader_id)
        host, port = ("", "") if address is None else (address[0], str(address[1]))
        for name, meter in (("BytesPerSec", fetcher.followed.bytes_in), ("RequestsPerSec", fetcher.requests)):
            tags = {"name": name, "clientId": client, "brokerHost": host, "brokerPort": port}
            yield mbean("kafka.server", type="FetcherStats", **tags), meter.attributes()


def _lags(fetchers: ReplicaFetchers) -> Iterator[Bean]:
    for client, fetcher in fetchers.connections():
        for tp, lag in fetcher.followed.lags_by_name():
            tags = {"name": "ConsumerLag", "clientId": client, "topic": tp.topic, "partition": str(tp.partition)}
            yield mbean("kafka.server", type="FetcherLagMetrics", **tags), {"Value": lag}


def _purgatory(metrics: Metrics, operation: str, purgatory: Purgatory) -> None:
    for name in ("PurgatorySize", "NumDelayedOperations"):
        metrics.gauge(
            mbean("kafka.server", type="DelayedOperationPurgatory", name=name, delayedOperation=operation),
            lambda: purgatory.size,
        )
