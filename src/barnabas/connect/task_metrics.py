"""What there is to see of one task, under the names of Kafka Connect's attributes (KIP-196, KIP-298).

Totals count from the task's start on this worker; rates, means and maxima are over the last 30 to 60 seconds, and NaN,
as Kafka's, where there was nothing. It all comes from the task's events.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

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
from barnabas.core.connect.status import State
from barnabas.model.metrics import Value, Window
from barnabas.model.ports import Clock

_STATES: Final = {Running: State.RUNNING, Paused: State.PAUSED, Failed: State.FAILED}


@dataclass(frozen=True, slots=True)
class ConnectorIdentity:
    """What is told of a connector with each of its tasks too."""

    kind: ConnectorType
    class_name: str
    version: str

    def attributes(self) -> dict[str, Value]:
        """Give it as attributes."""
        return {
            "connector-type": self.kind.value,
            "connector-class": self.class_name,
            "connector-version": self.version,
        }


class _Counted:
    """What is counted one by one: in all, and a second."""

    def __init__(self, clock: Clock) -> None:
        self._total = 0
        self._window = Window(clock)

    def add(self, count: int) -> None:
        self._total += count
        self._window.add(count)

    def attributes(self, name: str) -> dict[str, Value]:
        return {f"{name}-rate": self._window.rate, f"{name}-total": self._total}


class _Active:
    """Records that were read and are not yet where they are to go; NaN while Spark alone knows how many."""

    def __init__(self, clock: Clock) -> None:
        self._now: int | float = 0
        self._window = Window(clock)

    def becomes(self, count: int | None) -> None:
        self._now = math.nan if count is None else count
        if count is not None:
            self._window.add(count)

    def attributes(self, name: str) -> dict[str, Value]:
        head = f"{name}-record-active-count"
        return {head: self._now, f"{head}-max": self._window.top, f"{head}-avg": self._window.mean}

    def done(self, count: int) -> None:
        """Take in that all of them are where they belong, and how many they were."""
        if math.isnan(self._now):
            self._window.add(count)
        self.becomes(0)


class _Transactions:
    """How many records a source's transactions have; nothing where there are none."""

    def __init__(self, clock: Clock) -> None:
        self._sizes = Window(clock)
        self._turned = Window(clock)
        self._any = False

    def add(self, records: int) -> None:
        self._any = True
        self._sizes.add(records)
        self._turned.add(-records)

    def attributes(self) -> dict[str, Value]:
        head = "transaction-size"
        if not self._any:
            return {}
        return {f"{head}-avg": self._sizes.mean, f"{head}-max": self._sizes.top, f"{head}-min": -self._turned.top}


