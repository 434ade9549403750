"""What a worker measures, under the names of Kafka Connect's MBeans (design D8, KIP-196, KIP-475, KIP-507).

The herder tells what happens (`rebalance_began`, `connector`, `heard` ...); what there is of it is worked
out when somebody looks. Totals of a task count from its start on this worker; rates, means and maxima are over the last
30 to 60 seconds, and NaN, as Kafka's, where there was nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.connect.herder_port import ConnectorType, Plugins
from barnabas.connect.runtime import Event, Failed, Paused, Progress, Running
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.status import State
from barnabas.model.metrics import Bean, Metrics, Value, Window, mbean
from barnabas.model.ports import Clock

DOMAIN: Final = "kafka.connect"
REBALANCE: Final = f"{DOMAIN}:type=connect-worker-rebalance-metrics"
WORKER: Final = f"{DOMAIN}:type=connect-worker-metrics"
_CONNECTOR: Final = "connector-metrics"
_TASK: Final = "connector-task-metrics"
_SINK_TASK: Final = "sink-task-metrics"
_SOURCE_TASK: Final = "source-task-metrics"
_ERRORS: Final = "task-error-metrics"
_COUNTED: Final = (
    State.RUNNING,
    State.PAUSED,
    State.FAILED,
    State.UNASSIGNED,
    State.DESTROYED,
    State.RESTARTING,
)
_UNDEFINED: Final = "undefined"
"""Kafka's word for a version that nobody tells."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """What the group is at this moment; leader: its URL."""

    protocol: Callable[[], str]
    leader: Callable[[], str | None]
    epoch: Callable[[], int]


class _Starts:
    """How starts of one kind came out."""

    __slots__ = ("failed", "good")

    def __init__(self) -> None:
        self.good = 0
        self.failed = 0

    def attributes(self, kind: str) -> dict[str, Value]:
        """Give attempts, successes and failures, and the shares of both."""
        attempts = self.good + self.failed
        head = f"{kind}-startup-"
        return {
            f"{head}attempts-total": attempts,
            f"{head}success-total": self.good,
            f"{head}failure-total": self.failed,
            f"{head}success-percentage": self.good / attempts if attempts else 0.0,
            f"{head}failure-percentage": self.failed / attempts if attempts else 0.0,
        }


@dataclass(slots=True)
class _Connector:
    state: State
    kind: ConnectorType
    class_name: str
    version: str

    def identity(self) -> dict[str, Value]:
        """Give what is told of the connector with each of its tasks too."""
        return {
            "connector-type": self.kind.value,
            "connector-class": self.class_name,
            "connector-version": self.version,
        }


