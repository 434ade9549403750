"""What a broker tells the controller of its replicas, on real nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from barnabas.core.metadata.topics import RECOVERED, PartitionRegistration
from barnabas.testing.cluster import Cluster


def partitions_of(cluster: Cluster, topic: str) -> list[PartitionRegistration]:
    return [p for _, p in sorted(cluster.node.image().topics.by_name[topic].partitions.items())]


def broker_epoch(cluster: Cluster) -> int:
    assert cluster.node.broker is not None
    return cluster.node.broker.lifecycle.epoch


def until(cluster: Cluster, true: Callable[[], bool]) -> None:
    """Wait, change by change of the metadata, until something is so."""

    async def wait(_: object) -> None:
        while not true():
            await cluster.node.next_image()

    cluster.run(wait)


def test_a_broker_with_two_directories_says_where_each_replica_lies(tmp_path: Path) -> None:
    dirs = [tmp_path / "one", tmp_path / "two"]
    with Cluster(tmp_path / "node", {"log.dirs": ",".join(map(str, dirs))}) as cluster:
        cluster.create_topic("orders", partitions=4)
        ids = {d.directory_id for d in cluster.node.log_dirs.directories}
        until(cluster, lambda: {p.directories[0] for p in partitions_of(cluster, "orders")} == ids)


def test_a_clean_restart_keeps_the_in_sync_replicas(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "node")
    with cluster:
        cluster.create_topic("orders")
        epoch = broker_epoch(cluster)
    with cluster:
        assert broker_epoch(cluster) > epoch
        assert [d.clean_broker_epoch for d in cluster.node.log_dirs.directories] == [epoch]
        (partition,) = partitions_of(cluster, "orders")
        assert (partition.leader, partition.isr) == (1, (1,))
        assert partition.leader_recovery_state == RECOVERED


def test_after_a_crash_the_leader_recovers_and_says_so(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "node")
    with cluster:
        cluster.create_topic("orders")
    (tmp_path / "node" / "data" / ".kafka_cleanshutdown").unlink()
    with cluster:
        until(cluster, lambda: partitions_of(cluster, "orders")[0].leader == 1)
        until(cluster, lambda: partitions_of(cluster, "orders")[0].leader_recovery_state == RECOVERED)
