"""What the REST layer asks of a herder, and how a herder says no.

`Herder` is implemented by `barnabas.connect.herder`; `Plugins` by `barnabas.connect.plugins`. Every method answers from
the event loop's thread. None of the errors knows of HTTP: the REST layer maps each class to a status once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Protocol

from barnabas.core.connect.ids import ConnectorTaskId, TargetState
from barnabas.core.connect.restarts import RestartRequest


class ConnectorType(Enum):
    """Which way a connector moves data; the values are those of Connect's REST answers."""

    SOURCE = "source"
    SINK = "sink"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """A connector as it was configured."""

    name: str
    config: Mapping[str, str]
    tasks: tuple[ConnectorTaskId, ...]
    type: ConnectorType


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task as its connector configured it."""

    id: ConnectorTaskId
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """How a connector does. state: RUNNING, PAUSED, ...; trace: why it failed; version: of the plug-in."""

    state: str
    worker_id: str
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class TaskState:
    """How a task does; the fields are those of ConnectorState."""

    id: int
    state: str
    worker_id: str
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorStateInfo:
    """How a connector and all of its tasks do."""

    name: str
    connector: ConnectorState
    tasks: tuple[TaskState, ...]
    type: ConnectorType


@dataclass(frozen=True, slots=True)
class ConnectorOffset:
    """Where a connector is in one of its partitions; offset None: nowhere yet, or forgotten when altering."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A class that configurations may name. type: source, sink, converter, transformation, predicate ..."""

    class_name: str
    type: str
    version: str | None


@dataclass(frozen=True, slots=True)
class ConfigInfos:
    """What validation found: for each setting the JSON of `PUT /connector-plugins/x/config/validate`."""

    name: str
    error_count: int
    groups: tuple[str, ...]
    configs: tuple[Mapping[str, Any], ...]

    def errors(self) -> list[str]:
        """Give every complaint, in the order of the settings."""
        return [str(error) for config in self.configs for error in config["value"]["errors"]]


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """The level of a logger. last_modified_ms: None when it was never set at run time."""

    level: str
    last_modified_ms: int | None


@dataclass(frozen=True, slots=True)
class InternalRequest:
    """An internal request as it came in: what its signature is checked against, before anything of it is parsed."""

    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the worker does its work. stage: what the herder is about when it does not."""

    ready: bool
    healthy: bool
    stage: str = ""


class HerderError(Exception):
    """A request that the herder turned down; nothing has changed."""


class BadRequestError(HerderError):
    """The request cannot be meant."""


class InvalidConfigError(BadRequestError):
    """A connector's configuration has errors: `infos` has them all."""

    def __init__(self, infos: ConfigInfos) -> None:
        super().__init__(
            f"Connector configuration is invalid and contains the following {infos.error_count} error(s):\n"
            + "\n".join(infos.errors())
            + "\nYou can also find the above list of errors at the endpoint `/connector-plugins/"
            "{connectorType}/config/validate`"
        )
        self.infos = infos


class NotFoundError(HerderError):
    """There is no such connector, task or plug-in."""


class AlreadyExistsError(HerderError):
    """A connector of that name is there already."""


class ConflictError(HerderError):
    """Something else has happened meanwhile, so that the request has become pointless."""


class RequestTargetError(HerderError):
    """Another worker must be asked; url: which, None while nobody knows."""

    WHO: ClassVar[str] = "worker"

    def __init__(self, message: str, url: str | None) -> None:
        super().__init__(message)
        self.url = url


class NotLeaderError(RequestTargetError):
    """Only the leader may do this."""

    WHO = "leader"


class NotAssignedError(RequestTargetError):
    """Only the worker that a connector or task is assigned to may do this."""

    WHO = "owner"


class RebalanceNeededError(HerderError):
    """The group is between two assignments. since_ms: the epoch time since when; why: what moved it."""

    def __init__(self, since_ms: int, why: str, *, retry_after_ms: int = 1_000) -> None:
        super().__init__(f"Cannot complete request momentarily due to a rebalance: {why}")
        self.since_ms = since_ms
        self.why = why
        self.retry_after_ms = retry_after_ms


class WriteFailedError(HerderError):
    """An internal topic did not take the record; nobody can say whether it is there until it is read again."""


class Plugins(Protocol):
    """What this worker can run."""

    def all(self, *, connectors_only: bool = True) -> Sequence[PluginInfo]:
        """Give every plug-in."""

    def config_definitions(self, plugin: str, version: str | None = None) -> Sequence[Mapping[str, Any]]:
        """Give the settings of a plug-in as Connect's JSON; NotFoundError, BadRequestError."""

    async def validate(self, config: Mapping[str, str | None]) -> ConfigInfos:
        """Look at a connector's configuration, where null is one more error; BadRequestError when it names no class."""

    def connector_type(self, config: Mapping[str, str]) -> ConnectorType:
        """Say which way the configured class moves data; UNKNOWN for a class that is not here."""

    def knows(self, config: Mapping[str, str]) -> bool:
        """Say whether the class that a connector's configuration names is one of this worker's."""

    def class_name(self, config: Mapping[str, str]) -> str | None:
        """Give the whole name of the class that a connector's configuration names, None for one that is not here."""

    def connector_version(self, config: Mapping[str, str]) -> str | None:
        """Give the version of the class that a connector's configuration names, None for one that is not here."""


