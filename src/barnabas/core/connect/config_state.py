"""What the config topic says: connectors, their tasks, what users want of them, and the session key.

A frozen value; `replay` gives the next one with what happened, for the shell to act on. Records may be missing before
others, for the topic is compacted: a commit whose task configurations are not all there leaves the connector
inconsistent, which the leader mends by making them anew.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias, TypeVar

from immutables import Map

from barnabas.core.connect import config_records as keys
from barnabas.core.connect.ids import ConnectorTaskId, TargetState
from barnabas.core.connect.json_converter import Json, decode_json, encode_json
from barnabas.core.connect.restarts import RestartRequest
from barnabas.core.connect.session_keys import SessionKey

NO_OFFSET: Final = -1
_V = TypeVar("_V")
Config: TypeAlias = Map[str, str | None]
"""A connector's or a task's configuration as it was written: `${...}` in it not yet resolved."""


@dataclass(frozen=True, slots=True)
class ConnectorConfigUpdated:
    """A connector is new, or has another configuration."""

    connector: str


@dataclass(frozen=True, slots=True)
class ConnectorRemoved:
    """A connector has been deleted."""

    connector: str


@dataclass(frozen=True, slots=True)
class TargetStateChanged:
    """A connector that exists is wanted in another state."""

    connector: str


@dataclass(frozen=True, slots=True)
class TaskConfigsUpdated:
    """A commit has put these tasks' configurations into force; none when it brought no new ones."""

    connector: str
    tasks: tuple[ConnectorTaskId, ...]


@dataclass(frozen=True, slots=True)
class SessionKeyUpdated:
    """The leader has handed out a key."""

    key: SessionKey


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """Somebody wants a restart. To be ignored while the topic is read for the first time."""

    request: RestartRequest


@dataclass(frozen=True, slots=True)
class LoggerLevelSet:
    """A logger's level for every worker. To be ignored while the topic is read for the first time."""

    namespace: str
    level: str


@dataclass(frozen=True, slots=True)
class RecordIgnored:
    """A record that cannot be used; `complaint` goes to the log at ERROR (KIP-507, C-35)."""

    complaint: str


ConfigEvent: TypeAlias = (
    ConnectorConfigUpdated
    | ConnectorRemoved
    | TargetStateChanged
    | TaskConfigsUpdated
    | SessionKeyUpdated
    | RestartRequested
    | LoggerLevelSet
    | RecordIgnored
)


@dataclass(frozen=True, slots=True)
class ClusterConfigState:
    """The configuration of the whole cluster; `EMPTY_CONFIG` is where reading begins.

    offset: of the record to come. task_configs: those in force, after their commit; pending: those that wait for it.
    applied_configs: of a connector, when its tasks' were made. task_generations: counts the commits that came
    into force, from 0. task_count_records, pending_fencing: see KIP-618.
    """

    offset: int = NO_OFFSET
    session_key: SessionKey | None = None
    connector_configs: Map[str, Config] = field(default_factory=Map)
    target_states: Map[str, TargetState] = field(default_factory=Map)
    task_counts: Map[str, int] = field(default_factory=Map)
    task_configs: Map[ConnectorTaskId, Config] = field(default_factory=Map)
    pending: Map[str, Map[int, Config]] = field(default_factory=Map)
    applied_configs: Map[str, Config] = field(default_factory=Map)
    task_generations: Map[str, int] = field(default_factory=Map)
    task_count_records: Map[str, int] = field(default_factory=Map)
    pending_fencing: Map[str, None] = field(default_factory=Map)
    inconsistent: Map[str, None] = field(default_factory=Map)

    def __contains__(self, connector: object) -> bool:
        return connector in self.connector_configs

    @property
    def connectors(self) -> list[str]:
        """Give the names of the connectors, sorted."""
        return sorted(self.connector_configs)

    def connector_config(self, connector: str) -> Config | None:
        """Give a connector's configuration as it was written, None for a connector that is not there."""
        return self.connector_configs.get(connector)

    def task_config(self, task_id: ConnectorTaskId) -> Config | None:
        """Give a task's configuration in force as it was written, None where there is none."""
        return self.task_configs.get(task_id)

    def target_state(self, connector: str) -> TargetState | None:
        """Give what the user wants of a connector, None for a connector that is not there."""
        return self.target_states.get(connector)

    def task_count(self, connector: str) -> int:
        """Give how many tasks a connector has, 0 before the first commit."""
        return self.task_counts.get(connector, 0)

    def task_generation(self, connector: str) -> int:
        """Give the generation of a connector's task configurations, -1 before the first commit."""
        return self.task_generations.get(connector, -1)

    def tasks(self, connector: str) -> list[ConnectorTaskId]:
        """Give a connector's tasks; none while it is inconsistent."""
        if connector in self.inconsistent:
            return []
        return [ConnectorTaskId(connector, n) for n in range(self.task_count(connector))]

    def __repr__(self) -> str:
        # Configurations may hold secrets, so that only names are shown.
        return f"ClusterConfigState(offset={self.offset}, connectors={self.connectors})"


