"""Reading the ACLs of many znodes, level by level, and doing many things at a time in general."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from barnabas.core.zookeeper.errors import NoAuthError, NoNodeError, ZooKeeperError
from barnabas.core.zookeeper.migration import Znode
from barnabas.core.zookeeper.paths import child
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.lanes import Lanes

T = TypeVar("T")
AT_ONCE: Final = 800
"""Calls under way. From 1000 on (`globalOutstandingLimit`) a server holds back everybody's, brokers' too."""
Counted = Callable[[int], object]
"""Takes how many more are done."""


@dataclass(frozen=True, slots=True)
class Read:
    """found: the znodes that are there, a parent before its children; refused: the paths that may not be read."""

    found: list[Znode] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


async def read_all(zk: ZooKeeperClient, paths: Iterable[str], counted: Counted) -> Read:
    """Read some znodes; those that are not there are left out."""
    return await _read(zk, paths, counted, below=False)


async def read_trees(zk: ZooKeeperClient, roots: Iterable[str], counted: Counted) -> Read:
    """Read some znodes and all below them; those that vanish meanwhile are left out."""
    return await _read(zk, roots, counted, below=True)


async def _read(zk: ZooKeeperClient, paths: Iterable[str], counted: Counted, *, below: bool) -> Read:
    seen = Read()
    level = list(paths)
    next_level: list[str] = []

    async def look(zk: ZooKeeperClient, portion: Sequence[str]) -> None:
        parents = []
        for path, found in zip(portion, await zk.acls_of(portion), strict=True):
            if not isinstance(found, ZooKeeperError):
                acls, stat = found
                seen.found.append(Znode(path, acls, stat))
                counted(1)
                if below and stat.children:
                    parents.append(path)
            elif _is_refused(found):
                seen.refused.append(path)
        for path, names in zip(parents, await zk.children_of(parents), strict=True):
            if not isinstance(names, ZooKeeperError):
                next_level.extend(child(path, name) for name in names)
            elif _is_refused(names):
                seen.refused.append(path)

    async with Lanes(zk) as lanes:
        while level:
            await lanes.spread(level, look)
            level, next_level = next_level, []
    return seen


def _is_refused(error: ZooKeeperError) -> bool:
    """Say that a znode may not be read; False when it is not there, and any other error is raised."""
    if not isinstance(error, NoNodeError | NoAuthError):
        raise error
    return isinstance(error, NoAuthError)


async def each(first: Iterable[T], work: Callable[[T], Awaitable[Iterable[T]]]) -> None:
    """Do some work for each thing, and for what the work gives in turn, many at a time; the first error ends it."""
    waiting = deque(first)
    workers = 0

    async def worker() -> None:
        nonlocal workers
        while waiting:
            waiting.extend(await work(waiting.popleft()))
            hire()
        workers -= 1

    def hire() -> None:
        nonlocal workers
        for _ in range(min(len(waiting), AT_ONCE - workers)):
            workers += 1
            group.create_task(worker())

    try:
        async with asyncio.TaskGroup() as group:
            hire()
    except BaseExceptionGroup as e:
        raise e.exceptions[0] from None
