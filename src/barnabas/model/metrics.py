"""A registry of measurements under Kafka's MBean names (design D8).

Plain counters and gauges that cost an addition on the hot path; rates and percentiles are worked out when somebody
looks, and what there may be ten thousand of (partitions) is enumerated then, not registered. One registry a node; no
globals. `values` gives what `/jmx` and `/metrics` show; how it is written down is the shell's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from barnabas.model.ports import Clock

Number = int | float
Value = Number | str
Bean = tuple[str, Mapping[str, Value]]
"""An MBean's name and its attributes."""
Source = Callable[[], Iterable[Bean]]
"""Enumerates MBeans when somebody looks."""

_MINUTES: Final = (("OneMinuteRate", 60_000), ("FiveMinuteRate", 300_000), ("FifteenMinuteRate", 900_000))
_PERCENTILES: Final = (
    ("50thPercentile", 0.5),
    ("75thPercentile", 0.75),
    ("95thPercentile", 0.95),
    ("98thPercentile", 0.98),
    ("99thPercentile", 0.99),
    ("999thPercentile", 0.999),
)
_HALF_WINDOW_MS: Final = 30_000
_WILD: Final = frozenset("*?[")


def mbean(domain: str, /, **tags: str) -> str:
    """Give an MBean's name, `domain:type=...,name=...`, tags in the order given; commas and the like are quoted."""
    return domain + ":" + ",".join(f"{k}={_quoted(v)}" for k, v in tags.items())


def _quoted(value: str) -> str:
    if any(c in value for c in ',=:"*?\n'):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return value


class Rates:
    """The rates of something that only grows: since the beginning, and over the last one, five and fifteen minutes.

    Moving averages that are brought up to date by each look: exact in the long run whoever looks how often, but
    someone who looks once in an hour sees the hour's mean.
    """

    __slots__ = ("_clock", "_count", "_looked_ms", "_moving", "_since_ms")

    def __init__(self, clock: Clock, since_ms: int | None = None) -> None:
        """since_ms: when counting began, on the monotonic clock; now, unless given."""
        self._clock = clock
        self._since_ms = self._looked_ms = clock.monotonic_ms() if since_ms is None else since_ms
        self._count: Number = 0
        self._moving: list[float] | None = None

    def attributes(self, count: Number, event: str, unit_ms: float = 1000, unit: str = "SECONDS") -> dict[str, Value]:
        """Give what Kafka's meters have. event: what is counted; unit_ms: how long the rates' unit of time is."""
        now = self._clock.monotonic_ms()
        elapsed_ms = now - self._looked_ms
        if elapsed_ms >= 1000:
            current = (count - self._count) * unit_ms / elapsed_ms
            if self._moving is None:
                self._moving = [current] * len(_MINUTES)
            else:
                for n, (_, span_ms) in enumerate(_MINUTES):
                    self._moving[n] += (1 - math.exp(-elapsed_ms / span_ms)) * (current - self._moving[n])
            self._looked_ms, self._count = now, count
        found: dict[str, Value] = {"Count": count, "EventType": event, "RateUnit": unit}
        found["MeanRate"] = count * unit_ms / max(1, now - self._since_ms)
        moving = self._moving or (found["MeanRate"],) * len(_MINUTES)
        return found | {name: rate for (name, _), rate in zip(_MINUTES, moving, strict=True)}


class Meter:
    """Counts events; `count` may be added to directly."""

    __slots__ = ("_event", "_rates", "count")

    def __init__(self, clock: Clock, event: str = "requests") -> None:
        self.count = 0
        self._event = event
        self._rates = Rates(clock)

    def mark(self, n: int = 1) -> None:
        """Count n events."""
        self.count += n

    def attributes(self) -> dict[str, Value]:
        """Give Count, what is counted, and the rates a second."""
        return self._rates.attributes(self.count, self._event)


def distribution(values: Sequence[Number], count: int) -> dict[str, Value]:
    """Give what Kafka's histograms have, of `values`: the latest of `count` that there were."""
    ordered = sorted(values) or [0]
    size = len(ordered)
    mean = sum(ordered) / size
    spread = math.sqrt(sum((v - mean) ** 2 for v in ordered) / (size - 1)) if size > 1 else 0.0
    found: dict[str, Value] = {
        "Count": count, "Mean": mean, "StdDev": spread, "Min": ordered[0], "Max": ordered[-1]
    }  # fmt: skip
    return found | {name: ordered[min(size - 1, int(share * size))] for name, share in _PERCENTILES}


class Histogram:
    """Remembers the latest 1,024 values: all but Count is told of those."""

    __slots__ = ("_ring", "count")
    SIZE: Final = 1024

    def __init__(self) -> None:
        self._ring: list[Number] = []
        self.count = 0

    def update(self, value: Number) -> None:
        """Take one value in."""
        if len(self._ring) < self.SIZE:
            self._ring.append(value)
        else:
            self._ring[self.count % self.SIZE] = value
        self.count += 1

    def attributes(self) -> dict[str, Value]:
        """Give Count, Mean, StdDev, Min, Max and the percentiles that Kafka's histograms have."""
        return distribution(self._ring, self.count)


