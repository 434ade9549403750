"""Reading the znodes that are metadata, many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from barnabas.core.replicated import VersionedRecord
from barnabas.core.zookeeper.errors import NoNodeError
from barnabas.core.zookeeper.paths import child
from barnabas.core.zookeeper.znodes import brokers, topics
from barnabas.core.zookeeper.znodes.reading import ROOTS
from barnabas.core.zookeeper.znodes.znode import Znode
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.walk import each


async def read_znodes(zk: ZooKeeperClient, roots: Iterable[str]) -> list[Znode]:
    """Give the znodes at and below some paths; those that are not there, or vanish meanwhile, are left out.

    NoAuthError names the first that may not be read: metadata with holes is none.
    """
    found = []

    async def one(path: str) -> Iterable[str]:
        try:
            data, stat = await zk.get(path)
            found.append(Znode(path, data, stat.version, stat.czxid))
            names = await zk.children(path) if stat.children else []
        except NoNodeError:
            return ()
        return [child(path, name) for name in names]

    await each(roots, one)
    return found


async def read_metadata(zk: ZooKeeperClient) -> list[Znode]:
    """Give the znodes that are metadata. Of topics those that say something: the topic, and the states it names."""
    others = asyncio.ensure_future(read_znodes(zk, [root for root in ROOTS if root != topics.TOPICS]))
    try:
        return [*await _read_topics(zk), *await others]
    finally:
        others.cancel()


async def _read_topics(zk: ZooKeeperClient) -> list[Znode]:
    found: list[Znode] = []

    async def one(path: str) -> Iterable[str]:
        try:
            data, stat = await zk.get(path)
        except NoNodeError:
            # It waits for its first state; what that will lie below may be there.
            return await read_around(path) if path.endswith("/state") else ()
        found.append(znode := Znode(path, data, stat.version, stat.czxid))
        return () if path.endswith("/state") else topics.states_below(znode)

    async def read_around(path: str) -> Iterable[str]:
        above = (path.rpartition("/")[0], path.rsplit("/", 2)[0])
        found.extend([Znode(parent, b"") for parent in above if await zk.exists(parent) is not None])
        return ()

    await each([topics.topic_path(name) for name in await zk.children(topics.TOPICS)], one)
    return found


async def read_brokers(zk: ZooKeeperClient, changed: asyncio.Event) -> list[VersionedRecord]:
    """Give the registrations of the brokers that are there. `changed` is set when one comes, goes or changes."""
    found = []

    async def one(path: str) -> Iterable[str]:
        try:
            data, stat = await zk.get(path, lambda _: changed.set())
        except NoNodeError:
            return ()
        found.append(brokers.record(Znode(path, data, stat.version, stat.czxid)))
        return ()

    names = await zk.children(brokers.IDS, lambda _: changed.set())
    await each([child(brokers.IDS, name) for name in names], one)
    return found
