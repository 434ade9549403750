"""Old notifications go, and young ones stay for those who have not heard of them."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.core.zookeeper.values import OPEN_ACLS
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.zookeeper.old_notifications import KEPT_MS, keep_few, remove_old
from tests.peers.zookeeper import ZooKeeper

pytestmark = pytest.mark.peer


async def test_what_is_older_than_a_quarter_of_an_hour_goes(zookeeper: ZooKeeper, chroot: str) -> None:
    async with ZooKeeperClient(zookeeper.settings(chroot=chroot)) as zk:
        await zk.make_chroot(OPEN_ACLS)
        assert await remove_old(zk, "/told", 0) == 0
        await zk.create("/told", None, OPEN_ACLS)
        await zk.create("/told/by-hand", None, OPEN_ACLS)
        paths = [await zk.create("/told/change_", b"", OPEN_ACLS, sequential=True) for _ in range(3)]
        made = []
        for path in paths:
            stat = await zk.exists(path)
            assert stat is not None
            made.append(stat.ctime_ms)
        assert await remove_old(zk, "/told", made[0] + KEPT_MS) == 0
        # Two nodes at once do not stand in each other's way.
        counts = await asyncio.gather(*(remove_old(zk, "/told", made[2] + KEPT_MS + 1) for _ in range(2)))
        assert sum(counts) == 3
        assert await zk.children("/told") == ["by-hand"]


async def test_it_goes_on_until_it_is_stopped(zookeeper: ZooKeeper, chroot: str) -> None:
    async with ZooKeeperClient(zookeeper.settings(chroot=chroot)) as zk:
        await zk.make_chroot(OPEN_ACLS)
        await zk.create("/told", None, OPEN_ACLS)
        path = await zk.create("/told/change_", b"", OPEN_ACLS, sequential=True)
        gone = asyncio.Event()
        stat = await zk.exists(path, lambda _: gone.set())
        assert stat is not None
        later = stat.ctime_ms + KEPT_MS + 1
        task = asyncio.create_task(keep_few(zk, ["/told"], lambda: later))
        async with asyncio.timeout(60):
            await gone.wait()
        assert not task.done()
        task.cancel()
        await asyncio.wait([task])
