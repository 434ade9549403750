"""Connectors of this worker together with the planning of their tasks: who stops a connector stops both."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog

from barnabas.connect.herder.answers import plan_of
from barnabas.connect.herder.task_configs import TaskConfigs
from barnabas.connect.herder.work import Work
from barnabas.connect.stores.statuses import StatusStore
from barnabas.core.connect.config_state import ClusterConfigState
from barnabas.core.connect.ids import TargetState
from barnabas.core.connect.restarts import RestartRequest
from barnabas.core.connect.status import ConnectorStatus, State, TaskStatus
from barnabas.core.connect.subprotocol import ExtendedAssignment

log = structlog.get_logger("kafka.connect.herder")

_FLUSH_SECONDS: Final = 5.0


class Local:
    """What this worker does, and telling it."""

    def __init__(self, work: Work, task_configs: TaskConfigs, statuses: StatusStore) -> None:
        self.work = work
        self.task_configs = task_configs
        self._statuses = statuses

    def start_connector(self, name: str, state: ClusterConfigState) -> None:
        """Start a connector, and have its tasks planned where it runs."""
        if self.work.start_connector(name, state):
            self.task_configs.request(name)

    def stop_connector(self, name: str) -> None:
        """Stop a connector; no effect on one that is not here."""
        self.task_configs.forget(name)
        self.work.stop_connector(name)

    async def stop(self, assignment: ExtendedAssignment) -> None:
        """Stop what an assignment revokes, at batch boundaries, and see to it that it is told."""
        for name in assignment.revoked_connectors:
            self.stop_connector(name)
        await self.work.stop_tasks(assignment.revoked_tasks)
        await self.flush()

    async def bring_to(self, assignment: ExtendedAssignment, state: ClusterConfigState) -> None:
        """Run what an assignment says, and nothing else; what runs already goes on as it is."""
        connectors, tasks = set(assignment.connectors), set(assignment.tasks)
        for name in set(self.work.connectors) - connectors:
            self.stop_connector(name)
        await self.work.stop_tasks(set(self.work.tasks) - tasks)
        for name in sorted(connectors - set(self.work.connectors)):
            self.start_connector(name, state)
        await self.work.start_tasks(sorted(tasks - set(self.work.tasks)), state)

    async def stop_all(self) -> None:
        """Stop everything, and see to it that it is told."""
        for name in list(self.work.connectors):
            self.stop_connector(name)
        await self.work.stop_tasks(self.work.tasks)
        await self.flush()

    async def restart(self, request: RestartRequest, state: ClusterConfigState) -> None:
        """Restart what this worker has of a connector and a request asks for."""
        plan = plan_of(self._statuses.state, request)
        if plan is None:
            return
        name = request.connector
        tasks = [task for task in plan.tasks if task in self.work.tasks]
        connector = plan.connector and name in self.work.connectors
        if connector:
            self.stop_connector(name)
        await self.work.stop_tasks(tasks)
        self.work.tell_restarting(connector, name, tasks)
        if connector:
            self.start_connector(name, state)
        await self.work.start_tasks(tasks, state)

    def reconfigure(self, names: Iterable[str], state: ClusterConfigState) -> None:
        """Stop and start those of some connectors that are here."""
        for name in sorted(set(names) & set(self.work.connectors)):
            self.stop_connector(name)
            self.start_connector(name, state)

    async def set_target_state(self, name: str, target: TargetState) -> None:
        """Bring a connector and its tasks here into another state."""
        if await self.work.set_target_state(name, target):
            self.task_configs.request(name)

    async def flush(self) -> None:
        """Wait, for a while, until all statuses are written."""
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self._statuses.flush()
        except TimeoutError:
            log.warning("statuses could not be written in time")

    def forget_deleted(self, state: ClusterConfigState, worker_id: str, generation: int) -> None:
        """Take from the status topic what has been deleted.

        For the leader after a rebalance, when nobody gives it up any more and might tell so.
        """
        statuses = self._statuses.state
        for name in {*statuses.connectors, *statuses.tasks_by_connector, *statuses.topics_by_connector}:
            remaining = set(state.tasks(name))
            for task in statuses.tasks(name):
                if task.id not in remaining and name not in state.inconsistent:
                    self._statuses.put(TaskStatus(task.id, State.DESTROYED, worker_id, generation))
            if name not in state:
                self._statuses.put(ConnectorStatus(name, State.DESTROYED, worker_id, generation))
                self._statuses.reset_topics(name)
