"""Deadlines by name: at most one each, the soonest first. Pure; the shell says what time it is."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Generic, TypeVar

A = TypeVar("A")
Key = tuple[str, ...]


@dataclass(slots=True)
class Deadlines(Generic[A]):
    """A name holds one deadline with one action; scheduling it again replaces both."""

    _live: dict[Key, tuple[int, int, A]] = field(default_factory=dict)
    _heap: list[tuple[int, int, Key]] = field(default_factory=list)
    _serial: int = 0

    def schedule(self, key: Key, at_ms: int, action: A) -> None:
        """Set or move the deadline of `key`."""
        self._serial += 1
        self._live[key] = (at_ms, self._serial, action)
        heapq.heappush(self._heap, (at_ms, self._serial, key))
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._live):
            self._compact()

    def cancel(self, key: Key) -> None:
        """Forget the deadline of `key`, if it has one."""
        self._live.pop(key, None)

    def next_ms(self) -> int | None:
        """Give the time of the soonest deadline, or None."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> A | None:
        """Take the soonest deadline that is not after now_ms, or give None."""
        self._drop_stale()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, _, key = heapq.heappop(self._heap)
        return self._live.pop(key)[2]

    def clear(self) -> None:
        """Forget all deadlines."""
        self._live.clear()
        self._heap.clear()

    def __contains__(self, key: Key) -> bool:
        return key in self._live

    def __len__(self) -> int:
        return len(self._live)

    def _drop_stale(self) -> None:
        heap = self._heap
        while heap:
            live = self._live.get(heap[0][2])
            if live is not None and live[1] == heap[0][1]:
                return
            heapq.heappop(heap)

    def _compact(self) -> None:
        """Heartbeats move deadlines far more often than they expire: drop what was moved away."""
        self._heap = [(at, serial, key) for key, (at, serial, _) in self._live.items()]
        heapq.heapify(self._heap)
