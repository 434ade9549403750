"""What a task's events come to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from barnabas.connect.herder_port import ConnectorType
from barnabas.connect.runtime import (
    Assigned,
    Begun,
    Committed,
    Event,
    Failed,
    Paused,
    Progress,
    Running,
    TransactionCommitted,
    Troubles,
)
from barnabas.connect.task_metrics import ConnectorIdentity, TaskMetrics
from tests.connect.clock import SetClock


class StandingClock(SetClock):
    def monotonic_ms(self) -> int:
        return self.ahead_ms


def made(clock: SetClock | None = None, kind: ConnectorType = ConnectorType.SINK) -> TaskMetrics:
    return TaskMetrics(clock or StandingClock(), ConnectorIdentity(kind, "c.C", "1"), {})


def after(events: Sequence[Event], kind: ConnectorType = ConnectorType.SINK) -> dict[str, Any]:
    """Give all attributes after these events, those of sinks and those of sources."""
    task = made(kind=kind)
    for event in events:
        task.heard(event)
    return task.general(lambda _: "?") | task.sink() | task.source() | task.errors()


def test_at_first_there_is_nothing() -> None:
    shown = after([])
    assert shown["status"] == "unassigned"
    unknown = {name for name, value in shown.items() if isinstance(value, float) and math.isnan(value)}
    assert unknown == {
        "batch-size-max",
        "batch-size-avg",
        "offset-commit-max-time-ms",
        "offset-commit-avg-time-ms",
        "sink-record-active-count-max",
        "sink-record-active-count-avg",
        "source-record-active-count-max",
        "source-record-active-count-avg",
        "put-batch-max-time-ms",
        "put-batch-avg-time-ms",
        "poll-batch-max-time-ms",
        "poll-batch-avg-time-ms",
    }
    numbers = {name: value for name, value in shown.items() if isinstance(value, int | float) and name not in unknown}
    assert set(numbers.values()) == {0}


def test_batches_add_up() -> None:
    shown = after([Progress(0, 10, 100, 0, 10), Progress(1, 30, 100, 2, 30, dropped_records=3)])
    assert shown["sink-record-read-total"] == shown["source-record-poll-total"] == 40
    assert shown["sink-record-send-total"] == shown["source-record-write-total"] == 35
    assert shown["sink-record-read-rate"] == pytest.approx(1.333, abs=0.001)
    assert shown["source-record-write-rate"] == pytest.approx(1.167, abs=0.001)
    assert (shown["batch-size-max"], shown["batch-size-avg"]) == (30, 20)
    assert (shown["put-batch-max-time-ms"], shown["poll-batch-avg-time-ms"]) == (30, 20)


def test_commits_are_counted_whether_they_succeed_or_not() -> None:
    shown = after([Committed(5), Committed(70, failed=True), Committed(15), Committed(10)])
    assert shown["offset-commit-seq-no"] == 4
    assert shown["offset-commit-completion-total"] == 3
    assert shown["offset-commit-completion-rate"] == 0.1
    assert (shown["offset-commit-success-percentage"], shown["offset-commit-failure-percentage"]) == (0.75, 0.25)
    assert (shown["offset-commit-max-time-ms"], shown["offset-commit-avg-time-ms"]) == (15, 10)


def test_a_batch_of_a_sink_is_active_until_it_is_committed() -> None:
    assert after([Begun(7)])["sink-record-active-count"] == 7
    refused: list[Event] = [Begun(7), Committed(1, failed=True), Progress(0, 7, 0, 0, 1)]
    assert after(refused)["sink-record-active-count"] == 7
    shown = after([*refused, Committed(1), Begun(2)])
    assert (shown["sink-record-active-count"], shown["sink-record-active-count-max"]) == (2, 7)
    assert shown["sink-record-active-count-avg"] == 3.0
    assert after([Begun(7), Assigned(2)])["sink-record-active-count"] == 0


def test_a_batch_of_a_source_is_active_until_it_is_done() -> None:
    assert after([Begun(7), Committed(1)], ConnectorType.SOURCE)["source-record-active-count"] == 7
    shown = after([Begun(7), Committed(1, failed=True), Progress(0, 6, 0, 0, 1), Begun(3)], ConnectorType.SOURCE)
    assert (shown["source-record-active-count"], shown["source-record-active-count-max"]) == (3, 7)


def test_a_batch_of_unknown_size_is_known_once_it_is_done() -> None:
    assert math.isnan(after([Begun()], ConnectorType.SOURCE)["source-record-active-count"])
    shown = after([Begun(), Progress(0, 6, 0, 0, 1)], ConnectorType.SOURCE)
    assert (shown["source-record-active-count"], shown["source-record-active-count-max"]) == (0, 6)


def test_troubles_add_up() -> None:
    clock = StandingClock()
    task = made(clock)
    task.heard(Troubles(retries=1))
    assert task.errors()["last-error-timestamp"] == 0
    task.heard(Troubles(failures=3))
    failed_ms = clock.now_ms()
    clock.ms += 1
    task.heard(Troubles(skipped=2, logged=3, dead_letters=3, lost_letters=1, retries=1))
    assert task.errors() == {
        "total-record-failures": 3,
        "total-record-errors": 3,
        "total-records-skipped": 2,
        "total-retries": 2,
        "total-errors-logged": 3,
        "deadletterqueue-produce-requests": 3,
        "deadletterqueue-produce-failures": 1,
        "last-error-timestamp": failed_ms,
    }


def test_shares_of_time_and_partitions_follow_the_state() -> None:
    clock = StandingClock()
    task = made(clock)
    for event, ms in ((Running(), 6_000), (Paused(), 2_000), (Running(), 1_000)):
        task.heard(event)
        task.heard(Assigned(4))
        clock.ahead_ms += ms
    shown = task.general(lambda _: "?")
    assert shown["running-ratio"] == pytest.approx(0.778, abs=0.001)
    assert shown["pause-ratio"] == pytest.approx(0.222, abs=0.001)
    assert task.sink()["partition-count"] == 4
    task.heard(Failed("why"))
    assert task.sink()["partition-count"] == 0
    assert task.general(lambda _: "?")["status"] == "failed"


def test_a_sources_transactions_show_once_there_are_some() -> None:
    assert not any(name.startswith("transaction") for name in after([Running()], ConnectorType.SOURCE))
    shown = after([TransactionCommitted(7), TransactionCommitted(1), TransactionCommitted(4)], ConnectorType.SOURCE)
    assert {name: value for name, value in shown.items() if name.startswith("transaction")} == {
        "transaction-size-avg": 4.0,
        "transaction-size-max": 7,
        "transaction-size-min": 1,
    }
