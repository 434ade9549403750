"""The registry of measurements: rates, distributions, and what is enumerated only when somebody looks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from barnabas.model.metrics import Bean, Histogram, Metrics, Rates, Timer, mbean


@dataclass
class AClock:
    now: int = 1_000

    def now_ms(self) -> int:
        return 1_700_000_000_000 + self.now

    def monotonic_ms(self) -> int:
        return self.now


def test_a_meter_has_what_kafkas_have() -> None:
    clock = AClock()
    meter = Metrics(clock).meter("a:type=b", "bytes")
    meter.mark(600)
    clock.now += 60_000
    assert meter.attributes() == {
        "Count": 600,
        "EventType": "bytes",
        "RateUnit": "SECONDS",
        "MeanRate": 10,
        "OneMinuteRate": 10,
        "FiveMinuteRate": 10,
        "FifteenMinuteRate": 10,
    }


def test_rates_forget_the_quicker_the_shorter_they_are() -> None:
    clock = AClock()
    rates = Rates(clock)
    clock.now += 60_000
    rates.attributes(600, "requests")
    clock.now += 60_000
    quiet = rates.attributes(600, "requests")
    assert quiet["MeanRate"] == 5
    assert quiet["OneMinuteRate"] == pytest.approx(10 * math.exp(-1))
    assert quiet["FiveMinuteRate"] == pytest.approx(10 * math.exp(-1 / 5))
    assert quiet["FifteenMinuteRate"] == pytest.approx(10 * math.exp(-1 / 15))


def test_looking_more_often_changes_no_rate() -> None:
    clock = AClock()
    often, once = Rates(clock), Rates(clock)
    clock.now += 10_000
    often.attributes(100, "requests")
    once.attributes(100, "requests")
    for _ in range(30):
        clock.now += 2_000
        seen = often.attributes(100, "requests")
    assert seen["OneMinuteRate"] == pytest.approx(once.attributes(100, "requests")["OneMinuteRate"])


def test_a_look_at_once_after_another_is_the_same() -> None:
    clock = AClock()
    rates = Rates(clock)
    clock.now += 5_000
    first = rates.attributes(50, "requests")
    clock.now += 10
    assert rates.attributes(99, "requests")["OneMinuteRate"] == first["OneMinuteRate"] == 10


def test_what_was_counted_before_the_first_look_is_no_burst() -> None:
    clock = AClock(now=101_000)
    assert Rates(clock, since_ms=1_000).attributes(1_000, "requests")["OneMinuteRate"] == 10


def test_a_histogram_tells_of_the_latest_values() -> None:
    histogram = Histogram()
    for value in range(2_000):
        histogram.update(value)
    found = histogram.attributes()
    assert (found["Count"], found["Min"], found["Max"]) == (2_000, 976, 1_999)
    assert found["Mean"] == pytest.approx((976 + 1_999) / 2)
    assert found["StdDev"] == pytest.approx(295.74, abs=0.01)
    assert (found["50thPercentile"], found["999thPercentile"]) == (1_488, 1_998)


def test_an_empty_histogram_is_all_zero() -> None:
    assert set(Histogram().attributes().values()) == {0}


def test_a_timer_is_a_meter_and_a_histogram() -> None:
    clock = AClock()
    timer = Timer(clock)
    timer.update(4.0)
    clock.now += 2_000
    found = timer.attributes()
    assert (found["Count"], found["Max"], found["OneMinuteRate"]) == (1, 4.0, 0.5)
    assert (found["EventType"], found["LatencyUnit"]) == ("calls", "MILLISECONDS")


def test_a_source_is_asked_when_its_names_may_match() -> None:
    registry = Metrics(AClock())
    asked: list[str] = []

    def partitions() -> Iterator[Bean]:
        asked.append("partitions")
        for number in range(3):
            yield mbean("kafka.log", type="Log", name="Size", partition=str(number)), {"Value": number}

    registry.source("kafka.log:type=Log", partitions)
    registry.gauge("kafka.log:type=LogManager,name=Offline", lambda: 0)
    assert asked == []
    assert list(registry.values("kafka.server:*")) == []
    assert asked == []
    assert [name for name, _ in registry.values("kafka.log:type=LogManager,*")] == [
        "kafka.log:type=LogManager,name=Offline"
    ]
    [(_, found)] = registry.values("kafka.log:type=Log,name=Size,partition=1")
    assert found == {"Value": 1}
    assert len(list(registry.values())) == 4


def test_what_is_removed_is_gone() -> None:
    registry = Metrics(AClock())
    registry.meter("a:type=b")
    registry.counted("a:type=c", lambda: 1)
    registry.bean("a:type=d", lambda: {"Value": 1})
    for name in ("a:type=b", "a:type=c", "a:type=d"):
        registry.remove(name)
    assert list(registry.values()) == []
