"""The watches of a session: who wants to know what, and what to ask again on another connection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from barnabas.core.zookeeper.values import Watch, WatchEvent, WatchKind
from barnabas.net.zookeeper.requests import SetWatches

_BATCH_BYTES: Final = 128 << 10
"""Of paths in one request: far below what a server takes."""


class Watches:
    """Each is called once, and then is over. Paths are whole; who is called gets those below the chroot."""

    def __init__(self, relative: Callable[[str], str]) -> None:
        self._relative = relative
        self._data: defaultdict[str, list[Watch]] = defaultdict(list)
        self._existence: defaultdict[str, list[Watch]] = defaultdict(list)
        self._children: defaultdict[str, list[Watch]] = defaultdict(list)

    def data(self, path: str, watch: Watch) -> None:
        """Wait for a change or the end of a znode that is there."""
        self._data[path].append(watch)

    def existence(self, path: str, watch: Watch) -> None:
        """Wait for a znode that is not there."""
        self._existence[path].append(watch)

    def children(self, path: str, watch: Watch) -> None:
        """Wait for a change of the list of children, or the end of their parent."""
        self._children[path].append(watch)

    def fire(self, what: int, path: str) -> None:
        """Tell those who wait for this. what: the protocol's number."""
        kind = WatchKind(what)
        called: list[Watch] = []
        if kind is not WatchKind.CHILDREN:
            called += self._data.pop(path, []) + self._existence.pop(path, [])
        if kind in (WatchKind.CHILDREN, WatchKind.DELETED):
            called += self._children.pop(path, [])
        event = WatchEvent(kind, self._relative(path))
        for watch in dict.fromkeys(called):
            watch(event)

    def clear(self) -> None:
        """Forget all: the session that they belong to is gone."""
        for some in (self._data, self._existence, self._children):
            some.clear()

    def requests(self, zxid: int) -> Iterator[SetWatches]:
        """Give what asks for all of them again. zxid: of the newest transaction that was told of before."""
        batch: tuple[list[str], list[str], list[str]] = ([], [], [])
        size = 0
        for at, some in enumerate((self._data, self._existence, self._children)):
            for path in some:
                batch[at].append(path)
                size += len(path)
                if size > _BATCH_BYTES:
                    yield SetWatches(zxid, *batch)
                    batch, size = ([], [], []), 0
        if size:
            yield SetWatches(zxid, *batch)
