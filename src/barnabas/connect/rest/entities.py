"""What the REST API says and hears, as JSON: the entities of Kafka Connect's REST API, field for field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.connect.herder_port import (
    BadRequestError,
    ConfigInfos,
    ConnectorInfo,
    ConnectorOffset,
    ConnectorState,
    ConnectorStateInfo,
    LoggerLevel,
    PluginInfo,
    TaskInfo,
    TaskState,
)
from barnabas.connect.rest.errors import UnreadableError
from barnabas.core.connect.ids import ConnectorTaskId, TargetState

Json = dict[str, Any]

_INITIAL_STATES: Mapping[str, TargetState] = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}


def task_id(task: ConnectorTaskId) -> Json:
    """Give a task's name."""
    return {"connector": task.connector, "task": task.task}


def connector_info(info: ConnectorInfo) -> Json:
    """Give a connector as configured."""
    return {
        "name": info.name,
        "config": dict(info.config),
        "tasks": [task_id(task) for task in info.tasks],
        "type": info.type.value,
    }


def task_info(info: TaskInfo) -> Json:
    """Give a task as configured."""
    return {"id": task_id(info.id), "config": dict(info.config)}


def _state(state: ConnectorState | TaskState) -> Json:
    said: Json = {"state": state.state, "worker_id": state.worker_id}
    if state.trace:
        said["trace"] = state.trace
    if state.version is not None:
        said["version"] = state.version
    return said


def task_state(state: TaskState) -> Json:
    """Give how a task does."""
    return {"id": state.id} | _state(state)


def connector_state_info(info: ConnectorStateInfo) -> Json:
    """Give how a connector and its tasks do."""
    return {
        "name": info.name,
        "connector": _state(info.connector),
        "tasks": [task_state(task) for task in info.tasks],
        "type": info.type.value,
    }


def connector_offsets(offsets: Sequence[ConnectorOffset]) -> Json:
    """Give where a connector is."""
    return {
        "offsets": [
            {"partition": dict(each.partition), "offset": None if each.offset is None else dict(each.offset)}
            for each in offsets
        ]
    }


def plugin_info(info: PluginInfo) -> Json:
    """Give a plug-in; the version is left out where it has none."""
    said = {"class": info.class_name, "type": info.type}
    return said if info.version is None else said | {"version": info.version}


def config_infos(infos: ConfigInfos) -> Json:
    """Give what a validation found."""
    return {
        "name": infos.name,
        "error_count": infos.error_count,
        "groups": list(infos.groups),
        "configs": [dict(each) for each in infos.configs],
    }


def logger_level(level: LoggerLevel) -> Json:
    """Give the level of a logger."""
    return {"level": level.level, "last_modified": level.last_modified_ms}


def parse_config(value: object, *, what: str = "The configuration of a connector") -> dict[str, str | None]:
    """Give a map of texts; numbers and booleans count as text, as they do for a JVM worker. UnreadableError."""
    if not isinstance(value, dict):
        raise UnreadableError(f"{what} must be a JSON object, from names of settings to their values")
    return {name: None if each is None else _text(name, each) for name, each in value.items()}


def parse_task_configs(value: object) -> list[dict[str, str]]:
    """Give what a connector made for its tasks, in their order; UnreadableError."""
    if not isinstance(value, list):
        raise UnreadableError("The configurations of tasks must be a JSON array of objects")
    configs = [parse_config(each, what="The configuration of a task") for each in value]
    return [{name: text for name, text in config.items() if text is not None} for config in configs]


def parse_create(value: object) -> tuple[str, dict[str, str | None], TargetState | None]:
    """Give name, configuration and initial state that `POST /connectors` asks for; UnreadableError."""
    if not isinstance(value, dict):
        raise UnreadableError('Creating a connector needs a JSON object: {"name": ..., "config": {...}}')
    _known(value, "name", "config", "initial_state")
    config = parse_config(value.get("config"), what="The field config")
    return str(value.get("name") or "").strip(), config, _initial_state(value.get("initial_state"))


def parse_offsets(value: object) -> list[ConnectorOffset]:
    """Give what `PATCH /connectors/x/offsets` asks for; UnreadableError, BadRequestError when it asks for nothing."""
    if not isinstance(value, dict):
        raise UnreadableError('Moving a connector needs a JSON object: {"offsets": [...]}')
    _known(value, "offsets")
    offsets = value.get("offsets")
    if not isinstance(offsets, list | None):
        raise UnreadableError("The field offsets must be an array")
    if not offsets:
        raise BadRequestError("Partitions / offsets need to be provided for an alter offsets request")
    return [_offset(each) for each in offsets]


def _offset(value: object) -> ConnectorOffset:
    if not isinstance(value, dict):
        raise UnreadableError('Each of the offsets must be an object: {"partition": {...}, "offset": {...} or null}')
    partition, offset = value.get("partition"), value.get("offset")
    if not isinstance(partition, dict) or not (offset is None or isinstance(offset, dict)):
        raise UnreadableError("A partition must be a JSON object, and its offset an object, or null to forget it")
    return ConnectorOffset(partition, offset)


def _initial_state(value: object) -> TargetState | None:
    if value is None:
        return None
    state = _INITIAL_STATES.get(str(value).upper())
    if state is None:
        raise UnreadableError(f"The initial state {value!r} is not one of {', '.join(_INITIAL_STATES)}")
    return state


def _known(value: Json, *fields: str) -> None:
    unknown = sorted(value.keys() - set(fields))
    if unknown:
        raise UnreadableError(f"Unknown field {unknown[0]!r}; this takes {', '.join(fields)}")


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise UnreadableError(f"The value of {name} must be a text, a number or a boolean")
