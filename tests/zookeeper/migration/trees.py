"""Trees as brokers without a login leave them, made by hand: as long as wanted, and quickly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import TypeVar

from barnabas.core.zookeeper.paths import ROOT
from barnabas.core.zookeeper.values import OPEN_ACLS, Create
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.settings import ZooKeeperSettings
from barnabas.net.zookeeper.walk import read_trees
from tests.peers.zookeeper import ZooKeeper

T = TypeVar("T")
_BATCH = 500
PARTITIONS = 50


def acls_of(zookeeper: ZooKeeper, chroot: str = "") -> dict[str, str]:
    """Give the ACL of every path below a chroot, itself included, as text."""
    return asyncio.run(read_acls(zookeeper.settings("super", chroot)))


async def read_acls(settings: ZooKeeperSettings) -> dict[str, str]:
    """Give the same as somebody else, who has to have the right to read all."""
    async with ZooKeeperClient(settings) as zk:
        seen = await read_trees(zk, [ROOT], lambda _: None)
        assert not seen.refused
        return {one.path: ", ".join(map(str, one.acls)) for one in seen.found}


def ask(
    zookeeper: ZooKeeper, work: Callable[[ZooKeeperClient], Awaitable[T]], chroot: str = "", user: str | None = "kafka"
) -> T:
    """Do something with a client of ours: of a user, or of nobody."""

    async def with_client() -> T:
        async with ZooKeeperClient(zookeeper.settings(user, chroot)) as zk:
            return await work(zk)

    return asyncio.run(with_client())


def plant(zookeeper: ZooKeeper, chroot: str, topics: int = 1, user: str | None = "kafka") -> None:
    """Make a stopped cluster's tree, all of it open, with some topics of `PARTITIONS` partitions: 2 znodes each."""

    async def make(zk: ZooKeeperClient) -> None:
        await zk.make_chroot(OPEN_ACLS)
        paths = iter(_paths(topics))
        while batch := list(islice(paths, _BATCH)):
            await zk.multi([Create(path, data, OPEN_ACLS) for path, data in batch])

    ask(zookeeper, make, chroot, user)


def _paths(topics: int) -> Iterator[tuple[str, bytes | None]]:
    for top in ("admin", "brokers", "cluster", "config", "isr_change_notification", "log_dir_event_notification"):
        yield f"/{top}", None
    yield "/cluster/id", b'{"version":"1","id":"of-the-tests"}'
    yield "/controller_epoch", b"1"
    yield "/feature", b"{}"
    yield "/latest_producer_id_block", b"{}"
    yield "/consumers", None
    for kind in ("topics", "users", "brokers", "clients", "ips", "changes"):
        yield f"/config/{kind}", None
    yield "/config/users/alice", b"{}"
    for name in ("ids", "seqid", "topics"):
        yield f"/brokers/{name}", None
    for topic in range(topics):
        yield f"/brokers/topics/t{topic}", b"{}"
        yield f"/brokers/topics/t{topic}/partitions", None
        for partition in range(PARTITIONS):
            yield f"/brokers/topics/t{topic}/partitions/{partition}", None
            yield f"/brokers/topics/t{topic}/partitions/{partition}/state", b"{}"
