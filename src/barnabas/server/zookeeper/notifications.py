"""Hearing of changes that others have made: numbered znodes below one parent, each told once, in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from barnabas.core.zookeeper.errors import NoNodeError
from barnabas.core.zookeeper.paths import child
from barnabas.core.zookeeper.znodes.znode import Znode
from barnabas.net.zookeeper.client import ZooKeeperClient

_DIGITS: Final = 10
NOTHING: Final = -1


class Notifications:
    """The numbered znodes below a parent, from when `mark` was called on."""

    def __init__(self, zk: ZooKeeperClient, parent: str, tell: Callable[[Znode], Awaitable[None]]) -> None:
        """tell: takes a notification; what it speaks of is read after the notification was made."""
        self._zk = zk
        self._parent = parent
        self._tell = tell
        self._last = NOTHING

    async def mark(self) -> None:
        """Take what has been told so far for known: whoever reads everything afterwards has it."""
        self._last = max((_number(name) for name in await self._names(lambda _: None)), default=NOTHING)

    async def follow(self) -> None:
        """Tell of what comes, until cancelled; ZooKeeperError when the session is of no use any more."""
        while True:
            changed = asyncio.Event()
            await self._tell_new(changed)
            await changed.wait()

    async def _tell_new(self, changed: asyncio.Event) -> None:
        for name in sorted(await self._names(lambda _: changed.set()), key=_number):
            if _number(name) > self._last:
                await self._read(child(self._parent, name))
                self._last = _number(name)

    async def _names(self, watch: Callable[[object], None]) -> list[str]:
        found = await self._zk.children(self._parent, watch)
        return [name for name in found if name[-_DIGITS:].isdigit()]

    async def _read(self, path: str) -> None:
        try:
            data, stat = await self._zk.get(path)
        except NoNodeError:
            return  # its maker has taken it away; it was old, and what it speaks of was read since
        await self._tell(Znode(path, data, stat.version, stat.czxid))


def _number(name: str) -> int:
    return int(name[-_DIGITS:])