class Herder(Protocol):
    """One worker as a part of its group. Names and meanings are those of the JVM's Herder."""

    @property
    def worker_id(self) -> str:
        """Give host:port of this worker as status records name it."""

    @property
    def kafka_cluster_id(self) -> str:
        """Give the id of the Kafka cluster that the group lives on."""

    @property
    def leader_url(self) -> str | None:
        """Give where the leader's REST server is, None while there is none."""

    @property
    def plugins(self) -> Plugins:
        """Give what this worker can run."""

    def health(self) -> Health:
        """Say whether start-up is over and the herder turns."""

    async def connectors(self) -> Sequence[str]:
        """Give the names of all connectors; RebalanceNeededError."""

    async def connector_info(self, name: str) -> ConnectorInfo:
        """Give a connector as configured; NotFoundError, RebalanceNeededError."""

    async def connector_config(self, name: str) -> Mapping[str, str]:
        """Give a connector's configuration, references to secrets unresolved; NotFoundError, RebalanceNeededError."""

    def connector_status(self, name: str) -> ConnectorStateInfo:
        """Give how a connector does, as the status topic has it; NotFoundError."""

    def task_status(self, task: ConnectorTaskId) -> TaskState:
        """Give how a task does, as the status topic has it; NotFoundError."""

    def connector_active_topics(self, name: str) -> Sequence[str]:
        """Give the topics that a connector was seen to use since it was created or they were reset."""

    async def reset_connector_active_topics(self, name: str) -> None:
        """Forget the topics that a connector was seen to use."""

    async def put_connector_config(
        self, name: str, config: Mapping[str, str], target_state: TargetState | None = None, *, allow_replace: bool
    ) -> tuple[bool, ConnectorInfo]:
        """Create a connector, or replace its configuration where that is allowed; say whether it is new.

        InvalidConfigError, NotLeaderError, AlreadyExistsError, WriteFailedError.
        """

    async def patch_connector_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        """Change some settings of a connector, None takes one out; as put_connector_config, and NotFoundError."""

    async def delete_connector(self, name: str) -> None:
        """Remove a connector; NotFoundError, NotLeaderError, WriteFailedError."""

    async def request_task_reconfiguration(self, name: str) -> None:
        """Have the connector's task configurations made anew."""

    async def task_configs(self, name: str) -> Sequence[TaskInfo]:
        """Give the tasks of a connector; NotFoundError, RebalanceNeededError."""

    def verify_internal_request(self, request: InternalRequest) -> None:
        """Check the signature of an internal request where the group signs; core.connect's InternalRequestError."""

    async def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Write what a connector, here or elsewhere, made for its tasks; NotFoundError, NotLeaderError.

        The signature must have been verified on the bytes before they were parsed: `verify_internal_request`.
        """

    async def fence_zombie_source_tasks(self, name: str) -> None:
        """Shut out the tasks of earlier generations of a source, and let the newest one begin (KIP-618).

        NotFoundError, NotLeaderError, BadRequestError for what is no source, ConflictError when there is an even newer
        generation by then. The signature must have been verified: `verify_internal_request`.
        """

    async def restart_connector(self, name: str) -> None:
        """Stop and start the connector alone; NotFoundError, NotAssignedError, NotLeaderError, RebalanceNeededError."""

    async def restart_connector_and_tasks(self, request: RestartRequest) -> ConnectorStateInfo:
        """Have a connector and tasks of it restarted wherever they are; NotFoundError, NotLeaderError."""

    async def restart_task(self, task: ConnectorTaskId) -> None:
        """Stop and start one task; as restart_connector."""

    async def pause_connector(self, name: str) -> None:
        """Have a connector and its tasks pause; NotFoundError."""

    async def resume_connector(self, name: str) -> None:
        """Have a paused or stopped connector run again; NotFoundError."""

    async def stop_connector(self, name: str) -> None:
        """Take a connector's tasks away and keep its configuration and offsets; NotFoundError, NotLeaderError."""

    async def connector_offsets(self, name: str) -> Sequence[ConnectorOffset]:
        """Give where a connector is; NotFoundError."""

    async def alter_connector_offsets(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        """Move a stopped connector; the answer says what was done. BadRequestError unless it is stopped."""

    async def reset_connector_offsets(self, name: str) -> str:
        """Have a stopped connector begin again; as alter_connector_offsets."""

    def loggers(self) -> Mapping[str, LoggerLevel]:
        """Give the level of every logger that has one of its own, `root` among them."""

    def set_worker_logger_level(self, namespace: str, level: str) -> Sequence[str]:
        """Set the level of a logger and those below it on this worker; give their names."""

    async def set_cluster_logger_level(self, namespace: str, level: str) -> None:
        """Set the level on every worker of the group."""
