"""The herder as the REST layer sees it (`herder_port.Herder`).

Reading answers from what the topics say, on every worker and also during a rebalance, once the group has been joined
for the first time. What changes something is a step of the engine, so that it waits for a rebalance, for a while.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from barnabas.connect.herder import answers
from barnabas.connect.herder.engine import Engine
from barnabas.connect.herder.offset_changes import OffsetChanges
from barnabas.connect.herder_port import (
    AlreadyExistsError,
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStateInfo,
    Health,
    InternalRequest,
    InvalidConfigError,
    LoggerLevel,
    NotAssignedError,
    NotFoundError,
    NotLeaderError,
    Plugins,
    TaskInfo,
    TaskState,
)
from barnabas.core.connect.ids import ConnectorTaskId, TargetState
from barnabas.core.connect.restarts import RestartRequest

_Step = Callable[[], Awaitable[None]]


class WorkerHerder:
    """One worker as a part of its group. kafka_cluster_id: of the cluster that the group lives on."""

    def __init__(self, engine: Engine, kafka_cluster_id: str) -> None:
        self._engine = engine
        self._offset_changes = OffsetChanges(engine)
        self._kafka_cluster_id = kafka_cluster_id

    @property
    def worker_id(self) -> str:
        """Give host:port of this worker as status records name it."""
        return self._engine.parts.worker_id

    @property
    def kafka_cluster_id(self) -> str:
        """Give the id of the Kafka cluster that the group lives on."""
        return self._kafka_cluster_id

    @property
    def leader_url(self) -> str | None:
        """Give where the leader's REST server is, None while there is none."""
        return self._engine.member.leader_url

    @property
    def plugins(self) -> Plugins:
        """Give what this worker can run."""
        return self._engine.parts.plugins

    def health(self) -> Health:
        """Say whether start-up is over and the herder turns."""
        ready = self._engine.ready.is_set()
        return Health(ready, healthy=ready and not self._engine.group.stuck, stage=self._engine.stage)

    # Reading.

    async def connectors(self) -> Sequence[str]:
        """Give the names of all connectors."""
        await self._engine.ready.wait()
        return self._engine.configs.state.connectors

    async def connector_info(self, name: str) -> ConnectorInfo:
        """Give a connector as configured; NotFoundError."""
        await self._engine.ready.wait()
        return answers.connector_info(self._engine.configs.state, self.plugins, name)

    async def connector_config(self, name: str) -> Mapping[str, str]:
        """Give a connector's configuration, references to secrets unresolved; NotFoundError."""
        await self._engine.ready.wait()
        return answers.texts(answers.config_of(self._engine.configs.state, name))

    async def task_configs(self, name: str) -> Sequence[TaskInfo]:
        """Give the tasks of a connector; NotFoundError."""
        await self._engine.ready.wait()
        return answers.task_infos(self._engine.configs.state, name)

    def connector_status(self, name: str) -> ConnectorStateInfo:
        """Give how a connector does, as the status topic has it; NotFoundError."""
        return answers.connector_status(self._engine.statuses.state, self._engine.configs.state, self.plugins, name)

    def task_status(self, task: ConnectorTaskId) -> TaskState:
        """Give how a task does, as the status topic has it; NotFoundError."""
        return answers.task_status(self._engine.statuses.state, task)

    def connector_active_topics(self, name: str) -> Sequence[str]:
        """Give the topics that a connector was seen to use since it was created or they were reset."""
        return [topic.topic for topic in self._engine.statuses.state.topics(name)]

    async def reset_connector_active_topics(self, name: str) -> None:
        """Forget the topics that a connector was seen to use."""
        self._engine.statuses.reset_topics(name)
        await self._engine.statuses.flush()

    async def connector_offsets(self, name: str) -> Sequence[ConnectorOffset]:
        """Give where a connector is; NotFoundError."""
        await self._engine.ready.wait()
        config = answers.texts(answers.config_of(self._engine.configs.state, name))
        return await self._engine.parts.runtime.offsets(name, config)

    # Configurations.

    async def put_connector_config(
        self, name: str, config: Mapping[str, str], target_state: TargetState | None = None, *, allow_replace: bool
    ) -> tuple[bool, ConnectorInfo]:
        """Create a connector, or replace its configuration where that is allowed; say whether it is new."""
        infos = await self.plugins.validate(config)
        if infos.error_count:
            raise InvalidConfigError(infos)

        async def step() -> tuple[bool, ConnectorInfo]:
            self._engine.check_leads("Only the leader can set connector configs.")
            exists = name in self._engine.configs.state
            if exists and not allow_replace:
                raise AlreadyExistsError(f"Connector {name} already exists")
            await self._engine.write(self._engine.configs.put_connector_config(name, config, target_state))
            return not exists, answers.connector_info(self._engine.configs.state, self.plugins, name)

        return await self._engine.ask(step)

    async def patch_connector_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        """Change some settings of a connector, None takes one out; as put_connector_config, and NotFoundError."""
        await self._engine.ask(self._leads("Only the leader can set connector configs."))
        config = dict(await self.connector_config(name)) | dict(patch)
        patched = {key: value for key, value in config.items() if value is not None}
        return (await self.put_connector_config(name, patched, allow_replace=True))[1]

    async def delete_connector(self, name: str) -> None:
        """Remove a connector; NotFoundError, NotLeaderError, WriteFailedError."""

        async def step() -> None:
            self._engine.check_leads("Only the leader can delete connector configs.")
            answers.config_of(self._engine.configs.state, name)
            await self._engine.write(self._engine.configs.remove_connector(name))

        await self._engine.ask(step)

    async def request_task_reconfiguration(self, name: str) -> None:
        """Have the connector's task configurations made anew."""
        self._engine.task_configs.request(name)

    def verify_internal_request(self, request: InternalRequest) -> None:
        """Check the signature of an internal request where the group signs; core.connect's InternalRequestError."""
        engine = self._engine
        engine.group.verification.check(request, engine.member.subprotocol, engine.configs.state.session_key)

    async def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Write what a connector, here or elsewhere, made for its tasks; NotFoundError, NotLeaderError."""

        async def step() -> None:
            self._engine.check_leads("Only the leader may write task configurations.")
            await self._engine.write_task_configs(name, configs)

        await self._engine.ask(step)

    async def fence_zombie_source_tasks(self, name: str) -> None:
        """Shut out the tasks of earlier generations of a source, and let the newest one begin (KIP-618).

        NotFoundError, NotLeaderError, BadRequestError for what is no source, ConflictError when there is an even newer
        generation by then.
        """
        await self._engine.fencing.fence(name)

    # States.

    async def restart_connector(self, name: str) -> None:
        """Stop and start the connector alone; NotFoundError, NotAssignedError, NotLeaderError, RebalanceNeededError."""

        async def step() -> None:
            self._engine.check_settled()
            answers.config_of(self._engine.configs.state, name)
            if name not in self._engine.work.connectors:
                raise self._elsewhere("connector", name)
            self._engine.local.reconfigure([name], self._engine.config)

        await self._engine.ask(step)

    async def restart_task(self, task: ConnectorTaskId) -> None:
        """Stop and start one task; as restart_connector."""

        async def step() -> None:
            engine = self._engine
            engine.check_settled()
            answers.config_of(engine.configs.state, task.connector)
            if engine.configs.state.task_config(task) is None:
                raise NotFoundError(f"Unknown task: {task}")
            if task not in engine.work.tasks:
                raise self._elsewhere("task", task)
            await engine.work.stop_tasks([task])
            await engine.work.start_tasks([task], engine.config)

        await self._engine.ask(step)

    async def restart_connector_and_tasks(self, request: RestartRequest) -> ConnectorStateInfo:
        """Have a connector and tasks of it restarted wherever they are; NotFoundError, NotLeaderError."""

        async def step() -> ConnectorStateInfo:
            engine, name = self._engine, request.connector
            engine.check_settled()
            answers.config_of(engine.configs.state, name)
            self._engine.check_leads("Only the leader can process restart requests.")
            plan = answers.plan_of(engine.statuses.state, request)
            if plan is None:
                raise NotFoundError(f"Status for connector {name} not found")
            info = answers.restarting(self.connector_status(name), plan)
            await engine.write(engine.configs.put_restart_request(request))
            return info

        return await self._engine.ask(step)

    async def pause_connector(self, name: str) -> None:
        """Have a connector and its tasks pause; NotFoundError."""
        await self._put_target_state(name, TargetState.PAUSED)

    async def resume_connector(self, name: str) -> None:
        """Have a paused or stopped connector run again; NotFoundError."""
        await self._put_target_state(name, TargetState.STARTED)

    async def stop_connector(self, name: str) -> None:
        """Take a connector's tasks away and keep its configuration and offsets; NotFoundError, NotLeaderError."""

        async def step() -> None:
            answers.config_of(self._engine.configs.state, name)
            self._engine.check_leads("Only the leader can transition connectors to the STOPPED state.")
            # The tasks first: a connector that runs without any is nothing out of the ordinary if this ends half-way.
            await self._engine.write_task_configs(name, [])
            await self._engine.write(self._engine.configs.put_target_state(name, TargetState.STOPPED))

        await self._engine.ask(step)

    async def _put_target_state(self, name: str, state: TargetState) -> None:
        await self._engine.ready.wait()
        answers.config_of(self._engine.configs.state, name)
        await self._engine.write(self._engine.configs.put_target_state(name, state))

    # Offsets.

    async def alter_connector_offsets(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        """Move a stopped connector; the answer says what was done. BadRequestError unless it is stopped."""
        return await self._offset_changes.alter(name, offsets)

    async def reset_connector_offsets(self, name: str) -> str:
        """Have a stopped connector begin again; as alter_connector_offsets."""
        return await self._offset_changes.reset(name)

    # Loggers.

    def loggers(self) -> Mapping[str, LoggerLevel]:
        """Give the level of every logger that has one of its own, `root` among them."""
        return self._engine.loggers.levels()

    def set_worker_logger_level(self, namespace: str, level: str) -> Sequence[str]:
        """Set the level of a logger and those below it on this worker; give their names."""
        return self._engine.loggers.set_level(namespace, level)

    async def set_cluster_logger_level(self, namespace: str, level: str) -> None:
        """Set the level on every worker of the group."""
        await self._engine.write(self._engine.configs.put_logger_level(namespace, level))

    # Who is asked.

    def _leads(self, otherwise: str) -> _Step:
        async def step() -> None:
            self._engine.check_leads(otherwise)

        return step

    def _elsewhere(self, what: str, unit: str | ConnectorTaskId) -> NotAssignedError | NotLeaderError:
        message = f"Cannot restart {what} since it is not assigned to this member"
        if self._engine.member.leads:
            return NotAssignedError(message, self._engine.assigning.owner_url(unit))
        return NotLeaderError(message, self.leader_url)
