"""A rate as Kafka's quotas measure it: a sum over a few time windows, and how long to wait until it fits again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class _Window:
    start_ms: int
    last_event_ms: int
    total: float = 0.0


class QuotaRate:
    """Events a second over `windows` windows of `window_ms`, the newest of them under way."""

    __slots__ = ("_current", "_ring", "_window_ms", "_windows")

    def __init__(self, window_ms: int = 1000, windows: int = 11) -> None:
        self._window_ms = window_ms
        self._windows = windows
        self._ring: list[_Window] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Count `value` at that moment; a negative one takes back what was counted."""
        if not self._ring:
            self._ring.append(_Window(now_ms, now_ms))
        window = self._ring[self._current]
        if now_ms - window.start_ms >= self._window_ms:
            window = self._advance(now_ms)
        window.total += value
        window.last_event_ms = now_ms

    def measure(self, now_ms: int) -> float:
        """Give the rate, per second."""
        self._purge(now_ms)
        total = sum(window.total for window in self._ring)
        return total / (self._span_ms(now_ms) / 1000)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Give how long nothing may be counted until the rate is within `limit` again; 0 when it is now."""
        rate = self.measure(now_ms)
        if rate <= limit:
            return 0
        if limit <= 0:
            return self._window_ms * self._windows
        return round((rate - limit) / limit * self._span_ms(now_ms))

    def _advance(self, now_ms: int) -> _Window:
        # One window more than are summed, so that the oldest may still overlap the time that counts.
        self._current = (self._current + 1) % (self._windows + 1)
        window = _Window(now_ms, now_ms)
        if self._current >= len(self._ring):
            self._ring.append(window)
        else:
            self._ring[self._current] = window
        return window

    def _purge(self, now_ms: int) -> None:
        expire_ms = self._windows * self._window_ms
        for window in self._ring:
            if now_ms - window.last_event_ms >= expire_ms:
                window.start_ms = window.last_event_ms = now_ms
                window.total = 0.0

    def _span_ms(self, now_ms: int) -> int:
        # A rate that has just begun is taken over the full span all the same, or the first events would look many.
        oldest = min((window.start_ms for window in self._ring), default=now_ms)
        elapsed = now_ms - oldest
        missing = self._windows - 1 - elapsed // self._window_ms
        return max(elapsed + max(missing, 0) * self._window_ms, 1)
