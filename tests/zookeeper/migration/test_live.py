"""The tool on the tree of a real 3.9.1 broker that serves meanwhile, beside that release's own tool."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.core.zookeeper.errors import NoAuthError
from barnabas.core.zookeeper.paths import child, is_covered, is_secret
from barnabas.core.zookeeper.values import OPEN_ACLS
from barnabas.net.zookeeper.client import ZooKeeperClient
from tests.peers.kafka_zookeeper import ZooKeeperBroker, kafkas_migration
from tests.peers.zookeeper import ZooKeeper
from tests.zookeeper.migration.conftest import Migration
from tests.zookeeper.migration.load import Load
from tests.zookeeper.migration.meddler import Meddler
from tests.zookeeper.migration.test_interrupted import started
from tests.zookeeper.migration.trees import acls_of, ask
from tests.zookeeper.migration.workload import use_everything

pytestmark = pytest.mark.peer

CHROOT = "/live/kafka"
SECURE = "--zookeeper.acl=secure"
LET_THROUGH = 20
UNSECURE = "--zookeeper.acl=unsecure"


@pytest.fixture(scope="module")
def broker(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperBroker]:
    """Give a broker that has logged in and makes open znodes, as between the steps of securing; all kinds are there."""
    folder = tmp_path_factory.mktemp("broker")
    with ZooKeeperBroker(folder, zookeeper.connect + CHROOT, zookeeper.client_jaas()) as found:
        asyncio.run(use_everything(found))
        yield found


def done(migration: Migration, *words: str) -> str:
    """Run the tool, which has to succeed; give what it warns of."""
    run = migration(CHROOT, *words)
    assert run.code == 0, run.err
    return run.err


@pytest.mark.requirement("Z-12", "Z-13", "Z-14", "H-32")
def test_results_are_those_of_kafkas_tool(broker: ZooKeeperBroker, zookeeper: ZooKeeper, migration: Migration) -> None:
    ours, theirs = {}, {}
    for mode in ("unsecure", "secure", "unsecure"):
        done(migration, f"--zookeeper.acl={mode}")
        ours[mode] = acls_of(zookeeper, CHROOT)
    for mode in ("secure", "unsecure"):
        run = kafkas_migration(mode, zookeeper.connect + CHROOT, zookeeper.client_jaas())
        assert run.returncode == 0, run.stdout + run.stderr
        theirs[mode] = acls_of(zookeeper, CHROOT)
        assert theirs[mode].pop("/migration")  # empty, which would stop a migration to KRaft; ours makes none
    assert ours == theirs
    assert ours["secure"]["/brokers/ids/0"] == "sasl:kafka:cdrwa, world:anyone:r"
    assert ours["secure"]["/config/users/alice"] == "sasl:kafka:cdrwa"
    assert ours["secure"]["/consumers"] == "world:anyone:cdrwa"
    assert "/migration holds nothing" in done(migration, UNSECURE)
    assert acls_of(zookeeper, CHROOT) == ours["unsecure"]


@pytest.mark.requirement("Z-12", "Z-16", "H-35")
def test_the_cluster_serves_meanwhile_and_what_it_makes_later_is_reported(
    broker: ZooKeeperBroker, zookeeper: ZooKeeper, migration: Migration
) -> None:
    topic, later = (f"m-{uuid.uuid4().hex[:10]}" for _ in range(2))

    async def make_and_delete() -> None:
        async with Admin(broker.client_config()) as admin:
            for name in (later, f"{later}-deleted"):
                assert await admin.create_topics([NewTopic(name, 1, 1)]) == {name: None}
            assert await admin.delete_topics([f"{later}-deleted"]) == {f"{later}-deleted": None}

    with Load(broker.client_config(), topic) as load:
        for mode in (UNSECURE, SECURE):
            done(migration, mode)
            load.go_on()
        asyncio.run(make_and_delete())
        shown = migration(CHROOT, SECURE, "--dry-run", "--output=json").json
        assert f"/brokers/topics/{later}" in shown["open"]  # a broker with zookeeper.set.acl=false has made it
        assert f"/brokers/topics/{topic}" not in shown["open"]
        done(migration, SECURE)
        assert migration(CHROOT, SECURE, "--dry-run", "--output=json").json["open"] == []
        load.go_on()


@pytest.mark.requirement("Z-12", "Z-16")
def test_killed_on_a_live_cluster_it_is_completed_and_undone(
    broker: ZooKeeperBroker, zookeeper: ZooKeeper, migration: Migration, tmp_path: Path
) -> None:
    undo = f"--undo-file={tmp_path / 'undo'}"
    with Load(broker.client_config(), f"k-{uuid.uuid4().hex[:10]}") as load:
        done(migration, UNSECURE)
        before = acls_of(zookeeper, CHROOT)
        with (
            Meddler(zookeeper.ports[0], LET_THROUGH) as meddler,
            started(zookeeper, meddler.port, CHROOT, SECURE, undo) as tool,
        ):
            try:
                meddler.wait()
            finally:
                tool.kill()
        half = acls_of(zookeeper, CHROOT)
        assert half.keys() >= before.keys()
        assert 0 < sum(half[path] != before[path] for path in before) < len(before) - 1
        load.go_on()
        done(migration, SECURE, undo)
        assert migration(CHROOT, SECURE, "--dry-run", "--output=json").json["open"] == []
        load.go_on()
        done(migration, "--undo", str(tmp_path / "undo"))
        assert acls_of(zookeeper, CHROOT) == before
        load.go_on()


@pytest.mark.requirement("Z-12", "Z-27")
def test_an_intruder_changes_nothing_that_is_covered(
    broker: ZooKeeperBroker, zookeeper: ZooKeeper, migration: Migration
) -> None:
    done(migration, SECURE)
    paths = acls_of(zookeeper, CHROOT)

    async def intrude(zk: ZooKeeperClient) -> None:
        for path in filter(is_covered, paths):
            for attempt in (
                zk.set(path, b""),
                zk.set_acls(path, OPEN_ACLS),
                zk.create(child(path, "intruder"), b"", OPEN_ACLS),
            ):
                with pytest.raises(NoAuthError):
                    await attempt
            if path != "/":
                with pytest.raises(NoAuthError):
                    await zk.delete(path)
            if is_secret(path):
                with pytest.raises(NoAuthError):
                    await zk.get(path)
            else:
                await zk.get(path)
        assert await zk.create("/consumers/old", b"", OPEN_ACLS) == "/consumers/old"
        await zk.delete("/consumers/old")

    ask(zookeeper, intrude, CHROOT, user=None)


@pytest.mark.requirement("H-32")
def test_a_stopped_cluster_is_secured_and_elects_a_controller_again(
    broker: ZooKeeperBroker, zookeeper: ZooKeeper, migration: Migration
) -> None:
    broker.stop()
    try:
        done(migration, UNSECURE)
        done(migration, SECURE)
        assert "/controller" not in acls_of(zookeeper, CHROOT)
    finally:
        broker.start()
    stat = ask(zookeeper, lambda zk: zk.exists("/controller"), CHROOT)
    assert stat is not None
    assert stat.ephemeral_owner
