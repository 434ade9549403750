"""Notifications at a real ZooKeeper: each is told once, in order, and those that are old go."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.core.zookeeper.znodes import notifications
from barnabas.core.zookeeper.znodes.znode import Znode
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.zookeeper.notifications import KEPT_MS, Notifications
from tests.peers.zookeeper import ZooKeeper
from tests.zookeeper.controllers import LIMIT_S, STRICT, nodes

pytestmark = pytest.mark.peer


async def tell(zk: ZooKeeperClient, number: int) -> None:
    data = notifications.config_change(f"topics/t{number}")
    await zk.create(notifications.CONFIG_CHANGE, data, STRICT("/config/changes"), sequential=True)


async def left(zk: ZooKeeperClient, count: int) -> list[str]:
    """Give the names of the notifications when there are only so many."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            changed = asyncio.Event()
            found = await zk.children(notifications.CONFIG_CHANGES, lambda _, changed=changed: changed.set())  # type: ignore[misc]
            if len(found) <= count:
                return sorted(found)
            await changed.wait()


@pytest.mark.parametrize("kept_ms", [1, KEPT_MS])
def test_old_ones_go_when_a_new_one_is_heard(zookeeper: ZooKeeper, chroot: str, kept_ms: int) -> None:
    async def run() -> None:
        async with nodes(zookeeper, chroot, 1, 2) as [one, two]:
            heard: asyncio.Queue[str] = asyncio.Queue()

            async def hear(told: Znode) -> None:
                heard.put_nowait(notifications.changed_configs(told))

            told = [Notifications(node.zk, notifications.CONFIG_CHANGES, hear, kept_ms) for node in (one, two)]
            for number in range(3):
                await tell(one.zk, number)
            for some in told:
                await some.mark()
            tasks = [asyncio.create_task(some.follow()) for some in told]
            for number in (3, 4):
                before = await one.zk.exists(notifications.CONFIG_CHANGES)
                assert before is not None
                await clock_has_moved(one.zk)
                await tell(one.zk, number)
                async with asyncio.timeout(LIMIT_S):
                    assert [await heard.get(), await heard.get()] == [f"topics/t{number}"] * 2
                wanted = 1 if kept_ms == 1 else number + 1
                names = await left(two.zk, wanted)
                assert [int(name[-10:]) for name in names] == list(range(number + 1))[-wanted:]
            assert not any(task.done() for task in tasks)
            for task in tasks:
                task.cancel()

    asyncio.run(run())


async def clock_has_moved(zk: ZooKeeperClient) -> None:
    """Wait until ZooKeeper's clock is some milliseconds further."""
    first = None
    while True:
        stat = await zk.set("/consumers", b"")
        first = stat.mtime_ms if first is None else first
        if stat.mtime_ms > first + 2:
            return
