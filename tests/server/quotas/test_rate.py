"""Rates as Kafka measures them."""

from __future__ import annotations

import pytest

from barnabas.server.quotas.rate import QuotaRate


def test_a_rate_that_just_began_is_taken_over_the_full_span() -> None:
    rate = QuotaRate(1000, 11)
    rate.record(20, 0)
    assert rate.measure(0) == pytest.approx(2.0)
    assert rate.measure(500) == pytest.approx(20 / 10.5)


def test_waiting_the_throttle_time_brings_the_rate_within_the_limit() -> None:
    rate = QuotaRate(1000, 11)
    rate.record(150, 0)
    wait_ms = rate.throttle_ms(10, 0)
    assert wait_ms == 5000
    assert rate.throttle_ms(100, 0) == 0


def test_what_is_old_no_longer_counts() -> None:
    rate = QuotaRate(1000, 3)
    rate.record(30, 0)
    assert rate.measure(2900) > 0
    assert rate.measure(3000) == 0
    rate.record(3, 10_000)
    assert rate.measure(10_000) == pytest.approx(1.5)


def test_a_steady_rate_is_measured_as_such() -> None:
    rate = QuotaRate(1000, 11)
    for now_ms in range(0, 60_000, 100):
        rate.record(1, now_ms)
    assert rate.measure(60_000) == pytest.approx(10, rel=0.02)


def test_a_limit_of_nothing_is_a_long_wait() -> None:
    rate = QuotaRate(1000, 11)
    rate.record(1, 0)
    assert rate.throttle_ms(0, 0) == 11_000