EMPTY_CONFIG: Final = ClusterConfigState()


class Replayed(NamedTuple):
    """The state after a record, and what happened by it."""

    state: ClusterConfigState
    event: ConfigEvent | None


def replay_config(state: ClusterConfigState, key: bytes | None, value: bytes | None, offset: int) -> Replayed:
    """Give the state after the record at `offset` of the config topic, and what happened by it.

    Raises nothing: what cannot be read is skipped and complained of, as by the JVM's workers.
    """
    state = replace(state, offset=offset + 1)
    try:
        text = (key or b"").decode()
        body = None if value is None else decode_json(value)
        for prefix, kind in _KINDS:
            if text.startswith(prefix):
                return kind(state, text.removeprefix(prefix), body)
        if text == keys.SESSION_KEY:
            return _session_key(state, body)
    except ValueError as e:
        # Neither value nor its parts: they may be secrets.
        return Replayed(state, RecordIgnored(f"the config topic has a record {key!r} that cannot be used: {_why(e)}"))
    return Replayed(state, RecordIgnored(f"the config topic has a record with a key that nobody here knows: {text!r}"))


def _why(error: ValueError) -> str:
    return str(error) if isinstance(error, _UnusableError) else "its value is no JSON"


class _UnusableError(ValueError):
    """A record whose shape is wrong; the text says how, without any value."""


def _connector(state: ClusterConfigState, name: str, body: Json) -> Replayed:
    if body is None:
        return Replayed(_removed(state, name), ConnectorRemoved(name))
    state = replace(state, connector_configs=state.connector_configs.set(name, _properties(body)))
    if name not in state.target_states:
        state = replace(state, target_states=state.target_states.set(name, TargetState.STARTED))
    return Replayed(state, ConnectorConfigUpdated(name))


def _removed(state: ClusterConfigState, name: str) -> ClusterConfigState:
    return replace(
        state,
        connector_configs=_without(state.connector_configs, name),
        task_counts=_without(state.task_counts, name),
        task_configs=Map({t: config for t, config in state.task_configs.items() if t.connector != name}),
        pending=_without(state.pending, name),
        applied_configs=_without(state.applied_configs, name),
    )


def _target_state(state: ClusterConfigState, name: str, body: Json) -> Replayed:
    if body is None:
        states = _without(state.target_states, name)
        if name in state:
            states = states.set(name, TargetState.STARTED)  # a connector is never without one
        return Replayed(replace(state, target_states=states), None)
    fields = _object(body)
    wanted = fields.get("state.v2")
    wanted = wanted if isinstance(wanted, str) else fields.get("state")
    if not isinstance(wanted, str) or wanted not in TargetState.__members__:
        raise _UnusableError("it holds no target state that is known")
    target = TargetState(wanted)
    changed = state.target_states.get(name) is not target
    state = replace(state, target_states=state.target_states.set(name, target))
    # Before its configuration is there, the state is that of a connector about to be created.
    return Replayed(state, TargetStateChanged(name) if changed and name in state else None)


def _task(state: ClusterConfigState, name: str, body: Json) -> Replayed:
    connector, dash, number = name.rpartition("-")
    if not dash or not number.isdecimal():
        raise _UnusableError("its key names no task")
    waiting = state.pending.get(connector, Map()).set(int(number), _properties(body))
    return Replayed(replace(state, pending=state.pending.set(connector, waiting)), None)


