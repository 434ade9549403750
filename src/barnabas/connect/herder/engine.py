"""The herder's one task: it keeps the group settled, works off what is asked, and acts on what the config topic brings.

Everything that changes what this worker does is a step of this task, one after the other. What comes from elsewhere
(requests, records, heartbeats) only leaves word in `inbox` and `changes` and wakes it. Planning and forwarding tasks,
which may take long, run beside it and come back through the inbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import structlog

from barnabas.connect.group_member import GroupMember
from barnabas.connect.herder.assigning import Assigning
from barnabas.connect.herder.changes import Changes
from barnabas.connect.herder.fencing import Fencing, TaskPreflight
from barnabas.connect.herder.fencing_steps import FencingSteps
from barnabas.connect.herder.group import UNREADABLE, Group
from barnabas.connect.herder.inbox import Inbox
from barnabas.connect.herder.key_rotation import KeyRotation
from barnabas.connect.herder.local import Local
from barnabas.connect.herder.parts import Parts
from barnabas.connect.herder.planning_steps import PlanningSteps
from barnabas.connect.herder.task_configs import TaskConfig, TaskConfigs
from barnabas.connect.herder.work import Work
from barnabas.connect.herder_port import (
    BadRequestError,
    NotFoundError,
    NotLeaderError,
    RebalanceNeededError,
    WriteFailedError,
)
from barnabas.connect.loggers import Loggers
from barnabas.connect.metrics import GroupView
from barnabas.connect.stores.configs import ConfigStore
from barnabas.connect.stores.statuses import StatusStore
from barnabas.core.connect.config_state import (
    ClusterConfigState,
    ConfigEvent,
    LoggerLevelSet,
    TaskConfigsUpdated,
)
from barnabas.core.connect.ids import TargetState
from barnabas.core.connect.subprotocol import Subprotocol

log = structlog.get_logger("kafka.connect.herder")

T = TypeVar("T")


class Engine:
    """The herder's state and its task. `run` until `stop`.

    configs: makes the store of the config topic, which tells of its changes to the callback.
    """

    def __init__(
        self, parts: Parts, configs: Callable[[Callable[[ConfigEvent], None]], ConfigStore], statuses: StatusStore
    ) -> None:
        config = parts.config
        self.parts = parts
        self.configs = configs(self._on_event)
        self.statuses = statuses
        self.inbox = Inbox()
        self.changes = Changes()
        self.loggers = Loggers(parts.clock)
        tracks = bool(config["topic.tracking.enable"])
        self.fencing = Fencing(FencingSteps(self), parts.runtime, parts.client, config.signature_algorithm)
        self.work = Work(
            parts.runtime,
            parts.plugins,
            statuses,
            parts.worker_id,
            parts.clock,
            parts.metrics,
            tracks_topics=tracks,
            preflight=partial(TaskPreflight, self.fencing) if config.source_support.transactional_tasks else None,
        )
        self.task_configs = TaskConfigs(
            parts.runtime, parts.client, PlanningSteps(self), config.signature_algorithm, parts.clock
        )
        self.local = Local(self.work, self.task_configs, statuses)
        self.group = Group(
            config, parts.worker_id, self.configs, self.local, parts.clock, parts.metrics, self.inbox.wake.set
        )
        self._sync_s = config.integer("worker.sync.timeout.ms") / 1000
        self.assigning = Assigning(
            self.configs,
            parts.client,
            parts.plugins,
            parts.clock,
            max_delay_ms=config.integer("scheduled.rebalance.max.delay.ms"),
            sync_s=self._sync_s,
        )
        self.member = GroupMember(
            config.member_client,
            config.text("group.id"),
            parts.rest_url,
            config.offered,
            assigner=self.assigning,
            offset=lambda: self.configs.state.offset,
            on_moved=self.group.moved,
        )
        self.group.begin(self.member)
        parts.metrics.joins(
            GroupView(
                protocol=lambda: self.member.subprotocol.value,
                leader=lambda: self.member.leader_url,
                epoch=lambda: self.member.generation,
            )
        )
        self._keys = KeyRotation(self.configs, config.key_settings, parts.clock)
        self._stopping = asyncio.Event()
        self.ready = asyncio.Event()
        """Set once the group has been joined and the assigned work been started."""

    @property
    def stage(self) -> str:
        """Give what is under way, empty for nothing."""
        return self.group.stage

    # Its life.

    async def run(self) -> None:
        """Open everything, join the group, and work until `stop`; ends with what makes it impossible to go on."""
        self.group.verification.at_start()
        stopping = asyncio.create_task(self._stopping.wait())
        turning = asyncio.create_task(self._live(), name="herder")
        try:
            await asyncio.wait({stopping, turning}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            turning.cancel()
            await asyncio.gather(stopping, turning, return_exceptions=True)
            await self._halt()
        if not turning.cancelled() and (e := turning.exception()) is not None:
            raise e

    def stop(self) -> None:
        """Have `run` stop the work, leave the group and return."""
        self._stopping.set()

    async def _live(self) -> None:
        self.group.stage = "opening the internal topics and the runtime"
        try:
            async with asyncio.TaskGroup() as opening:
                opening.create_task(self.configs.open())
                opening.create_task(self.statuses.open())
                opening.create_task(self.parts.runtime.open())
        except ExceptionGroup as several:
            raise several.exceptions[0] from None
        while True:
            await self._turn()

    async def _halt(self) -> None:
        self.inbox.close()
        await self.task_configs.close()
        await self.fencing.close()
        self.group.stage = "stopping connectors and tasks"
        await self.local.stop_all()
        await self.member.leave("the worker is shutting down")
        await self.parts.runtime.close()
        await self.statuses.close()
        await self.configs.close()
        await self.member.close()
        self.group.stage = "stopped"

    # One turn.

    async def _turn(self) -> None:
        self.inbox.wake.clear()
        if not await self.group.settle():
            return
        if self.member.leads and not await self._keys.renew(self.member.subprotocol):
            self.group.readable = False
            return
        self.ready.set()
        self.group.stage = "answering requests"
        await self.inbox.work_off()
        if not self.group.readable or not await self._act_on_changes():
            return
        self.group.stage = ""
        await self._rest()

    async def _rest(self) -> None:
        due = [at for at in (self.group.rejoin_at_ms, self._keys.next_check_ms if self.member.leads else None) if at]
        wait_s = max(min(due) - self.parts.clock.now_ms(), 0) / 1000 if due else None
        try:
            async with asyncio.timeout(wait_s):
                await self.inbox.wake.wait()
        except TimeoutError:
            pass

    # Changes.

    def _on_event(self, event: ConfigEvent) -> None:
        if isinstance(event, LoggerLevelSet):
            try:
                self.loggers.set_level(event.namespace, event.level)
            except BadRequestError as e:
                log.error("a logger's level could not be set", logger=event.namespace, why=str(e))
            return
        if isinstance(event, TaskConfigsUpdated):
            self.fencing.replanned(event.connector)
        self.changes.add(event, self.config, self.parts.clock.now_ms())
        self.inbox.wake.set()

    async def _act_on_changes(self) -> bool:
        """Act on what the config topic has brought; False when the group is to be joined again first."""
        if not self.changes:
            return True
        changes, self.changes = self.changes, Changes()
        self.group.config = self.configs.state
        for request in changes.restarts.values():
            await self.local.restart(request, self.config)
        if changes.rebalance is not None:
            self.group.rejoin(changes.rebalance)
            if self.member.subprotocol is Subprotocol.DEFAULT:
                return False  # everything is stopped, and what is assigned then started as it is wanted by then
        self.local.reconfigure(changes.reconfigured, self.config)
        for name in sorted(changes.wanted):
            target = self.config.target_state(name)
            if target is not None and name in self.config:
                await self.local.set_target_state(name, target)
        # They are started again after the rebalance, where they are still assigned then. One that a rebalance before
        # has started knows what was read late: it goes on, for a stop in its first batch may have that written twice.
        await self.work.stop_tasks(self.work.outdated(changes.replanned, self.config))
        return changes.rebalance is None

    @property
    def config(self) -> ClusterConfigState:
        """Give what has been acted on of the configuration."""
        return self.group.config

    # Requests.

    async def ask(self, action: Callable[[], Awaitable[T]]) -> T:
        """Have something done as a step of the herder; RebalanceNeededError when the group does not settle in time."""
        return await self.inbox.ask(action, patience_s=self._sync_s, too_late=self.unsettled)

    def unsettled(self) -> RebalanceNeededError:
        """Give why the group is between two assignments, and since when."""
        if self.changes.rebalance is not None and self.group.settled:
            return RebalanceNeededError(self.changes.since_ms, self.changes.rebalance)
        return RebalanceNeededError(self.group.since_ms, self.group.why)

    def check_settled(self) -> None:
        """RebalanceNeededError when the group is about to share out anew."""
        if self.changes.rebalance is not None:
            raise self.unsettled()

    def check_leads(self, otherwise: str) -> None:
        """NotLeaderError, which says this, where another worker leads."""
        if not self.member.leads:
            raise NotLeaderError(otherwise, self.member.leader_url)

    async def write(self, change: Awaitable[None]) -> None:
        """Wait for a change of the config topic; after one that failed the topic is read again before going on."""
        try:
            await change
        except WriteFailedError:
            self.group.readable = False
            self.inbox.wake.set()
            raise

    async def refresh(self) -> None:
        """Read the config topic to its end; WriteFailedError when that takes too long."""
        try:
            await self.configs.refresh(self._sync_s)
        except UNREADABLE as e:
            raise WriteFailedError(f"the config topic could not be read to its end in time: {e}") from e

    async def write_task_configs(self, name: str, configs: Sequence[TaskConfig]) -> None:
        """Write tasks as the leader; NotFoundError, BadRequestError."""
        state = self.configs.state
        if name not in state:
            raise NotFoundError(f"Connector {name} not found")
        if configs and state.target_state(name) is TargetState.STOPPED:
            raise BadRequestError(f"Cannot submit non-empty set of task configs for stopped connector {name}")
        await self.write(self.configs.put_task_configs(name, configs))
