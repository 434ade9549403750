"""How a connector, a task and a topic in use are doing: values, and their records in the status topic."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.json_converter import Json, encode_json
from barnabas.core.connect.records import Record

CONNECTOR_PREFIX: Final = "status-connector-"
TASK_PREFIX: Final = "status-task-"
TOPIC_PREFIX: Final = "status-topic-"
TOPIC_SEPARATOR: Final = ":connector-"


class State(StrEnum):
    """What a connector or a task does. DESTROYED is written as the end of the record and shown to nobody."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    DESTROYED = "DESTROYED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """A connector's state as a worker saw it.

    worker_id: host:port of its REST listener; generation: of the group when it wrote; trace: why it failed; version:
    of the plug-in (KIP-891), None where the writer does not tell.
    """

    connector: str
    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """A task's state as a worker saw it; the fields are those of ConnectorStatus."""

    id: ConnectorTaskId
    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic that a connector uses. task: which of its tasks used it first; KIP-558."""

    topic: str
    connector: str
    task: int
    discover_timestamp_ms: int


def connector_status_record(status: ConnectorStatus) -> Record:
    """Give the record of a connector's state."""
    return Record(f"{CONNECTOR_PREFIX}{status.connector}".encode(), _value(status))


def task_status_record(status: TaskStatus) -> Record:
    """Give the record of a task's state."""
    return Record(f"{TASK_PREFIX}{status.id}".encode(), _value(status))


def topic_status_record(status: TopicStatus) -> Record:
    """Give the record of a topic in use."""
    body: Json = {
        "name": status.topic,
        "connector": status.connector,
        "task": status.task,
        "discoverTimestamp": status.discover_timestamp_ms,
    }
    return Record(_topic_key(status.connector, status.topic), encode_json({"topic": body}))


def topic_reset_record(connector: str, topic: str) -> Record:
    """Give the record that takes a topic from the list of those that a connector uses."""
    return Record(_topic_key(connector, topic), None)


def _topic_key(connector: str, topic: str) -> bytes:
    return f"{TOPIC_PREFIX}{topic}{TOPIC_SEPARATOR}{connector}".encode()


def _value(status: ConnectorStatus | TaskStatus) -> bytes | None:
    if status.state is State.DESTROYED:
        return None
    body: Json = {
        "state": status.state.value,
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }
    return encode_json(body)