class Timer:
    """How often something happens, and how long it takes: a meter and a histogram in one MBean."""

    __slots__ = ("_event", "_rates", "_times")

    def __init__(self, clock: Clock, event: str = "calls") -> None:
        self._event = event
        self._rates = Rates(clock)
        self._times = Histogram()

    def update(self, took_ms: float) -> None:
        """Take in how long it took."""
        self._times.update(took_ms)

    def attributes(self) -> dict[str, Value]:
        """Give the rates a second, the distribution in milliseconds, and the unit of that."""
        times = self._times.attributes()
        return self._rates.attributes(self._times.count, self._event) | times | {"LatencyUnit": "MILLISECONDS"}


class Window:
    """Sum, count and maximum of what was seen in the last 30 to 60 seconds."""

    __slots__ = ("_clock", "_new", "_old", "_since_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ms = clock.monotonic_ms()
        self._old: tuple[float, int, float] | None = None
        self._new = (0.0, 0, 0.0)

    def add(self, value: float) -> None:
        """Take in a value."""
        self._turn()
        total, count, top = self._new
        self._new = (total + value, count + 1, value if not count or value > top else top)

    @property
    def mean(self) -> float:
        """Give the mean; NaN when there was nothing, as Kafka's is."""
        total, count, _ = self._both()
        return total / count if count else float("nan")

    @property
    def top(self) -> float:
        """Give the maximum; NaN when there was nothing."""
        _, count, top = self._both()
        return top if count else float("nan")

    @property
    def rate(self) -> float:
        """Give the sum, by second of the window."""
        total, _, _ = self._both()
        elapsed_ms = self._clock.monotonic_ms() - self._since_ms + (_HALF_WINDOW_MS if self._old is not None else 0)
        return total * 1000 / max(elapsed_ms, _HALF_WINDOW_MS)

    def _both(self) -> tuple[float, int, float]:
        self._turn()
        if self._old is None or not self._old[1]:
            return self._new
        if not self._new[1]:
            return self._old
        return self._old[0] + self._new[0], self._old[1] + self._new[1], max(self._old[2], self._new[2])

    def _turn(self) -> None:
        now = self._clock.monotonic_ms()
        age = now - self._since_ms
        if age >= _HALF_WINDOW_MS:
            self._old = self._new if age < 2 * _HALF_WINDOW_MS else (0.0, 0, 0.0)
            self._new, self._since_ms = (0.0, 0, 0.0), now


@dataclass(slots=True)
class Metrics:
    """The node's registry; a name is made on first use and kept until `remove`."""

    clock: Clock
    _gauges: dict[str, dict[str, Callable[[], Value]]] = field(default_factory=dict)
    _meters: dict[str, Meter] = field(default_factory=dict)
    _histograms: dict[str, Histogram] = field(default_factory=dict)
    _others: dict[str, Callable[[], Mapping[str, Value]]] = field(default_factory=dict)
    _sources: list[tuple[str, Source]] = field(default_factory=list)

    def gauge(self, name: str, read: Callable[[], Value], attribute: str = "Value") -> None:
        """Publish what `read` gives whenever somebody looks."""
        self._gauges.setdefault(name, {})[attribute] = read

    def meter(self, name: str, event: str = "requests") -> Meter:
        """Give the meter of that MBean. event: what it counts."""
        found = self._meters.get(name)
        if found is None:
            found = self._meters[name] = Meter(self.clock, event)
        return found

    def counted(self, name: str, count: Callable[[], Number], event: str = "requests") -> None:
        """Publish a meter of what is counted elsewhere and only grows."""
        rates = Rates(self.clock)
        self._others[name] = lambda: rates.attributes(count(), event)

    def histogram(self, name: str) -> Histogram:
        """Give the histogram of that MBean."""
        found = self._histograms.get(name)
        if found is None:
            found = self._histograms[name] = Histogram()
        return found

    def bean(self, name: str, attributes: Callable[[], Mapping[str, Value]]) -> None:
        """Publish an MBean whose attributes are worked out together."""
        self._others[name] = attributes

    def source(self, head: str, enumerate_all: Source) -> None:
        """Publish MBeans whose names all begin with `head`; they are enumerated when somebody looks."""
        self._sources.append((head, enumerate_all))

    def remove(self, name: str) -> None:
        """Forget an MBean."""
        self._gauges.pop(name, None)
        self._meters.pop(name, None)
        self._histograms.pop(name, None)
        self._others.pop(name, None)

    def values(self, pattern: str = "*") -> Iterator[Bean]:
        """Give (MBean name, attributes) of every name that `pattern` (with `*` and `?`) matches.

        Registered ones first, by name, then each source's. May be gone on with later: what is there then is given.
        """
        head = pattern[: next((n for n, c in enumerate(pattern) if c in _WILD), len(pattern))]
        for name in sorted({*self._gauges, *self._meters, *self._histograms, *self._others}):
            if name.startswith(head) and fnmatchcase(name, pattern):
                yield name, self._attributes(name)
        for begins, enumerate_all in self._sources:
            if begins.startswith(head) or head.startswith(begins):
                for name, attributes in enumerate_all():
                    if pattern == "*" or fnmatchcase(name, pattern):
                        yield name, attributes

    def _attributes(self, name: str) -> Mapping[str, Value]:
        found: dict[str, Value] = {a: read() for a, read in self._gauges.get(name, {}).items()}
        if name in self._meters:
            found |= self._meters[name].attributes()
        if name in self._histograms:
            found |= self._histograms[name].attributes()
        if name in self._others:
            found |= self._others[name]()
        return found
