"""The clocks of the machine."""

from __future__ import annotations

import time


class SystemClock:
    """`model.ports.Clock` as the operating system tells it."""

    def now_ms(self) -> int:
        """Give the wall clock, ms since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Give a clock that never goes back, ms since some start."""
        return time.monotonic_ns() // 1_000_000
