"""Notifications that everybody has heard of by now go, as Kafka's brokers see to: else they pile up for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Never

from barnabas.core.zookeeper.errors import NoNodeError
from barnabas.core.zookeeper.paths import child
from barnabas.net.zookeeper.client import ZooKeeperClient

KEPT_MS: Final = 15 * 60 * 1000
_EVERY_S: Final = 60
_DIGITS: Final = 10


async def keep_few(zk: ZooKeeperClient, parents: Iterable[str], now_ms: Callable[[], int]) -> Never:
    """Remove what is old now, and again every minute, until cancelled; ZooKeeperError when it cannot be asked."""
    wanted = tuple(parents)
    while True:
        for parent in wanted:
            await remove_old(zk, parent, now_ms())
        await asyncio.sleep(_EVERY_S)


async def remove_old(zk: ZooKeeperClient, parent: str, now_ms: int) -> int:
    """Remove the notifications below a parent that are older than `KEPT_MS`, and give how many; any broker may do so.

    now_ms: wall clock, as ZooKeeper's servers have it.
    """
    try:
        names = [name for name in await zk.children(parent) if name[-_DIGITS:].isdigit()]
    except NoNodeError:
        return 0
    removed = 0
    for path in (child(parent, name) for name in sorted(names, key=lambda name: name[-_DIGITS:])):
        stat = await zk.exists(path)
        if stat is None:
            continue
        if now_ms - stat.ctime_ms <= KEPT_MS:
            break  # those after it are younger
        try:
            await zk.delete(path)
            removed += 1
        except NoNodeError:
            pass  # another broker was faster
    return removed