class TaskMetrics:
    """One start of a task. config: the task's settings, with its connector's and the worker's beneath."""

    def __init__(self, clock: Clock, of: ConnectorIdentity, config: Mapping[str, str]) -> None:
        self._clock = clock
        self.of = of
        self._config = config
        self.state = State.UNASSIGNED
        self._since_ms = clock.monotonic_ms()
        self._times_ms: Counter[State] = Counter()
        self._batch_sizes = Window(clock)
        self._batch_ms = Window(clock)
        self._commit_ms = Window(clock)
        self._commit_successes = Window(clock)
        self._read = _Counted(clock)
        self._passed = _Counted(clock)
        self._committed = _Counted(clock)
        self._skipped_commits = _Counted(clock)
        self._active = _Active(clock)
        self._transactions = _Transactions(clock)
        self._commits = 0
        self._partitions = 0
        self._troubles = Troubles()
        self._last_error_ms = 0

    # What the task tells.

    def heard(self, event: Event) -> None:
        """Take in an event."""
        match event:
            case Running() | Paused() | Failed():
                self._becomes(_STATES[type(event)])
            case Assigned(partitions):
                self._partitions = partitions
                self._active.becomes(0)
            case Begun(records):
                self._active.becomes(records)
            case Committed():
                self._heard_commit(event)
            case TransactionCommitted(records):
                self._transactions.add(records)
            case Troubles():
                self._heard_troubles(event)
            case Progress():
                self._heard_progress(event)
            case _:
                pass

    def _becomes(self, state: State) -> None:
        now = self._clock.monotonic_ms()
        self._times_ms[self.state] += now - self._since_ms
        self.state, self._since_ms = state, now
        if state is State.FAILED:
            self._partitions = 0

    def _heard_commit(self, commit: Committed) -> None:
        self._commits += 1
        self._commit_successes.add(not commit.failed)
        if not commit.failed:
            self._commit_ms.add(commit.duration_ms)
            self._committed.add(1)
            if self.of.kind is ConnectorType.SINK:
                self._active.becomes(0)

    def _heard_troubles(self, more: Troubles) -> None:
        self._troubles = self._troubles.plus(more)
        if more.failures:
            self._last_error_ms = self._clock.now_ms()

    def _heard_progress(self, done: Progress) -> None:
        self._batch_sizes.add(done.records)
        self._batch_ms.add(done.duration_ms)
        self._read.add(done.records)
        self._passed.add(done.passed_records)
        if self.of.kind is not ConnectorType.SINK:
            self._active.done(done.records)

    # What is shown.

    def general(self, version_of: Callable[[str], str]) -> dict[str, Value]:
        """Give what tasks of both kinds have. version_of: gives the version of a converter's class."""
        successes = self._commit_successes.mean
        found = self.of.attributes() | {
            "status": self.state.value.lower(),
            "running-ratio": self._share(State.RUNNING),
            "pause-ratio": self._share(State.PAUSED),
            "batch-size-max": self._batch_sizes.top,
            "batch-size-avg": self._batch_sizes.mean,
            "offset-commit-max-time-ms": self._commit_ms.top,
            "offset-commit-avg-time-ms": self._commit_ms.mean,
            "offset-commit-success-percentage": 0.0 if math.isnan(successes) else successes,
            "offset-commit-failure-percentage": 0.0 if math.isnan(successes) else 1 - successes,
            "task-class": self._config.get("task.class", ""),
            "task-version": self.of.version,
        }
        for role in ("key", "value", "header"):
            name = self._config.get(f"{role}.converter", "")
            found |= {f"{role}-converter-class": name, f"{role}-converter-version": version_of(name)}
        return found

    def sink(self) -> dict[str, Value]:
        """Give what sinks' tasks have. A commit is waited for, so that none comes too late to count."""
        return (
            self._read.attributes("sink-record-read")
            | self._passed.attributes("sink-record-send")
            | self._active.attributes("sink")
            | self._committed.attributes("offset-commit-completion")
            | self._skipped_commits.attributes("offset-commit-skip")
            | {
                "partition-count": self._partitions,
                "offset-commit-seq-no": self._commits,
                "put-batch-max-time-ms": self._batch_ms.top,
                "put-batch-avg-time-ms": self._batch_ms.mean,
            }
        )

    def source(self) -> dict[str, Value]:
        """Give what sources' tasks have. A batch's time is that of reading and writing it: Spark does both at once."""
        return (
            self._read.attributes("source-record-poll")
            | self._passed.attributes("source-record-write")
            | self._active.attributes("source")
            | self._transactions.attributes()
            | {"poll-batch-max-time-ms": self._batch_ms.top, "poll-batch-avg-time-ms": self._batch_ms.mean}
        )

    def errors(self) -> dict[str, Value]:
        """Give what there is of records that failed."""
        so_far = self._troubles
        return {
            "total-record-failures": so_far.failures,
            "total-record-errors": so_far.failures,
            "total-records-skipped": so_far.skipped,
            "total-retries": so_far.retries,
            "total-errors-logged": so_far.logged,
            "deadletterqueue-produce-requests": so_far.dead_letters,
            "deadletterqueue-produce-failures": so_far.lost_letters,
            "last-error-timestamp": self._last_error_ms,
        }

    def plugins(self, kind: str) -> Iterator[tuple[str, str]]:
        """Give aliases and classes of its transformations or predicates. kind: transform or predicate."""
        aliases = (alias.strip() for alias in self._config.get(f"{kind}s", "").split(","))
        return ((alias, self._config.get(f"{kind}s.{alias}.type", "")) for alias in aliases if alias)

    def _share(self, state: State) -> float:
        now = self._clock.monotonic_ms() - self._since_ms
        whole = sum(self._times_ms.values()) + now
        return (self._times_ms[state] + (now if state is self.state else 0)) / whole if whole else 0.0
