"""An ensemble of three is rolled from unsecured to secured under a cluster that goes on serving (KIP-38)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.cimpl import NewTopic

from barnabas.client.admin import Admin
from barnabas.core.zookeeper.errors import NoAuthError
from barnabas.core.zookeeper.values import CREATOR_ALL, READABLE, Stat
from barnabas.net.zookeeper.client import ZooKeeperClient
from tests.peers.eventually import eventually
from tests.peers.zookeeper import Setup, ZooKeeper
from tests.peers.zookeeper_cluster import KAFKA, OURS, WAIT_S, ZooKeeperCluster

from .admins import do
from .traffic import Traffic

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

CHROOT = "/over-ensemble"
PATIENT = {"zookeeper.session.timeout.ms": "60000"}
"""A server's restart may take this long on a busy machine, and nobody is to be taken for gone meanwhile."""


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[ZooKeeper]:
    """Give three servers that know of no logins."""
    with ZooKeeper(tmp_path / "ensemble", servers=3, setup=Setup(secured=False)) as found:
        yield found


@pytest.fixture
def cluster(ensemble: ZooKeeper, tmp_path: Path) -> Iterator[ZooKeeperCluster]:
    """Give a broker of ours that would log in, if ZooKeeper knew of it. Kafka's does not start with a login then."""
    made = ZooKeeperCluster(tmp_path / "brokers", ensemble, CHROOT, [OURS, KAFKA], properties=PATIENT)
    for broker in made.brokers:
        broker.jaas = ensemble.client_jaas() if broker.ours else None
    with made:
        yield made


@pytest.mark.requirement("Z-22")
def test_brokers_serve_while_their_ensemble_is_secured(cluster: ZooKeeperCluster, ensemble: ZooKeeper) -> None:
    """jaasLoginRenew stands beside authProvider.1 in the secured servers' files."""
    registered = registrations(cluster)
    with Traffic(cluster.librdkafka, "loaded", partitions=2, replicas=2) as traffic:
        make_topic(cluster, "before")
        ensemble.roll(Setup(secured=True))
        traffic.go_on()
        make_topic(cluster, "after")
        asyncio.run(all_there(cluster))
        assert registrations(cluster) == registered  # in the same sessions from beginning to end
        for broker in [one for one in cluster.brokers if one.jaas is None]:
            cluster.in_sync()
            broker.stop()
            broker.jaas = ensemble.client_jaas()
            broker.start()
            traffic.go_on()
        # Each has logged in by now, ours without a restart: it changes what is strict, which nobody else may.
        cluster.ask(close, user="kafka")
        for broker in cluster.brokers:
            cluster.hand_over(broker)
            before = cluster.ask(controller_epoch)
            make_topic(cluster, f"by-{broker.broker_id}")
            assert cluster.ask(controller_epoch) == before, "another one made it: who is refused gives the role up"
        with pytest.raises(NoAuthError):
            cluster.ask(intrude, user=None)
        traffic.caught_up()
    assert ensemble.logins().count("kafka") >= len(cluster.brokers)


def make_topic(cluster: ZooKeeperCluster, name: str) -> None:
    """Make a topic."""
    wanted = [NewTopic(name, 1, 2)]
    do(cluster.librdkafka, lambda admin: admin.create_topics(wanted), KafkaError.TOPIC_ALREADY_EXISTS)


def registrations(cluster: ZooKeeperCluster) -> dict[str, int]:
    """Give the sessions that brokers are registered by."""

    async def ask(zk: ZooKeeperClient) -> dict[str, int]:
        stats = {name: await zk.exists(f"/brokers/ids/{name}") for name in await zk.children("/brokers/ids")}
        return {name: stat.ephemeral_owner for name, stat in stats.items() if stat is not None}

    return cluster.ask(ask, user=None)


async def all_there(cluster: ZooKeeperCluster) -> None:
    """Wait until every broker knows all topics."""
    for broker in cluster.brokers:
        async with Admin(broker.client_config()) as admin:

            async def missing(admin: Admin = admin) -> set[str]:
                return {"before", "after", "loaded"} - set(await admin.topics())

            await eventually(missing, set(), WAIT_S)


async def close(zk: ZooKeeperClient) -> None:
    """Make strict what every new topic needs."""
    for path in ("/brokers/topics", "/config/topics", "/controller_epoch"):
        await zk.set_acls(path, (CREATOR_ALL, READABLE))


async def controller_epoch(zk: ZooKeeperClient) -> bytes:
    """Give how often a controller was elected."""
    return (await zk.get("/controller_epoch"))[0]


async def intrude(zk: ZooKeeperClient) -> Stat:
    """Change a strict znode."""
    return await zk.set("/controller_epoch", b"77")
