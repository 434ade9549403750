"""The asynchronous client, called from Spark's plain Python: a loop in a thread, one for a process and configuration.

Spark keeps its Python workers between tasks, so a bridge is kept too: the next task finds the connections open.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from barnabas.client.cluster import Cluster
from barnabas.client.config import ClientConfig

T = TypeVar("T")
Work = Callable[[Cluster], Coroutine[Any, Any, T]]

MOST_KEPT: Final = 4
_CLOSE_TIMEOUT_S: Final = 5.0


class Bridge:
    """One client of one cluster."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="barnabas-client", daemon=True)
        self._thread.start()
        self._cluster = Cluster(ClientConfig.from_properties(client))

    @property
    def config(self) -> ClientConfig:
        """Give the configuration, references resolved when they are needed."""
        return self._cluster.config

    def submit(self, work: Work[T]) -> Future[T]:
        """Start something; the caller may go on and take the result later."""
        return asyncio.run_coroutine_threadsafe(work(self._cluster), self._loop)

    def call(self, work: Work[T]) -> T:
        """Do something and wait for what it gives or raises."""
        return self.submit(work).result()

    def close(self) -> None:
        """Close the connections and end the thread."""
        try:
            self.submit(Cluster.close).result(_CLOSE_TIMEOUT_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CLOSE_TIMEOUT_S)
            self._loop.close()


class _Kept:
    """The bridges of this process that no one uses now, the last used last."""

    def __init__(self) -> None:
        self._idle: dict[tuple[tuple[str, str], ...], Bridge] = {}
        self._lock = threading.Lock()

    @contextmanager
    def borrow(self, client: Mapping[str, str]) -> Iterator[Bridge]:
        key = tuple(sorted(client.items()))
        with self._lock:
            bridge = self._idle.pop(key, None)
        bridge = bridge or Bridge(client)
        try:
            yield bridge
        except BaseException:
            bridge.close()  # it may have read an old password, or hold a broken connection
            raise
        with self._lock:
            surplus = self._idle.pop(key, None)
            self._idle[key] = bridge
            if surplus is None and len(self._idle) > MOST_KEPT:
                surplus = self._idle.pop(next(iter(self._idle)))
        if surplus is not None:
            surplus.close()


_KEPT: Final = _Kept()


def borrow(client: Mapping[str, str]) -> Any:
    """Give a bridge for these settings as a context manager, one that was used before when there is one."""
    return _KEPT.borrow(client)
