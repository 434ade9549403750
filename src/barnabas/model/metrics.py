"""A registry of measurements under Kafka's MBean names (design D8).

Plain counters and gauges that cost an addition on the hot path; rates and percentiles are worked out when somebody
reads. One registry a node; no globals. `values` gives the JSON of `/jmx`; other renderings are the shell's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from barnabas.model.ports import Clock

Number = int | float


def mbean(domain: str, /, **tags: str) -> str:
    """Give an MBean's name, `domain:type=...,name=...`, tags in the order given; commas and the like are quoted."""
    return domain + ":" + ",".join(f"{k}={_quoted(v)}" for k, v in tags.items())


def _quoted(value: str) -> str:
    if any(c in value for c in ',=:"*?\n'):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return value


class Meter:
    """Counts events; tells how many, and the mean rate a second since it began and over the last minute."""

    __slots__ = ("_clock", "_minute_count", "_minute_ms", "_rate", "_since_ms", "count")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.count = 0
        self._since_ms = self._minute_ms = clock.monotonic_ms()
        self._minute_count = 0
        self._rate = 0.0

    def mark(self, n: int = 1) -> None:
        """Count n events."""
        self.count += n

    def attributes(self) -> dict[str, Number]:
        """Give Count, MeanRate and OneMinuteRate (events a second)."""
        now = self._clock.monotonic_ms()
        elapsed_ms = now - self._minute_ms
        if elapsed_ms >= 1000:
            current = (self.count - self._minute_count) * 1000 / elapsed_ms
            weight = 1 - math.exp(-elapsed_ms / 60_000)
            self._rate += weight * (current - self._rate)
            self._minute_ms, self._minute_count = now, self.count
        total_ms = max(1, now - self._since_ms)
        return {"Count": self.count, "MeanRate": self.count * 1000 / total_ms, "OneMinuteRate": self._rate}


class Histogram:
    """Remembers the latest 1,024 values; tells count, mean, max and percentiles of those."""

    __slots__ = ("_ring", "_total", "count")
    SIZE = 1024

    def __init__(self) -> None:
        self._ring: list[Number] = []
        self.count = 0
        self._total: Number = 0

    def update(self, value: Number) -> None:
        """Take one value in."""
        if len(self._ring) < self.SIZE:
            self._ring.append(value)
        else:
            self._ring[self.count % self.SIZE] = value
        self.count += 1
        self._total += value

    def attributes(self) -> dict[str, Number]:
        """Give Count, Mean, Min, Max and the percentiles that Kafka's histograms have."""
        ordered = sorted(self._ring) or [0]

        def at(share: float) -> Number:
            return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

        return {
            "Count": self.count,
            "Mean": self._total / self.count if self.count else 0.0,
            "Min": ordered[0],
            "Max": ordered[-1],
            "50thPercentile": at(0.5),
            "75thPercentile": at(0.75),
            "95thPercentile": at(0.95),
            "98thPercentile": at(0.98),
            "99thPercentile": at(0.99),
            "999thPercentile": at(0.999),
        }


@dataclass(slots=True)
class Metrics:
    """The node's registry; a name is made on first use and kept until `remove`."""

    clock: Clock
    _gauges: dict[str, dict[str, Callable[[], Number | str]]] = field(default_factory=dict)
    _meters: dict[str, Meter] = field(default_factory=dict)
    _histograms: dict[str, Histogram] = field(default_factory=dict)

    def gauge(self, name: str, read: Callable[[], Number | str], attribute: str = "Value") -> None:
        """Publish what `read` gives whenever somebody looks."""
        self._gauges.setdefault(name, {})[attribute] = read

    def meter(self, name: str) -> Meter:
        """Give the meter of that MBean."""
        found = self._meters.get(name)
        if found is None:
            found = self._meters[name] = Meter(self.clock)
        return found

    def histogram(self, name: str) -> Histogram:
        """Give the histogram of that MBean."""
        found = self._histograms.get(name)
        if found is None:
            found = self._histograms[name] = Histogram()
        return found

    def remove(self, name: str) -> None:
        """Forget an MBean."""
        self._gauges.pop(name, None)
        self._meters.pop(name, None)
        self._histograms.pop(name, None)

    def values(self, pattern: str = "*") -> Iterator[tuple[str, dict[str, Number | str]]]:
        """Give (MBean name, attributes) of every name that `pattern` (with `*` and `?`) matches, sorted."""
        for name in sorted({*self._gauges, *self._meters, *self._histograms}):
            if not fnmatchcase(name, pattern):
                continue
            attributes: dict[str, Number | str] = {a: read() for a, read in self._gauges.get(name, {}).items()}
            if name in self._meters:
                attributes |= self._meters[name].attributes()
            if name in self._histograms:
                attributes |= self._histograms[name].attributes()
            yield name, attributes
