"""What the shell lends the pure layers: time, chance and fresh ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.model.uuid import Uuid

NewUuid = Callable[[], Uuid]
"""Gives a fresh random id that is none of `RESERVED_UUIDS`."""


class Clock(Protocol):
    """Two clocks: the wall's for timestamps in records, a monotonic one for durations."""

    def now_ms(self) -> int:
        """Give the wall clock, ms since the epoch."""
        ...

    def monotonic_ms(self) -> int:
        """Give a clock that never goes back, ms since some start."""
        ...