class _Task:
    """One start of a task."""

    def __init__(self, clock: Clock, of: _Connector, config: Mapping[str, str]) -> None:
        self._clock = clock
        self.of = of
        self.config = config
        self.state = State.UNASSIGNED
        self._since_ms = clock.monotonic_ms()
        self._times_ms: Counter[State] = Counter()
        self._records_in_batch = Window(clock)
        self._batch_ms = Window(clock)
        self._commits = Window(clock)
        self._records = 0
        self._failed = 0
        self._batches = 0
        self._logged = 0
        self._last_error_ms = 0
        self._partitions = 0

    def becomes(self, state: State) -> None:
        """Take in a change of its state."""
        now = self._clock.monotonic_ms()
        self._times_ms[self.state] += now - self._since_ms
        self.state, self._since_ms = state, now

    def progressed(self, done: Progress) -> None:
        """Take in a batch."""
        self._records_in_batch.add(done.records)
        self._batch_ms.add(done.duration_ms)
        self._commits.add(1)
        self._records += done.records
        self._failed += done.failed_records
        self._batches += 1
        self._partitions = len(done.offsets)
        if done.failed_records:
            self._last_error_ms = self._clock.now_ms()

    def _share(self, state: State) -> float:
        now = self._clock.monotonic_ms() - self._since_ms
        whole = sum(self._times_ms.values()) + now
        return (self._times_ms[state] + (now if state is self.state else 0)) / whole if whole else 0.0

    def general(self, version_of: Callable[[str], str]) -> dict[str, Value]:
        """Give what tasks of both kinds have."""
        found = self.of.identity() | {
            "status": self.state.value.lower(),
            "running-ratio": self._share(State.RUNNING),
            "pause-ratio": self._share(State.PAUSED),
            "batch-size-max": self._records_in_batch.top,
            "batch-size-avg": self._records_in_batch.mean,
            "task-class": self.config.get("task.class", ""),
            "task-version": self.of.version,
        }
        for role in ("key", "value", "header"):
            name = self.config.get(f"{role}.converter", "")
            found |= {f"{role}-converter-class": name, f"{role}-converter-version": version_of(name)}
        return found

    def sink(self) -> dict[str, Value]:
        """Give what sinks' tasks have."""
        return {
            "sink-record-read-rate": self._records_in_batch.rate,
            "sink-record-read-total": self._records,
            "partition-count": self._partitions,
            "offset-commit-seq-no": self._batches,
            "offset-commit-completion-rate": self._commits.rate,
            "offset-commit-completion-total": self._batches,
            "put-batch-max-time-ms": self._batch_ms.top,
            "put-batch-avg-time-ms": self._batch_ms.mean,
        }

    def source(self) -> dict[str, Value]:
        """Give what sources' tasks have; a batch's time is that of reading and writing it."""
        return {
            "source-record-write-rate": self._records_in_batch.rate,
            "source-record-write-total": self._records,
            "poll-batch-max-time-ms": self._batch_ms.top,
            "poll-batch-avg-time-ms": self._batch_ms.mean,
        }

    def errors(self) -> dict[str, Value]:
        """Give what there is of records that failed and were left out."""
        dead_letters = self._failed if self.config.get("errors.deadletterqueue.topic.name") else 0
        return {
            "total-record-failures": self._failed,
            "total-record-errors": self._failed,
            "total-records-skipped": self._failed,
            "deadletterqueue-produce-requests": dead_letters,
            "last-error-timestamp": self._last_error_ms,
        }

    def plugins(self, kind: str) -> Iterator[tuple[str, str]]:
        """Give aliases and classes of its transformations or predicates. kind: transform or predicate."""
        aliases = (alias.strip() for alias in self.config.get(f"{kind}s", "").split(","))
        return ((alias, self.config.get(f"{kind}s.{alias}.type", "")) for alias in aliases if alias)


