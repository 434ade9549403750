"""Many things done in portions over several sessions: a server takes one request after the other from a connection.

Four connections get through twice as much as one (docs/decisions/zookeeper_client.md).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Self, TypeVar

from barnabas.core.zookeeper.errors import ZooKeeperError
from barnabas.core.zookeeper.paths import ROOT
from barnabas.net.zookeeper.client import ZooKeeperClient

T = TypeVar("T")
LANES: Final = 4
PORTION: Final = 200
"""Requests under way on each: all together fewer than the 1000 (`globalOutstandingLimit`) from which on a server holds
back everybody's, brokers' too."""


class Lanes:
    """A session, and more beside it as soon as there is enough to do. Use as `async with`."""

    def __init__(self, zk: ZooKeeperClient) -> None:
        self._zk = zk
        self._lanes: list[asyncio.Task[ZooKeeperClient]] = []

    async def __aenter__(self) -> Self:
        self._lanes.append(asyncio.create_task(_caught_up(self._zk)))
        return self

    async def __aexit__(self, *_: object) -> None:
        for lane in self._lanes:
            lane.cancel()
        for opened in await asyncio.gather(*self._lanes, return_exceptions=True):
            if isinstance(opened, ZooKeeperClient) and opened is not self._zk:
                await opened.close()

    async def spread(
        self, things: Sequence[T], work: Callable[[ZooKeeperClient, Sequence[T]], Awaitable[None]]
    ) -> None:
        """Do some work for all of them, a portion at a time on each session; the first error ends it."""
        portions = deque(things[at : at + PORTION] for at in range(0, len(things), PORTION))
        while len(self._lanes) < min(LANES, len(portions)):
            self._lanes.append(asyncio.create_task(self._open()))

        async def use(lane: asyncio.Task[ZooKeeperClient]) -> None:
            zk = await asyncio.shield(lane)
            while portions:
                await work(zk, portions.popleft())

        async def use_if_open(lane: asyncio.Task[ZooKeeperClient]) -> None:
            try:
                await asyncio.shield(lane)
            except ZooKeeperError:
                return  # a server may limit the connections of a host: the first one can do it alone
            await use(lane)

        try:
            async with asyncio.TaskGroup() as group:
                first = group.create_task(use(self._lanes[0]))
                others = [(lane, group.create_task(use_if_open(lane))) for lane in self._lanes[1:]]
                await asyncio.wait([first])
                for lane, using in others:
                    if not lane.done():
                        using.cancel()
        except BaseExceptionGroup as e:
            raise e.exceptions[0] from None

    async def _open(self) -> ZooKeeperClient:
        zk = ZooKeeperClient(self._zk.settings)
        await zk.start()
        try:
            return await _caught_up(zk)
        except BaseException:
            await zk.close()
            raise


async def _caught_up(zk: ZooKeeperClient) -> ZooKeeperClient:
    await zk.sync(ROOT)  # the server of one session may lag behind that of another
    return zk
