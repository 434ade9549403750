"""The tool as operators run it, and trees of real brokers to run it on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Barnabas, Run, barnabas
from tests.peers.zookeeper import ZooKeeper
from tests.zookeeper.migration.trees import plant

__all__ = ["barnabas"]

COMMAND = "zookeeper-security-migration"
Migration = Callable[..., Run]


@pytest.fixture
def migration(barnabas: Barnabas, zookeeper: ZooKeeper, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Migration:
    """Give the tool for a chroot, logged in as `kafka`, or as `user`, or as nobody; it runs in a folder of its own.

    connect: another place than the server of all tests.
    """

    def run(chroot: str, *words: str, user: str | None = "kafka", connect: str = "") -> Run:
        login = "" if user is None else f"-Djava.security.auth.login.config={zookeeper.client_jaas(user)}"
        monkeypatch.setenv("KAFKA_OPTS", login)
        monkeypatch.chdir(tmp_path)
        return barnabas(COMMAND, f"--zookeeper.connect={connect or zookeeper.connect}{chroot}", *words)

    return run


@pytest.fixture
def tree(zookeeper: ZooKeeper, chroot: str) -> str:
    """Give a chroot with the open tree of a stopped cluster."""
    plant(zookeeper, chroot)
    return chroot
