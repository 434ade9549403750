"""Reading the ACLs of many znodes with many calls under way, and doing many things at a time in general."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from barnabas.core.zookeeper.errors import NoAuthError, NoNodeError
from barnabas.core.zookeeper.migration import Znode
from barnabas.core.zookeeper.paths import child
from barnabas.net.zookeeper.client import ZooKeeperClient

T = TypeVar("T")
AT_ONCE: Final = 800
"""Calls under way. From 1000 on (`globalOutstandingLimit`) a server holds back everybody's, brokers' too."""
Counted = Callable[[int], object]
"""Takes how many more are done."""


class NotReadableError(Exception):
    """Znodes whose ACL or children may not be read. paths: they."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        super().__init__(f"{len(paths)} znodes may not be read, {paths[0]} among them")


async def read_all(zk: ZooKeeperClient, paths: Iterable[str], counted: Counted) -> list[Znode]:
    """Give those of the znodes that are there, a parent before its children.

    NotReadableError when there are some that may not be read.
    """
    return await _read(zk, paths, counted, below=False)


async def read_trees(zk: ZooKeeperClient, roots: Iterable[str], counted: Counted) -> list[Znode]:
    """Give the znodes that are there and all below them; those that vanish meanwhile are left out.

    NotReadableError when there are some that may not be read.
    """
    return await _read(zk, roots, counted, below=True)


async def _read(zk: ZooKeeperClient, paths: Iterable[str], counted: Counted, *, below: bool) -> list[Znode]:
    found: list[Znode] = []
    refused: list[str] = []

    async def read(path: str) -> Iterable[str]:
        try:
            acls, stat = await zk.acls(path)
            found.append(Znode(path, acls, stat))
            names = await zk.children(path) if below and stat.children else []
        except NoNodeError:
            return ()
        except NoAuthError:
            refused.append(path)
            return ()
        counted(1)
        return [child(path, name) for name in names]

    await each(paths, read)
    if refused:
        raise NotReadableError(sorted(refused))
    return found


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
