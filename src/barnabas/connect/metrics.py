"""What a worker measures, under the names of Kafka Connect's MBeans (design D8, KIP-196, KIP-475, KIP-507).

The herder tells what happens (`rebalance_began`, `connector`, `heard` ...); what there is of it is worked
out when somebody looks. What one task has to show is in `task_metrics`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.connect.herder_port import ConnectorType, Plugins
from barnabas.connect.runtime import Event, Failed, Paused, Running
from barnabas.connect.task_metrics import ConnectorIdentity, TaskMetrics
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
    identity: ConnectorIdentity


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
        self._tasks: dict[ConnectorTaskId, TaskMetrics] = {}
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
        self._connectors[name] = _Connector(state, self._identified(config))
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
        self._tasks[task] = TaskMetrics(self._clock, self._identified(connector), whole)

    def heard(self, task: ConnectorTaskId, event: Event) -> None:
        """Hear what the runtime says of a task."""
        one = self._tasks.get(task)
        if one is None:
            return
        if one.state is State.UNASSIGNED and isinstance(event, Running | Paused):
            self._task_starts.good += 1
        if one.state is State.UNASSIGNED and isinstance(event, Failed):
            self._task_starts.failed += 1
        one.heard(event)

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
            shown = connector.identity.attributes() | {"status": connector.state.value.lower()}
            yield mbean(DOMAIN, type=_CONNECTOR, connector=name), shown
        by_connector: dict[str, Counter[State]] = {}
        for task, one in list(self._tasks.items()):
            by_connector.setdefault(task.connector, Counter())[one.state] += 1
            yield from self._of_task(task, one)
        for name, states in by_connector.items():
            counts: dict[str, Value] = {f"connector-{s.value.lower()}-task-count": states[s] for s in _COUNTED}
            counts["connector-total-task-count"] = states.total()
            yield mbean(DOMAIN, type="connect-worker-metrics", connector=name), counts

    def _of_task(self, task: ConnectorTaskId, one: TaskMetrics) -> Iterator[Bean]:
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

    def _identified(self, config: Mapping[str, str]) -> ConnectorIdentity:
        return ConnectorIdentity(
            self._plugins.connector_type(config),
            config.get("connector.class", ""),
            self._plugins.connector_version(config) or _UNDEFINED,
        )

    def _version_of(self, class_name: str) -> str:
        if self._versions is None:
            self._versions = {each.class_name: each.version for each in self._plugins.all(connectors_only=False)}
        return self._versions.get(class_name) or _UNDEFINED
