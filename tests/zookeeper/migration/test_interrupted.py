"""Runs that are killed, lose their session, or meet a tree that changes; and the way back from each."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from barnabas.core.zookeeper.values import OPEN_ACLS
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.testing.ports import HOST
from tests.peers.zookeeper import Setup, ZooKeeper
from tests.zookeeper.migration.conftest import COMMAND, Migration
from tests.zookeeper.migration.meddler import Meddler
from tests.zookeeper.migration.test_tool import OPEN, SECURE, UNSECURE, wanted
from tests.zookeeper.migration.trees import acls_of, ask, plant

pytestmark = pytest.mark.peer

TOPICS = 10
LET_THROUGH = 400
"""Of a thousand changes and some."""
LIMIT_S = 120


@pytest.fixture
def long_tree(zookeeper: ZooKeeper, chroot: str) -> str:
    """Give a chroot with a thousand znodes, all of them open."""
    plant(zookeeper, chroot, TOPICS)
    return chroot


def started(zookeeper: ZooKeeper, port: int, chroot: str, *words: str) -> subprocess.Popen[str]:
    """Start the tool as a process of its own, through a port."""
    login = f"-Djava.security.auth.login.config={zookeeper.client_jaas()}"
    return subprocess.Popen(
        [sys.executable, "-m", "barnabas.cli.main", COMMAND, f"--zookeeper.connect={HOST}:{port}{chroot}", *words],
        env=os.environ | {"KAFKA_OPTS": login}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.requirement("Z-16", "H-35")
def test_killed_half_way_it_is_completed_by_a_second_run_and_can_be_undone(
    zookeeper: ZooKeeper, migration: Migration, long_tree: str, tmp_path: Path
) -> None:
    before = acls_of(zookeeper, long_tree)
    undo = tmp_path / "kept.undo"
    with Meddler(zookeeper.ports[0], LET_THROUGH) as meddler:
        tool = started(zookeeper, meddler.port, long_tree, SECURE, f"--undo-file={undo}")
        with tool:
            try:
                meddler.wait()
            finally:
                tool.kill()
    half = acls_of(zookeeper, long_tree)
    strict = [path for path, acl in half.items() if acl != OPEN]
    assert 0 < len(strict) < len(half) - 1
    assert undo.stat().st_mode & 0o777 == 0o600
    new = "/brokers/topics/new"
    ask(zookeeper, lambda zk: zk.create(new, b"{}", OPEN_ACLS), long_tree)

    assert migration(long_tree, SECURE, "--undo-file", str(undo)).code == 0
    after = acls_of(zookeeper, long_tree)
    assert after == {path: wanted(path) for path in after}

    shown = migration(long_tree, "--undo", str(undo), "--dry-run", "--output=json").json
    assert {change["path"] for change in shown["changes"]} == after.keys() - {"/consumers"}
    assert acls_of(zookeeper, long_tree) == after
    run = migration(long_tree, "--undo", str(undo))
    assert run.code == 0, run.err
    assert acls_of(zookeeper, long_tree) == before | {new: OPEN}
    assert migration(long_tree, "--undo", str(undo)).out == "Nothing to do: all is so already.\n"


@pytest.mark.requirement("H-35", "Z-16")
def test_it_goes_on_in_another_session(zookeeper: ZooKeeper, long_tree: str, tmp_path: Path) -> None:
    with Meddler(zookeeper.ports[0], LET_THROUGH) as meddler:
        tool = started(zookeeper, meddler.port, long_tree, SECURE, f"--undo-file={tmp_path / 'undo'}")
        with tool:
            try:
                meddler.wait()
                before = meddler.end_session()
                out, err = tool.communicate(timeout=LIMIT_S)
            finally:
                tool.kill()
        assert tool.returncode == 0, out + err
        since = meddler.sessions[len(before) :]
        assert before[0] not in since
        assert set(since) - set(before)
    after = acls_of(zookeeper, long_tree)
    assert after == {path: wanted(path) for path in after}


@pytest.mark.requirement("Z-16")
def test_znodes_that_vanish_meanwhile_are_skipped(zookeeper: ZooKeeper, long_tree: str, tmp_path: Path) -> None:
    gone = [f"/brokers/topics/t3/partitions/7{below}" for below in ("/state", "")]

    async def delete(zk: ZooKeeperClient) -> None:
        for path in gone:
            await zk.delete(path)

    with Meddler(zookeeper.ports[0], 0) as meddler:
        tool = started(zookeeper, meddler.port, long_tree, SECURE, f"--undo-file={tmp_path / 'undo'}")
        with tool:
            try:
                meddler.wait()
                ask(zookeeper, delete, long_tree)
                meddler.let_go()
                out, err = tool.communicate(timeout=LIMIT_S)
            finally:
                tool.kill()
        assert tool.returncode == 0, out + err
    assert " 2 were gone or used meanwhile: " in out
    after = acls_of(zookeeper, long_tree)
    assert after == {path: wanted(path) for path in after}
    assert not after.keys() & set(gone)


@pytest.mark.requirement("Z-16")
def test_undo_takes_a_run_back_and_leaves_what_came_since(
    zookeeper: ZooKeeper, migration: Migration, tree: str
) -> None:
    before = acls_of(zookeeper, tree)
    undo = migration(tree, SECURE, "--output=json").json["undo_file"]

    async def go_on(zk: ZooKeeperClient) -> None:
        await zk.create("/kafka-acl/Topic", None, OPEN_ACLS)  # in a znode that the tool has made
        await zk.create("/brokers/topics/new", b"{}", OPEN_ACLS)
        await zk.delete("/config/users/alice")

    ask(zookeeper, go_on, tree)
    assert migration(tree, "--undo", undo).code == 0
    came = {"/kafka-acl", "/kafka-acl/Topic", "/brokers/topics/new"}
    assert acls_of(zookeeper, tree) == (
        {path: acl for path, acl in before.items() if path != "/config/users/alice"} | dict.fromkeys(came, OPEN)
    )


@pytest.mark.requirement("Z-16", "Z-17")
def test_undo_makes_an_opened_tree_strict_again(zookeeper: ZooKeeper, migration: Migration, tree: str) -> None:
    assert migration(tree, SECURE).code == 0
    before = acls_of(zookeeper, tree)
    undo = migration(tree, UNSECURE, "--output=json").json["undo_file"]
    assert set(acls_of(zookeeper, tree).values()) == {OPEN}
    assert migration(tree, "--undo", undo).code == 0
    assert acls_of(zookeeper, tree) == before


def test_an_undo_file_of_another_tree_or_run_is_refused(
    zookeeper: ZooKeeper, migration: Migration, tree: str, tmp_path: Path
) -> None:
    undo = tmp_path / "kept"
    assert migration(tree, SECURE, "--undo-file", str(undo)).code == 0
    other = f"{tree}-other"
    plant(zookeeper, other)
    before = acls_of(zookeeper, other)
    for words in (["--undo", str(undo)], [SECURE, "--undo-file", str(undo)]):
        run = migration(other, *words)
        assert run.code == 1
        assert str(undo) in run.err
    assert acls_of(zookeeper, other) == before
    assert "is of another run" in migration(tree, UNSECURE, "--undo-file", str(undo)).err
    assert migration(tree, "--undo", str(tmp_path / "none")).code == 1
    (tmp_path / "text").write_text("text\n")
    assert "not an undo file" in migration(tree, "--undo", str(tmp_path / "text")).err
    assert "nowhere" in migration(tree, UNSECURE, "--undo-file", str(tmp_path / "nowhere" / "f")).err
    assert acls_of(zookeeper, tree)["/brokers"] != OPEN


@pytest.mark.requirement("Z-16")
def test_an_ensemble_that_goes_away_interrupts_it(
    tmp_path: Path, migration: Migration, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.client.zookeeper_migration.carry_out._TRIES", 1)  # else it waits for it to come back
    with ZooKeeper(tmp_path / "own") as own:
        plant(own, "/kafka", TOPICS)
        with Meddler(own.ports[0], LET_THROUGH) as meddler, ThreadPoolExecutor(1) as aside:
            stopped = aside.submit(_stop_when_held, meddler, own)
            run = migration("/kafka", SECURE, "--undo-file=undo", connect=f"{HOST}:{meddler.port}")
            stopped.result()
        assert run.code == 1
        assert "Run the same once more with --undo-file undo" in run.err
        own.start()
        assert migration("/kafka", SECURE, "--undo-file=undo", connect=own.connect).code == 0
        after = acls_of(own, "/kafka")
        assert after == {path: wanted(path) for path in after}


@pytest.mark.requirement("Z-14")
def test_one_connection_is_enough(tmp_path: Path, migration: Migration) -> None:
    with ZooKeeper(tmp_path / "own", setup=Setup(flags=["zookeeper.maxCnxns=1"])) as own:
        plant(own, "/kafka", TOPICS)
        with Meddler(own.ports[0], 0) as meddler:
            meddler.let_go()
            run = migration("/kafka", SECURE, connect=f"{HOST}:{meddler.port}")
        assert run.code == 0, run.err
        assert len(meddler.sessions) == 1
        after = acls_of(own, "/kafka")
        assert after == {path: wanted(path) for path in after}


def _stop_when_held(meddler: Meddler, zookeeper: ZooKeeper) -> None:
    meddler.wait()
    zookeeper.stop()
    meddler.let_go()
