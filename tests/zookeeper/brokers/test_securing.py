"""An open cluster is secured and opened again by the rolling recipe, while records and changes go on (KIP-38).

Brokers of both makes, so that each sees the znodes of the other at each step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.cimpl import NewPartitions, NewTopic

from barnabas.core.zookeeper.errors import NoAuthError
from barnabas.core.zookeeper.paths import is_covered
from barnabas.core.zookeeper.values import CREATOR_ALL, OPEN_ACLS, READABLE, Stat
from barnabas.net.zookeeper.client import ZooKeeperClient
from tests.peers.kafka_zookeeper import ZooKeeperBroker
from tests.peers.zookeeper import ZooKeeper
from tests.peers.zookeeper_cluster import KAFKA, OURS, ZooKeeperCluster
from tests.zookeeper.migration.conftest import Migration, barnabas, migration
from tests.zookeeper.migration.test_tool import OPEN, SECURE, STRICT, UNSECURE, wanted
from tests.zookeeper.migration.trees import acls_of

from .admins import do
from .traffic import Traffic

__all__ = ["barnabas", "migration"]

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

CHROOT: Final = "/securing"
LOADED: Final = "loaded"


class Changes:
    """Makes one topic after the other; each is there when it returns. last: its znode."""

    def __init__(self, cluster: ZooKeeperCluster) -> None:
        self._cluster = cluster
        self._numbers = count()
        self.last = ""

    def topic(self) -> None:
        """Make a topic."""
        name = f"made-{next(self._numbers)}"
        wanted = [NewTopic(name, 1, 2)]
        do(self._cluster.librdkafka, lambda admin: admin.create_topics(wanted), KafkaError.TOPIC_ALREADY_EXISTS)
        self.last = f"/brokers/topics/{name}"


@pytest.fixture
def cluster(zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[ZooKeeperCluster]:
    """Give an open cluster whose brokers have not logged in."""
    with ZooKeeperCluster(tmp_path, zookeeper, CHROOT, [OURS, KAFKA]) as found:
        yield found


def acl(cluster: ZooKeeperCluster, path: str) -> str:
    """Give the ACL of a znode."""

    async def ask(zk: ZooKeeperClient) -> str:
        acls, _ = await zk.acls(path)
        return ", ".join(map(str, acls))

    return cluster.ask(ask)


@pytest.mark.requirement("Z-04", "Z-09", "Z-10", "Z-11", "Z-12", "Z-17")
def test_a_cluster_is_secured_and_opened_again_under_load(
    cluster: ZooKeeperCluster, zookeeper: ZooKeeper, migration: Migration
) -> None:
    changes = Changes(cluster)
    with Traffic(cluster.librdkafka, LOADED, partitions=2, replicas=2) as traffic:

        def between() -> None:
            traffic.go_on()

        def roll(*, jaas: Path | None, set_acl: bool) -> None:
            def change(broker: ZooKeeperBroker) -> None:
                broker.jaas, broker.set_acl = jaas, set_acl

            cluster.roll(change, between)
            traffic.caught_up()
            changes.topic()

        changes.topic()
        assert set(acls_of(zookeeper, CHROOT).values()) == {OPEN}
        logins = zookeeper.logins().count("kafka")

        roll(jaas=zookeeper.client_jaas(), set_acl=False)
        assert zookeeper.logins().count("kafka") >= logins + 2
        assert set(acls_of(zookeeper, CHROOT).values()) == {OPEN}
        change_what_is_strict(cluster, changes.last)

        roll(jaas=zookeeper.client_jaas(), set_acl=True)
        assert (acl(cluster, changes.last), acl(cluster, "/controller")) == (STRICT, STRICT)
        assert acl(cluster, f"/brokers/topics/{LOADED}") == OPEN

        assert migration(CHROOT, SECURE).code == 0
        changes.topic()
        traffic.go_on()
        secured = acls_of(zookeeper, CHROOT)
        assert secured == {path: wanted(path) for path in secured}
        with pytest.raises(NoAuthError):
            cluster.ask(write, user=None)

        roll(jaas=zookeeper.client_jaas(), set_acl=False)
        assert (acl(cluster, changes.last), acl(cluster, "/controller")) == (OPEN, OPEN)
        assert acl(cluster, f"/brokers/topics/{LOADED}") == STRICT
        assert migration(CHROOT, UNSECURE).code == 0
        roll(jaas=None, set_acl=False)
        assert {path for path, one in acls_of(zookeeper, CHROOT).items() if is_covered(path) and one != OPEN} == set()
        cluster.ask(write, user=None)
        traffic.caught_up()


def change_what_is_strict(cluster: ZooKeeperCluster, topic: str) -> None:
    """Make a topic's znode strict by hand; brokers that have logged in change it all the same."""

    async def close(zk: ZooKeeperClient) -> None:
        await zk.set_acls(topic, (CREATOR_ALL, READABLE))

    async def open_again(zk: ZooKeeperClient) -> int:
        await zk.set_acls(topic, OPEN_ACLS)
        return len(json.loads((await zk.get(topic))[0])["partitions"])

    cluster.ask(close, user="kafka")
    more = [NewPartitions(topic.rpartition("/")[2], 2)]
    do(cluster.librdkafka, lambda admin: admin.create_partitions(more), KafkaError.INVALID_PARTITIONS)
    assert cluster.ask(open_again) == 2


async def write(zk: ZooKeeperClient) -> Stat:
    """Change a znode that means nothing to anybody."""
    return await zk.set(f"/brokers/topics/{LOADED}/partitions", b"")
