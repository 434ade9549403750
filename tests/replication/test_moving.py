"""Replicas that move: to another broker within a rate, and to another directory of their broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import AlterConfigOp, ConfigChange, ConfigResource, ConfigResourceType
from barnabas.client.admin.reassignments import ElectionType, Replica
from barnabas.model.topic_partition import TopicPartition
from barnabas.testing.cluster import Cluster
from barnabas.testing.local import LocalCluster
from tests.peers.eventually import eventually
from tests.replication.looking import all_equal, contents, registered, replica, send, wait

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def throttle(cluster: LocalCluster, rate: int | None) -> None:
    """Set, or take away, the rates of every broker."""
    op = AlterConfigOp.DELETE if rate is None else AlterConfigOp.SET
    changes = [ConfigChange(key, op, None if rate is None else str(rate)) for key in RATES]
    resource = ConfigResource(ConfigResourceType.BROKER, "")
    answer = cluster.ask(lambda admin: admin.incremental_alter_configs({resource: changes}))
    assert answer == {resource: None}
    limited = rate is not None
    for node in cluster.brokers:
        replicas = node.node.replicas
        wait(
            cluster,
            lambda r=replicas: r.leader_quota.active is limited and r.follower_quota.active is limited,  # type: ignore[misc]
            "the rates are taken up",
        )


def test_a_reassignment_keeps_to_its_rate(cluster: LocalCluster) -> None:
    cluster.create_topic(
        "heavy",
        replication_factor=1,
        leader__replication__throttled__replicas="*",
        follower__replication__throttled__replicas="*",
    )
    send(cluster, "heavy", [b"x" * 100_000] * 30)
    source = cluster.leader("heavy")
    target = next(n for n in cluster.brokers if n is not source)
    tp = TopicPartition("heavy", 0)
    throttle(cluster, 1)
    moved = cluster.ask(lambda admin: admin.alter_partition_reassignments({tp: [target.node_id]}))
    assert moved == {tp: None}
    quota = target.node.replicas.follower_quota
    wait(cluster, quota.used_up, "something is copied, and then no more")
    assert replica(target, "heavy").log.log_end_offset < 30
    assert registered(cluster, "heavy").reassigning
    throttle(cluster, None)
    wait(cluster, lambda: registered(cluster, "heavy").replicas == (target.node_id,), "the reassignment is over")
    assert len(contents(replica(target, "heavy").log)) == 30
    wait(cluster, lambda: source.node.partitions.find(tp) is None, "the old replica is gone")


def test_a_follower_that_was_led_uncleanly_cuts_what_the_new_leader_lacks(cluster: LocalCluster) -> None:
    a, b = cluster.brokers[:2]
    tp = TopicPartition("parted", 0)
    cluster.create_topic("parted", replication_factor=1, min__insync__replicas="1")
    moved = cluster.ask(lambda admin: admin.alter_partition_reassignments({tp: [a.node_id, b.node_id]}))
    assert moved == {tp: None}
    wait(cluster, lambda: set(registered(cluster, "parted").isr) == {a.node_id, b.node_id}, "two replicas")
    wait(cluster, lambda: registered(cluster, "parted").leader >= 0, "a leader")
    first = cluster.leader("parted")
    second = b if first is a else a
    send(cluster, "parted", [b"common"] * 3)
    second.kill()
    wait(cluster, lambda: registered(cluster, "parted").isr == (first.node_id,), "one in sync")
    send(cluster, "parted", [b"only here"] * 5)
    first.kill()
    second.start()
    wait(cluster, lambda: registered(cluster, "parted").leader == -1, "nobody leads")
    elected = cluster.ask(lambda admin: admin.elect_leaders(ElectionType.UNCLEAN, [tp]))
    assert elected == {tp: None}
    wait(cluster, lambda: registered(cluster, "parted").leader == second.node_id, "elected uncleanly")
    send(cluster, "parted", [b"after"] * 4)
    first.start()
    wait(cluster, lambda: len(registered(cluster, "parted").isr) == 2, "both in sync")
    wait(cluster, lambda: all_equal(cluster, "parted"), "the same history")
    assert [v for _, v in contents(replica(first, "parted").log)] == [b"common"] * 3 + [b"after"] * 4


def test_a_replica_moves_to_another_directory_while_it_is_written_to(tmp_path: Path) -> None:
    dirs = [tmp_path / "one", tmp_path / "two"]
    settings = {"log.dirs": ",".join(map(str, dirs)), "replica.alter.log.dirs.io.max.bytes.per.second": "2000000"}
    cluster = Cluster(tmp_path / "node", settings)
    with cluster:
        cluster.create_topic("moved")
        log_dirs = cluster.node.log_dirs
        tp = TopicPartition("moved", 0)
        source = log_dirs.directory_of(tp)
        assert source is not None
        target = next(d for d in log_dirs.directories if d is not source)

        async def here() -> bool:
            return log_dirs.directory_of(tp) is target

        cluster.run(lambda _: _work(cluster, tp, str(target.path)))
        cluster.run(lambda _: eventually(here, True, 60))
        assert not log_dirs.futures
        written = contents(log_dirs.logs[tp])
        assert len(written) == 90
        partition = cluster.node.image().topics.partition("moved", 0)
        assert partition is not None
        assert partition.directories == (target.directory_id,)
    with cluster:
        assert contents(cluster.node.log_dirs.logs[tp]) == written


async def _work(cluster: Cluster, tp: TopicPartition, path: str) -> None:
    """Write, have the replica moved, and write on meanwhile."""
    from barnabas.client.producer import Producer

    config = cluster.admin.barnabas
    moved = Replica(tp.topic, tp.partition, 1)
    async with Producer(config) as producer, Admin(config) as admin:

        async def write(count: int) -> None:
            for _ in range(count):
                await producer.send(tp.topic, b"x" * 100_000, partition=0)
            await producer.flush()

        await write(60)
        assert await admin.alter_replica_log_dirs({moved: path}) == {moved: None}
        where = (await admin.describe_replica_log_dirs([moved]))[moved]
        assert where.future == path
        await write(30)


def test_a_move_to_nowhere_is_refused(tmp_path: Path) -> None:
    with Cluster(tmp_path / "node") as cluster:
        cluster.create_topic("stays")
        request = cluster.node.replicas.moves.request
        assert request(TopicPartition("stays", 0), "/nowhere").name == "LOG_DIR_NOT_FOUND"
        path = str(cluster.node.log_dirs.directories[0].path)
        assert request(TopicPartition("absent", 0), path).name == "REPLICA_NOT_AVAILABLE"
        assert request(TopicPartition("stays", 0), path).name == "NONE"
        assert not cluster.node.log_dirs.futures