def _commit(state: ClusterConfigState, name: str, body: Json) -> Replayed:
    if name not in state:
        # The connector is deleted, and compaction has taken its records but not those of its tasks.
        return Replayed(_removed(state, name), None)
    count = _number(_object(body), "tasks")
    waiting = state.pending.get(name, Map())
    updated: tuple[ConnectorTaskId, ...] = ()
    if all(n in waiting for n in range(count)):
        updated = tuple(ConnectorTaskId(name, n) for n in sorted(waiting))
        state = _applied(state, name, waiting)
    else:
        state = replace(state, inconsistent=state.inconsistent.set(name, None))
    state = replace(
        state,
        # Even when they could not be applied: after this commit, only a whole new set will do.
        pending=_without(state.pending, name),
        task_counts=state.task_counts.set(name, count),
        pending_fencing=state.pending_fencing.set(name, None),
    )
    return Replayed(state, TaskConfigsUpdated(name, updated))


def _applied(state: ClusterConfigState, name: str, configs: Map[int, Config]) -> ClusterConfigState:
    # A commit of no tasks is a generation too: else one that stops and comes back would find its own still in force.
    generations = state.task_generations.set(name, state.task_generation(name) + 1)
    return replace(
        state,
        task_configs=state.task_configs.update({ConnectorTaskId(name, n): config for n, config in configs.items()}),
        task_generations=generations,
        applied_configs=state.applied_configs.set(name, state.connector_configs[name]),
        inconsistent=_without(state.inconsistent, name),
    )


def _restart(state: ClusterConfigState, name: str, body: Json) -> Replayed:
    fields = _object(body)
    request = RestartRequest(name, fields.get("only-failed") is True, fields.get("include-tasks") is True)
    return Replayed(state, RestartRequested(request))


def _task_count(state: ClusterConfigState, name: str, body: Json) -> Replayed:
    counts = state.task_count_records.set(name, _number(_object(body), "task-count"))
    fencing = _without(state.pending_fencing, name)
    return Replayed(replace(state, task_count_records=counts, pending_fencing=fencing), None)


def _session_key(state: ClusterConfigState, body: Json) -> Replayed:
    fields = _object(body)
    try:
        secret = base64.b64decode(_text(fields, "key"), validate=True)
    except ValueError:
        raise _UnusableError("its `key` is not base64") from None
    key = SessionKey(secret, _text(fields, "algorithm"), _number(fields, "creation-timestamp"))
    return Replayed(replace(state, session_key=key), SessionKeyUpdated(key))


def _logger(state: ClusterConfigState, namespace: str, body: Json) -> Replayed:
    return Replayed(state, LoggerLevelSet(namespace, _text(_object(body), "level")))


# `connector-` and `task-` are no prefixes of the others, nor these of each other: the order does not matter.
_KINDS: Final[tuple[tuple[str, Callable[[ClusterConfigState, str, Json], Replayed]], ...]] = (
    (keys.TARGET_STATE_PREFIX, _target_state),
    (keys.CONNECTOR_PREFIX, _connector),
    (keys.TASK_PREFIX, _task),
    (keys.COMMIT_PREFIX, _commit),
    (keys.RESTART_PREFIX, _restart),
    (keys.TASK_COUNT_PREFIX, _task_count),
    (keys.LOGGER_PREFIX, _logger),
)


def _object(body: Json) -> Mapping[str, Json]:
    if not isinstance(body, dict):
        raise _UnusableError("it has no JSON object as its value")
    return body


def _properties(body: Json) -> Config:
    properties = _object(body).get("properties")
    if not isinstance(properties, dict):
        raise _UnusableError("its `properties` are no JSON object")
    return Map({name: _as_text(value) for name, value in properties.items()})


def _as_text(value: Json) -> str | None:
    """Give a setting; a record that was written by hand may hold numbers and more, which are the text that they are."""
    return value if isinstance(value, str | None) else encode_json(value).decode()


def _text(fields: Mapping[str, Json], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _UnusableError(f"its `{name}` is no text")
    return value


def _number(fields: Mapping[str, Json], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _UnusableError(f"its `{name}` is no whole number")
    return value


def _without(whole: Map[str, _V], name: str) -> Map[str, _V]:
    return whole.delete(name) if name in whole else whole
