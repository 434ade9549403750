"""The tool as operators run it, and trees of real brokers to run it on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.client.zookeeper_migration.walk import read_trees
from barnabas.core.zookeeper.paths import ROOT
from barnabas.net.zookeeper.client import ZooKeeperClient
from tests.cli.conftest import Barnabas, Run, barnabas
from tests.peers.zookeeper import ZooKeeper

__all__ = ["barnabas"]

COMMAND = "zookeeper-security-migration"
Migration = Callable[..., Run]


@pytest.fixture
def migration(barnabas: Barnabas, zookeeper: ZooKeeper, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Migration:
    """Give the tool for a chroot, logged in as `kafka`, or as `user`, or as nobody; it runs in a folder of its own."""

    def run(chroot: str, *words: str, user: str | None = "kafka") -> Run:
        login = "" if user is None else f"-Djava.security.auth.login.config={zookeeper.client_jaas(user)}"
        monkeypatch.setenv("KAFKA_OPTS", login)
        monkeypatch.chdir(tmp_path)
        return barnabas(COMMAND, f"--zookeeper.connect={zookeeper.connect}{chroot}", *words)

    return run


def acls_of(zookeeper: ZooKeeper, chroot: str = "") -> dict[str, str]:
    """Give the ACL of every path below a chroot, itself included, as text."""

    async def read() -> dict[str, str]:
        async with ZooKeeperClient(zookeeper.settings("super", chroot)) as zk:
            seen = await read_trees(zk, [ROOT], lambda _: None)
            assert not seen.refused
            return {one.path: ", ".join(map(str, one.acls)) for one in seen.found}

    return asyncio.run(read())
