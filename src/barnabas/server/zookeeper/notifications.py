"""Hearing of changes that others have made: numbered znodes below one parent, each told once, in their order.

Whoever hears of a new one takes away those that are old by then, as Kafka's brokers do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from barnabas.core.zookeeper.errors import NoAuthError, NoNodeError
from barnabas.core.zookeeper.paths import child
from barnabas.core.zookeeper.znodes.znode import Znode
from barnabas.net.zookeeper.client import ZooKeeperClient

_DIGITS: Final = 10
NOTHING: Final = -1
KEPT_MS: Final = 15 * 60 * 1000
"""How long a notification stays: brokers that do not come to read it in that time begin with everything anyway."""


class Notifications:
    """The numbered znodes below a parent, from when `mark` was called on."""

    def __init__(
        self, zk: ZooKeeperClient, parent: str, tell: Callable[[Znode], Awaitable[None]], kept_ms: int = KEPT_MS
    ) -> None:
        """tell: takes a notification; what it speaks of is read after the notification was made."""
        self._zk = zk
        self._parent = parent
        self._tell = tell
        self._kept_ms = kept_ms
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
        newest_ms = 0
        names = sorted(await self._names(lambda _: changed.set()), key=_number)
        for name in names:
            if _number(name) > self._last:
                newest_ms = max(newest_ms, await self._read(child(self._parent, name)))
                self._last = _number(name)
        await self._take_away(names, newest_ms - self._kept_ms)

    async def _take_away(self, names: Sequence[str], before_ms: int) -> None:
        """Delete those that were made before a time of ZooKeeper's clock; the oldest come first."""
        for name in names if before_ms > 0 else ():
            path = child(self._parent, name)
            stat = await self._zk.exists(path)
            if stat is not None and stat.ctime_ms >= before_ms:
                return
            with suppress(NoNodeError, NoAuthError):  # another broker was first, or has to be
                await self._zk.delete(path)

    async def _names(self, watch: Callable[[object], None]) -> list[str]:
        found = await self._zk.children(self._parent, watch)
        return [name for name in found if name[-_DIGITS:].isdigit()]

    async def _read(self, path: str) -> int:
        """Tell of one, and give when it was made."""
        try:
            data, stat = await self._zk.get(path)
        except NoNodeError:
            return 0  # taken away; it was old, and what it speaks of was read since
        await self._tell(Znode(path, data, stat.version, stat.czxid))
        return stat.ctime_ms


def _number(name: str) -> int:
    return int(name[-_DIGITS:])
