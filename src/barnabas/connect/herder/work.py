"""What runs on this worker: connectors and tasks started, paused and stopped, and what they say of themselves told.

A connector here is its plan alone: it runs when its class is one of this worker's and its tasks could be planned.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from barnabas.connect.herder_port import ConnectorType, Plugins
from barnabas.connect.metrics import WorkerMetrics
from barnabas.connect.runtime import (
    Event,
    Failed,
    Paused,
    Preflight,
    Progress,
    Running,
    Runtime,
    Stopped,
    TaskLaunch,
    TopicUsed,
    TransactionCommitted,
    UnknownTaskError,
)
from barnabas.connect.stores.statuses import StatusStore
from barnabas.connect.traces import gist
from barnabas.core.connect.config_state import ClusterConfigState, Config
from barnabas.core.connect.ids import ConnectorTaskId, TargetState
from barnabas.core.connect.status import ConnectorStatus, State, TaskStatus, TopicStatus
from barnabas.model.ports import Clock

log = structlog.get_logger("kafka.connect.worker")

_STATE_OF: Final = {
    TargetState.STARTED: State.RUNNING,
    TargetState.PAUSED: State.PAUSED,
    TargetState.STOPPED: State.STOPPED,
}


@dataclass(slots=True)
class _Task:
    """One start of a task. A task that was cut off may still talk: `over` then turns a deaf ear.

    planned: the generation of its configuration.
    """

    version: str | None
    planned: int
    over: bool = False


class Work:
    """The connectors and tasks of this worker. generation: of the group, put into every status.

    preflight: for a task and the generation of its configuration, where sources write in transactions.
    """

    def __init__(
        self,
        runtime: Runtime,
        plugins: Plugins,
        statuses: StatusStore,
        worker_id: str,
        clock: Clock,
        metrics: WorkerMetrics,
        *,
        tracks_topics: bool,
        preflight: Callable[[ConnectorTaskId, int], Preflight] | None = None,
    ) -> None:
        self._runtime = runtime
        self._plugins = plugins
        self._statuses = statuses
        self._worker_id = worker_id
        self._clock = clock
        self._metrics = metrics
        self._tracks_topics = tracks_topics
        self._preflight = preflight
        self._connectors: dict[str, State] = {}
        self._configs: dict[str, Mapping[str, str]] = {}
        self._versions: dict[str, str | None] = {}
        self._tasks: dict[ConnectorTaskId, _Task] = {}
        self.generation = -1

    @property
    def connectors(self) -> Collection[str]:
        """Give the connectors that were started here, failed ones among them."""
        return self._connectors.keys()

    @property
    def tasks(self) -> Collection[ConnectorTaskId]:
        """Give the tasks that were started here, failed ones among them."""
        return self._tasks.keys()

    def runs(self, connector: str) -> bool:
        """Say whether a connector runs here, so that its tasks may be planned."""
        return self._connectors.get(connector) is State.RUNNING

    # Connectors.

    def start_connector(self, name: str, state: ClusterConfigState) -> bool:
        """Start a connector as it is wanted; say whether it runs, so that its tasks are to be planned."""
        config, target = state.connector_config(name), state.target_state(name)
        if config is None:
            log.debug("an assigned connector is gone already", connector=name)
            return False
        self._configs[name] = _texts(config)
        self._versions[name] = self._plugins.connector_version(_texts(config))
        if not self._plugins.knows(_texts(config)):
            self._connectors[name] = State.UNASSIGNED
            self.fail_connector(name, _not_here(config))
            return False
        self._tell_connector(name, _STATE_OF[target or TargetState.STARTED])
        log.info("started a connector", connector=name, state=self._connectors[name].value)
        return self.runs(name)

    def stop_connector(self, name: str) -> None:
        """Stop a connector; no effect on one that is not here."""
        if self._connectors.pop(name, None) is not None:
            self._metrics.connector_gone(name)
            self._configs.pop(name, None)
            self._statuses.put_safely(
                ConnectorStatus(
                    name, State.UNASSIGNED, self._worker_id, self.generation, version=self._versions.pop(name, None)
                )
            )
            log.info("stopped a connector", connector=name)

    def fail_connector(self, name: str, trace: str) -> None:
        """Tell that a connector has failed; no effect on one that is not here."""
        if name in self._connectors:
            log.error("a connector has failed", connector=name, why=trace)
            self._tell_connector(name, State.FAILED, trace)

    def tell_restarting(self, connector: bool, name: str, tasks: Iterable[ConnectorTaskId]) -> None:
        """Tell that a connector (where `connector` is set) and tasks of it are about to be restarted."""
        if connector:
            self._statuses.put(ConnectorStatus(name, State.RESTARTING, self._worker_id, self.generation))
        for task in tasks:
            self._statuses.put(TaskStatus(task, State.RESTARTING, self._worker_id, self.generation))

    async def set_target_state(self, name: str, target: TargetState) -> bool:
        """Bring a connector and its tasks here into another state; say whether its tasks are to be planned anew.

        STOPPED leaves the tasks alone: they were taken away before, and end with the rebalance that follows.
        """
        if self._connectors.get(name) not in (None, State.FAILED, _STATE_OF[target]):
            self._tell_connector(name, _STATE_OF[target])
        mine = [task for task in self._tasks if task.connector == name]
        if target is TargetState.PAUSED:
            await _all(self._runtime.pause(task) for task in mine)
        elif target is TargetState.STARTED:
            await _all(self._runtime.resume(task) for task in mine)
        return target is TargetState.STARTED and self.runs(name)

    def _tell_connector(self, name: str, state: State, trace: str | None = None) -> None:
        self._connectors[name] = state
        self._metrics.connector(name, state, self._configs.get(name, {}))
        self._statuses.put(
            ConnectorStatus(name, state, self._worker_id, self.generation, trace, self._versions.get(name))
        )

    # Tasks.

    def outdated(self, connectors: Collection[str], state: ClusterConfigState) -> list[ConnectorTaskId]:
        """Give the tasks here of some connectors that were started with configurations other than those in force."""
        mine = ((task, run.planned) for task, run in self._tasks.items() if task.connector in connectors)
        return [task for task, planned in mine if planned != state.task_generation(task.connector)]

    async def start_tasks(self, tasks: Iterable[ConnectorTaskId], state: ClusterConfigState) -> None:
        """Start tasks, those that still have a configuration."""
        await asyncio.gather(*(self._start(task, state) for task in tasks))

    async def stop_tasks(self, tasks: Iterable[ConnectorTaskId]) -> None:
        """Stop tasks at their next batch boundary, all at once; no effect on those that are not here."""
        await asyncio.gather(*(self._stop(task) for task in list(tasks)))

    async def _start(self, task: ConnectorTaskId, state: ClusterConfigState) -> None:
        connector_config, config = state.connector_config(task.connector), state.task_config(task)
        if connector_config is None or config is None or task.task >= state.task_count(task.connector):
            log.debug("an assigned task is gone already", task=str(task))
            return
        version = self._plugins.connector_version(_texts(connector_config))
        run = self._tasks[task] = _Task(version, state.task_generation(task.connector))
        self._metrics.task_starts(task, _texts(connector_config), _texts(config))
        if not self._plugins.knows(_texts(connector_config)):
            self._heard(run, task, Failed(_not_here(connector_config)))
            return
        launch = TaskLaunch(
            task,
            _texts(config),
            _texts(connector_config),
            state.target_state(task.connector) or TargetState.STARTED,
            self.generation,
            self._preflight_of(task, _texts(connector_config), state),
        )
        log.info("starting a task", task=str(task), generation=self.generation)
        try:
            await self._runtime.start(launch, lambda which, event: self._heard(run, which, event))
        except Exception as e:  # noqa: BLE001 - it is the task's, and the others go on
            self._heard(run, task, Failed(trace_of(e)))

    def _preflight_of(
        self, task: ConnectorTaskId, config: Mapping[str, str], state: ClusterConfigState
    ) -> Preflight | None:
        if self._preflight is None or self._plugins.connector_type(config) is not ConnectorType.SOURCE:
            return None
        return self._preflight(task, state.task_generation(task.connector))

    async def _stop(self, task: ConnectorTaskId) -> None:
        run = self._tasks.get(task)
        if run is None:
            return
        log.info("stopping a task", task=str(task))
        try:
            await self._runtime.stop(task)
        except UnknownTaskError:
            pass  # it never got so far
        except Exception as e:
            log.error("a task did not stop as it should", task=str(task), exc_info=e)
        if self._tasks.get(task) is run:
            del self._tasks[task]
            self._metrics.task_gone(task)
        if not run.over:
            run.over = True
            self._give_up(run, task)

    def _heard(self, run: _Task, task: ConnectorTaskId, event: Event) -> None:
        if run.over:
            return
        self._metrics.heard(task, event)
        match event:
            case Running():
                self._statuses.put(self._status(run, task, State.RUNNING))
            case Paused():
                self._statuses.put(self._status(run, task, State.PAUSED))
            case Failed(trace):
                log.error(
                    "a task has failed, and will not run until it is restarted",
                    task=str(task),
                    why=gist(trace),
                    exception=trace,
                )
                self._statuses.put_safely(self._status(run, task, State.FAILED, trace))
            case Stopped():
                run.over = True
                self._give_up(run, task)
            case TopicUsed(topic):
                self._used(task, topic)
            case Progress() | TransactionCommitted():
                pass  # counted already

    def _give_up(self, run: _Task, task: ConnectorTaskId) -> None:
        self._statuses.put_safely(self._status(run, task, State.UNASSIGNED))

    def _status(self, run: _Task, task: ConnectorTaskId, state: State, trace: str | None = None) -> TaskStatus:
        return TaskStatus(task, state, self._worker_id, self.generation, trace, run.version)

    def _used(self, task: ConnectorTaskId, topic: str) -> None:
        known = self._statuses.state.topics(task.connector)
        if self._tracks_topics and not any(status.topic == topic for status in known):
            self._statuses.put_topic(TopicStatus(topic, task.connector, task.task, self._clock.now_ms()))


def trace_of(e: BaseException) -> str:
    """Give an error as the `trace` of a status: what it is and where it comes from, without the values of variables."""
    return "".join(traceback.format_exception(e)).rstrip()


async def _all(calls: Iterable[Awaitable[None]]) -> None:
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception) and not isinstance(outcome, UnknownTaskError):
            log.error("a task did not change its state as it should", exc_info=outcome)


def _texts(config: Config) -> dict[str, str]:
    return {name: text for name, text in config.items() if text is not None}


def _not_here(config: Config) -> str:
    return (
        f"This worker has no connector of the class {config.get('connector.class')!r}. The group has workers of "
        "different kinds, and its leader cannot tell them apart, so that it assigned this here. Install the connector "
        "on every worker, or run it in a group of its own kind (another group.id and other internal topics); then "
        "restart the connector with its tasks."
    )
