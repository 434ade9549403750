"""Opening a secured cluster while it serves: brokers of Kafka 3.9.1 are restarted one by one around the tool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.core.zookeeper.errors import NoAuthError
from barnabas.core.zookeeper.values import Stat
from barnabas.net.zookeeper.client import ZooKeeperClient
from tests.peers.eventually import eventually
from tests.peers.kafka_zookeeper import ZooKeeperBroker
from tests.peers.zookeeper import ZooKeeper
from tests.zookeeper.migration.conftest import Migration
from tests.zookeeper.migration.load import Load
from tests.zookeeper.migration.test_tool import OPEN, UNSECURE, wanted
from tests.zookeeper.migration.trees import acls_of, ask

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

CHROOT = "/rolled"
TOPIC = "rolled"
_IN_SYNC_S = 120


@pytest.fixture
def brokers(zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[list[ZooKeeperBroker]]:
    """Give two brokers of a secured cluster."""
    jaas, where = zookeeper.client_jaas(), zookeeper.connect + CHROOT
    more = {"offsets.topic.replication.factor": "2", "controlled.shutdown.enable": "true"}
    found = [ZooKeeperBroker(tmp_path / str(n), where, jaas, True, n, more) for n in range(2)]
    try:
        for one in found:
            one.start(wait=False)
        for one in found:
            one.wait_ready()
        yield found
    finally:
        for one in found:
            one.stop(kill=True)


def roll(brokers: list[ZooKeeperBroker], zookeeper: ZooKeeper, load: Load, jaas: Path | None) -> None:
    """Restart the brokers, one after the other, with zookeeper.set.acl=false; writing goes on in between."""
    for one in brokers:
        ask(zookeeper, in_sync, CHROOT, "super")
        one.stop()
        load.go_on()
        one.set_acl, one.jaas = False, jaas
        one.start()


async def in_sync(zk: ZooKeeperClient) -> None:
    """Wait until both brokers are in sync."""

    async def isr() -> list[int]:
        data, _ = await zk.get(f"/brokers/topics/{TOPIC}/partitions/0/state")
        return sorted(json.loads(data)["isr"])

    await eventually(isr, [0, 1], _IN_SYNC_S)


@pytest.mark.requirement("Z-17")
def test_a_secured_cluster_is_opened_under_load(
    brokers: list[ZooKeeperBroker], zookeeper: ZooKeeper, migration: Migration
) -> None:
    async def write(zk: ZooKeeperClient) -> Stat:
        return await zk.set(f"/brokers/topics/{TOPIC}/partitions", b"")

    first, second = brokers
    with Load(first.client_config(second), TOPIC, replicas=2) as load:
        secured = acls_of(zookeeper, CHROOT)
        assert secured == {path: wanted(path) for path in secured}
        with pytest.raises(NoAuthError):
            ask(zookeeper, write, CHROOT, user=None)
        roll(brokers, zookeeper, load, first.jaas)
        run = migration(CHROOT, UNSECURE)
        assert run.code == 0, run.err
        assert "have registered" not in run.err
        roll(brokers, zookeeper, load, None)
        load.go_on()
    assert set(acls_of(zookeeper, CHROOT).values()) == {OPEN}
    assert ask(zookeeper, write, CHROOT, user=None).version == 1
