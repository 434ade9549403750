"""Time as a test wants it."""

from __future__ import annotations

import time

from barnabas.connect.worker import Worker


class SetClock:
    """A wall clock that the test sets, and another that it may put forward."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000 + self.ahead_ms

    def pass_ms(self, ms: int, *workers: Worker) -> None:
        """Let time pass, and have the workers look at the clock."""
        self.ms += ms
        for worker in workers:
            worker.engine.inbox.wake.set()
