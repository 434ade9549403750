"""Followers that a new leader waits for: they are not kept waiting with fetches that do not name its partitions yet.

A follower has one fetch under way to a leader. When it comes to follow another partition there, it can say so only
with its next fetch, and until it does nothing can be committed. So for a moment after an election its fetches are
answered soon, though there is nothing to tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from barnabas.server.replication.fetch_reading import Reading

WAIT_MS: Final = 20
"""How long a fetch may wait meanwhile: about the time that brokers take up metadata after one another."""
MOMENT_MS: Final = 1_000


class AwaitedFollowers:
    """Who is waited for, and which fetches of theirs wait here."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._until_ms: dict[int, int] = {}
        self._parked: dict[int, set[Reading]] = {}

    def elected(self, followers: Iterable[int]) -> None:
        """Wait for the followers of a partition that is led here anew."""
        until_ms = self._now_ms() + MOMENT_MS
        for broker_id in followers:
            self._until_ms[broker_id] = until_ms
            for reading in self._parked.get(broker_id, ()):
                asyncio.get_running_loop().call_later(WAIT_MS / 1000, reading.release)

    def max_wait_ms(self, broker_id: int, wanted_ms: int) -> int:
        """Give how long a fetch of the follower may wait."""
        until_ms = self._until_ms.get(broker_id)
        if until_ms is None:
            return wanted_ms
        if until_ms <= self._now_ms():
            del self._until_ms[broker_id]
            return wanted_ms
        return min(wanted_ms, WAIT_MS)

    def parked(self, broker_id: int, reading: Reading) -> None:
        """Take note of a fetch that waits."""
        self._parked.setdefault(broker_id, set()).add(reading)

    def gone(self, broker_id: int, reading: Reading) -> None:
        """Take note that it waits no more."""
        self._parked.get(broker_id, set()).discard(reading)
