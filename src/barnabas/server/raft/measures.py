"""What a replica of the metadata log measures of itself, as Kafka does: over the last 30 to 60 seconds."""

from __future__ import annotations

from collections import deque

from barnabas.model.metrics import Window
from barnabas.model.ports import Clock


class RaftMeasures:
    """Latencies in ms, records as counts; `max_group`: the most batches that one write has carried."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.commit_latency = Window(clock)
        self.election_latency = Window(clock)
        self.appended_records = Window(clock)
        self.fetched_records = Window(clock)
        self.max_group = 0
        self._appended: deque[tuple[int, int]] = deque()
        self._election_since_ms: int | None = None
        self._idle_ms = self._busy_ms = 0
        self._turned_ms = clock.monotonic_ms()

    def appended(self, end_offset: int, records: int, batches: int) -> None:
        """Note that the leader wrote records up to `end_offset`."""
        self.max_group = max(self.max_group, batches)
        self.appended_records.add(records)
        self._appended.append((end_offset, self._clock.monotonic_ms()))

    def fetched(self, records: int) -> None:
        """Note that a follower wrote records of the leader's."""
        self.fetched_records.add(records)
        self._appended.clear()

    def committed(self, high_watermark: int) -> None:
        """Note what is committed."""
        while self._appended and self._appended[0][0] <= high_watermark:
            self.commit_latency.add(self._clock.monotonic_ms() - self._appended.popleft()[1])

    def stands(self) -> None:
        """Note that this replica stands for election."""
        if self._election_since_ms is None:
            self._election_since_ms = self._clock.monotonic_ms()

    def elected(self) -> None:
        """Note that there is a leader."""
        if self._election_since_ms is not None:
            self.election_latency.add(self._clock.monotonic_ms() - self._election_since_ms)
            self._election_since_ms = None

    def waited(self) -> None:
        """Note that the driver has waited since it last worked."""
        now = self._clock.monotonic_ms()
        self._idle_ms += now - self._turned_ms
        self._turned_ms = now

    def worked(self) -> None:
        """Note that the driver has worked since it last waited."""
        now = self._clock.monotonic_ms()
        self._busy_ms += now - self._turned_ms
        self._turned_ms = now

    def idle_ratio(self) -> float:
        """Give the part of the time since the last question in which the driver had nothing to do."""
        idle, busy = self._idle_ms, self._busy_ms
        self._idle_ms = self._busy_ms = 0
        return idle / (idle + busy) if idle + busy else 1.0
