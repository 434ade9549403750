"""The tool on the tree of a real 3.9.1 broker that serves meanwhile, beside that release's own tool."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.peers.kafka_zookeeper import ZooKeeperBroker, kafkas_migration
from tests.peers.zookeeper import ZooKeeper
from tests.zookeeper.migration.conftest import Migration
from tests.zookeeper.migration.trees import acls_of
from tests.zookeeper.migration.workload import use_everything

pytestmark = pytest.mark.peer

CHROOT = "/live/kafka"


@pytest.fixture(scope="module")
def broker(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperBroker]:
    """Give a broker that has logged in and makes open znodes, as between the steps of securing; all kinds are there."""
    folder = tmp_path_factory.mktemp("broker")
    with ZooKeeperBroker(folder, zookeeper.connect + CHROOT, zookeeper.client_jaas()) as found:
        asyncio.run(use_everything(found))
        yield found


@pytest.mark.requirement("Z-12", "Z-13", "Z-14")
def test_results_are_those_of_kafkas_tool(broker: ZooKeeperBroker, zookeeper: ZooKeeper, migration: Migration) -> None:
    ours, theirs = {}, {}
    for mode in ("secure", "unsecure"):
        run = migration(CHROOT, f"--zookeeper.acl={mode}")
        assert run.code == 0, run.err
        ours[mode] = acls_of(zookeeper, CHROOT)
    for mode in ("secure", "unsecure"):
        done = kafkas_migration(mode, zookeeper.connect + CHROOT, zookeeper.client_jaas())
        assert done.returncode == 0, done.stdout + done.stderr
        theirs[mode] = acls_of(zookeeper, CHROOT)
        assert theirs[mode].pop("/migration")  # made empty, which stops a migration to KRaft; ours does not
    assert ours == theirs
    assert ours["secure"]["/brokers/ids/0"] == "sasl:kafka:cdrwa, world:anyone:r"
    assert ours["secure"]["/config/users/alice"] == "sasl:kafka:cdrwa"
    assert ours["secure"]["/consumers"] == "world:anyone:cdrwa"