class WorkerMetrics:
    """The measurements of one worker; `registry` has them all.

    defaults: the worker's own settings, for what connectors do not set.
    """

    def __init__(self, clock: Clock, plugins: Plugins, defaults: Mapping[str, str]) -> None:
        self.registry = Metrics(clock)
        self._clock = clock
        self._plugins = plugins
        self._defaults = defaults
        self._versions: Mapping[str, str | None] | None = None
        self._connectors: dict[str, _Connector] = {}
        self._tasks: dict[ConnectorTaskId, _Task] = {}
        self._connector_starts = _Starts()
        self._task_starts = _Starts()
        self._group: GroupView | None = None
        self._rebalance_ms = Window(clock)
        self._rebalances = 0
        self._began_ms: int | None = None
        self._rebalanced_ms: int | None = None
        self.registry.bean(REBALANCE, self._rebalance)
        self.registry.bean(WORKER, self._worker)
        self.registry.source(f"{DOMAIN}:type=", self._enumerated)

    # What the herder tells.

    def joins(self, group: GroupView) -> None:
        """Hear where to look for what the group is."""
        self._group = group

    def rebalance_began(self) -> None:
        """Hear that the group is joined again."""
        if self._began_ms is None:
            self._began_ms = self._clock.monotonic_ms()

    def rebalance_done(self) -> None:
        """Hear that what was assigned is being done; no effect when nothing was assigned anew."""
        if self._began_ms is not None:
            self._rebalanced_ms = self._clock.monotonic_ms()
            self._rebalance_ms.add(self._rebalanced_ms - self._began_ms)
            self._rebalances += 1
            self._began_ms = None

    def connector(self, name: str, state: State, config: Mapping[str, str]) -> None:
        """Hear how a connector of this worker does; the first time also how its start came out."""
        known = self._connectors.get(name)
        if known is not None:
            known.state = state
            return
        self._connectors[name] = self._identified(state, config)
        if state is State.FAILED:
            self._connector_starts.failed += 1
        else:
            self._connector_starts.good += 1

    def connector_gone(self, name: str) -> None:
        """Hear that a connector has left this worker."""
        self._connectors.pop(name, None)

    def task_starts(self, task: ConnectorTaskId, connector: Mapping[str, str], config: Mapping[str, str]) -> None:
        """Hear that a task is being started. connector: its connector's settings; config: its own."""
        whole = {**self._defaults, **connector, **config}
        self._tasks[task] = _Task(self._clock, self._identified(State.UNASSIGNED, connector), whole)

    def heard(self, task: ConnectorTaskId, event: Event) -> None:
        """Hear what the runtime says of a task."""
        one = self._tasks.get(task)
        if one is None:
            return
        match event:
            case Running() | Paused():
                if one.state is State.UNASSIGNED:
                    self._task_starts.good += 1
                one.becomes(State.RUNNING if isinstance(event, Running) else State.PAUSED)
            case Failed():
                if one.state is State.UNASSIGNED:
                    self._task_starts.failed += 1
                one.becomes(State.FAILED)
            case Progress():
                one.progressed(event)
            case _:
                pass

    def task_gone(self, task: ConnectorTaskId) -> None:
        """Hear that a task has left this worker."""
        self._tasks.pop(task, None)

    # What is shown.

    def _rebalance(self) -> dict[str, Value]:
        group, done = self._group, self._rebalanced_ms
        return {
            "connect-protocol": "" if group is None else group.protocol(),
            "leader-name": "" if group is None else group.leader() or "",
            "epoch": -1 if group is None else group.epoch(),
            "rebalancing": 0 if self._began_ms is None else 1,
            "completed-rebalances-total": self._rebalances,
            "rebalance-avg-time-ms": self._rebalance_ms.mean,
            "rebalance-max-time-ms": self._rebalance_ms.top,
            "time-since-last-rebalance-ms": math.inf if done is None else self._clock.monotonic_ms() - done,
        }

    def _worker(self) -> dict[str, Value]:
        return (
            {"connector-count": len(self._connectors), "task-count": len(self._tasks)}
            | self._connector_starts.attributes("connector")
            | self._task_starts.attributes("task")
        )

    def _enumerated(self) -> Iterator[Bean]:
        for name, connector in list(self._connectors.items()):
            shown = connector.identity() | {"status": connector.state.value.lower()}
            yield mbean(DOMAIN, type=_CONNECTOR, connector=name), shown
        by_connector: dict[str, Counter[State]] = {}
        for task, one in list(self._tasks.items()):
            by_connector.setdefault(task.connector, Counter())[one.state] += 1
            yield from self._of_task(task, one)
        for name, states in by_connector.items():
            counts: dict[str, Value] = {f"connector-{s.value.lower()}-task-count": states[s] for s in _COUNTED}
            counts["connector-total-task-count"] = states.total()
            yield mbean(DOMAIN, type="connect-worker-metrics", connector=name), counts

    def _of_task(self, task: ConnectorTaskId, one: _Task) -> Iterator[Bean]:
        tags = {"connector": task.connector, "task": str(task.task)}
        yield mbean(DOMAIN, type=_TASK, **tags), one.general(self._version_of)
        if one.of.kind is ConnectorType.SINK:
            yield mbean(DOMAIN, type=_SINK_TASK, **tags), one.sink()
        elif one.of.kind is ConnectorType.SOURCE:
            yield mbean(DOMAIN, type=_SOURCE_TASK, **tags), one.source()
        yield mbean(DOMAIN, type=_ERRORS, **tags), one.errors()
        for kind in ("transform", "predicate"):
            for alias, class_name in one.plugins(kind):
                shown: dict[str, Value] = {
                    f"{kind}-class": class_name,
                    f"{kind}-version": self._version_of(class_name.partition("$")[0]),
                }
                yield mbean(DOMAIN, type=f"connector-{kind}-metrics", **tags, **{kind: alias}), shown

    def _identified(self, state: State, config: Mapping[str, str]) -> _Connector:
        return _Connector(
            state,
            self._plugins.connector_type(config),
            config.get("connector.class", ""),
            self._plugins.connector_version(config) or _UNDEFINED,
        )

    def _version_of(self, class_name: str) -> str:
        if self._versions is None:
            self._versions = {each.class_name: each.version for each in self._plugins.all(connectors_only=False)}
        return self._versions.get(class_name) or _UNDEFINED
