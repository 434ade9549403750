"""Warnings that come once in a while, however often there is cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

QUIET_S: Final = 10.0
_MOST_KEYS: Final = 10_000


class OnceInAWhile:
    """Says whether a complaint is due again. clock: seconds that only grow."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[object, tuple[float, int]] = {}

    def due(self, key: object) -> int | None:
        """Give how many complaints of that key were left out since the last one; None when this one is to be."""
        now = self._clock()
        last, left_out = self._last.get(key, (now - QUIET_S, 0))
        if now - last < QUIET_S:
            self._last[key] = last, left_out + 1
            return None
        if len(self._last) >= _MOST_KEYS:
            self._last = {k: v for k, v in self._last.items() if now - v[0] < QUIET_S}
        self._last[key] = now, 0
        return left_out
