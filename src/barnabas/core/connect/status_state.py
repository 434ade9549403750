"""What the status topic says: the state of connectors, of tasks, and the topics that connectors use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar, cast

from immutables import Map

from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.json_converter import Json, decode_json
from barnabas.core.connect.status import (
    CONNECTOR_PREFIX,
    TASK_PREFIX,
    TOPIC_PREFIX,
    TOPIC_SEPARATOR,
    ConnectorStatus,
    State,
    TaskStatus,
    TopicStatus,
)

_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class StatusState:
    """All statuses; `EMPTY_STATUSES` is where reading begins."""

    connectors: Map[str, ConnectorStatus] = field(default_factory=Map)
    tasks_by_connector: Map[str, Map[int, TaskStatus]] = field(default_factory=Map)
    topics_by_connector: Map[str, Map[str, TopicStatus]] = field(default_factory=Map)

    def connector(self, name: str) -> ConnectorStatus | None:
        """Give a connector's state, None when nobody has told it."""
        return self.connectors.get(name)

    def task(self, task_id: ConnectorTaskId) -> TaskStatus | None:
        """Give a task's state, None when nobody has told it."""
        return self.tasks_by_connector.get(task_id.connector, Map()).get(task_id.task)

    def tasks(self, connector: str) -> list[TaskStatus]:
        """Give the states of a connector's tasks, by their number."""
        return [status for _, status in sorted(self.tasks_by_connector.get(connector, Map()).items())]

    def topics(self, connector: str) -> list[TopicStatus]:
        """Give the topics that a connector has used, by name."""
        return [status for _, status in sorted(self.topics_by_connector.get(connector, Map()).items())]


EMPTY_STATUSES = StatusState()


class Replayed(NamedTuple):
    """The state after a record. complaint: why the record changed nothing, for the log; None when all is well."""

    state: StatusState
    complaint: str | None = None


def may_replace(current: ConnectorStatus | TaskStatus | None, status: ConnectorStatus | TaskStatus) -> bool:
    """Say whether a worker may write `status` over what it read last, where it must not undo another worker's word.

    It may when its own word stands there, or one of no later generation: a task that has moved on is its new worker's.
    """
    return current is None or current.worker_id == status.worker_id or current.generation <= status.generation


def replay_status(state: StatusState, key: bytes, value: bytes | None) -> Replayed:
    """Give the state after a record of the status topic."""
    try:
        text = key.decode()
        if text.startswith(CONNECTOR_PREFIX):
            return Replayed(_connector(state, text.removeprefix(CONNECTOR_PREFIX), value))
        if text.startswith(TASK_PREFIX):
            return Replayed(_task(state, text.removeprefix(TASK_PREFIX), value))
        if text.startswith(TOPIC_PREFIX):
            return Replayed(_topic(state, text.removeprefix(TOPIC_PREFIX), value))
    except ValueError as e:
        return Replayed(state, f"the status topic has a record {key!r} that cannot be used: {e}")
    return Replayed(state, f"the status topic has a record with a key that nobody here knows: {text!r}")


def _connector(state: StatusState, name: str, value: bytes | None) -> StatusState:
    if not name:
        raise ValueError("its key names no connector")
    if value is None:
        return replace(
            state,
            connectors=_without(state.connectors, name),
            tasks_by_connector=_without(state.tasks_by_connector, name),
        )
    body = _object(value)
    status = ConnectorStatus(
        name, State(_text(body, "state")), _text(body, "worker_id"), _number(body, "generation"), *_trace_version(body)
    )
    return replace(state, connectors=state.connectors.set(name, status))


def _task(state: StatusState, name: str, value: bytes | None) -> StatusState:
    connector, dash, number = name.rpartition("-")
    if not dash:
        raise ValueError("its key names no task")
    task_id = ConnectorTaskId(connector, int(number))
    tasks = state.tasks_by_connector.get(connector, Map())
    if value is None:
        return replace(
            state, tasks_by_connector=_put(state.tasks_by_connector, connector, _without(tasks, task_id.task))
        )
    body = _object(value)
    status = TaskStatus(
        task_id,
        State(_text(body, "state")),
        _text(body, "worker_id"),
        _number(body, "generation"),
        *_trace_version(body),
    )
    if _is_late(tasks.get(task_id.task), status):
        return state
    return replace(state, tasks_by_connector=_put(state.tasks_by_connector, connector, tasks.set(task_id.task, status)))


def _is_late(current: TaskStatus | None, status: TaskStatus) -> bool:
    """Say whether a worker gave the task up only after another one had begun to run it.

    With rebalances in quick succession the one's UNASSIGNED may come after the other's RUNNING of the same or of a
    later generation.
    """
    return (
        current is not None
        and status.state is State.UNASSIGNED
        and current.state is State.RUNNING
        and current.generation >= status.generation
    )


def _topic(state: StatusState, name: str, value: bytes | None) -> StatusState:
    # A topic's name has no colon; a connector's may.
    topic, separator, connector = name.partition(TOPIC_SEPARATOR)
    if not (topic and separator and connector):
        raise ValueError("its key names no topic and connector")
    topics = state.topics_by_connector.get(connector, Map())
    if value is None:
        return replace(state, topics_by_connector=_put(state.topics_by_connector, connector, _without(topics, topic)))
    inner = _object(value).get("topic")
    if not isinstance(inner, dict):
        raise ValueError("its value has no object `topic`")
    status = TopicStatus(
        _text(inner, "name"), _text(inner, "connector"), _number(inner, "task"), _number(inner, "discoverTimestamp")
    )
    return replace(state, topics_by_connector=_put(state.topics_by_connector, connector, topics.set(topic, status)))


def _object(value: bytes) -> dict[str, Json]:
    body = decode_json(value)
    if not isinstance(body, dict):
        raise ValueError("its value is no JSON object")
    return body


def _text(body: Mapping[str, Json], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise ValueError(f"`{name}` is no text")
    return value


def _number(body: Mapping[str, Json], name: str) -> int:
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"`{name}` is no whole number")
    return value


def _trace_version(body: Mapping[str, Json]) -> tuple[str | None, str | None]:
    for name in ("trace", "version"):
        if not isinstance(body.get(name), str | None):
            raise ValueError(f"`{name}` is no text")
    return cast("str | None", body.get("trace")), cast("str | None", body.get("version"))


_K = TypeVar("_K")


def _put(outer: Map[str, Map[_K, _V]], name: str, inner: Map[_K, _V]) -> Map[str, Map[_K, _V]]:
    return outer.set(name, inner) if inner else _without(outer, name)


def _without(whole: Map[_K, _V], name: _K) -> Map[_K, _V]:
    return whole.delete(name) if name in whole else whole
