"""The records of the config topic, as every worker since Kafka 0.10 reads them: keys, and values in plain JSON."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.core.connect.ids import ConnectorTaskId, TargetState
from barnabas.core.connect.json_converter import Json, encode_json
from barnabas.core.connect.records import Record
from barnabas.core.connect.restarts import RestartRequest
from barnabas.core.connect.session_keys import SessionKey

CONNECTOR_PREFIX: Final = "connector-"
TASK_PREFIX: Final = "task-"
COMMIT_PREFIX: Final = "commit-"
TARGET_STATE_PREFIX: Final = "target-state-"
RESTART_PREFIX: Final = "restart-connector-"
TASK_COUNT_PREFIX: Final = "tasks-fencing-"
LOGGER_PREFIX: Final = "logger-cluster-"
SESSION_KEY: Final = "session-key"


def connector_config_record(connector: str, config: Mapping[str, str | None]) -> Record:
    """Give the record of a connector's configuration."""
    return _record(CONNECTOR_PREFIX + connector, {"properties": dict(config)})


def connector_removal_records(connector: str) -> tuple[Record, Record]:
    """Give the records that delete a connector: its configuration first, then its target state."""
    names = (CONNECTOR_PREFIX + connector, TARGET_STATE_PREFIX + connector)
    return Record(names[0].encode(), None), Record(names[1].encode(), None)


def task_config_records(connector: str, configs: Sequence[Mapping[str, str | None]]) -> list[Record]:
    """Give the records of the tasks' configurations. They take effect with `task_commit_record`, written afterwards."""
    return [
        _record(f"{TASK_PREFIX}{ConnectorTaskId(connector, n)}", {"properties": dict(config)})
        for n, config in enumerate(configs)
    ]


def task_commit_record(connector: str, tasks: int) -> Record:
    """Give the record by which a connector's new task configurations take effect, all `tasks` of them at once."""
    return _record(COMMIT_PREFIX + connector, {"tasks": tasks})


def target_state_record(connector: str, state: TargetState) -> Record:
    """Give the record of what the user wants; to workers before Kafka 3.5, which cannot stop, STOPPED is PAUSED."""
    known_to_all = TargetState.PAUSED if state is TargetState.STOPPED else state
    return _record(TARGET_STATE_PREFIX + connector, {"state": known_to_all.value, "state.v2": state.value})


def session_key_record(key: SessionKey) -> Record:
    """Give the record by which the leader hands its key to the others (KIP-507, C-11)."""
    body: Json = {
        "key": base64.b64encode(key.key).decode(),
        "algorithm": key.algorithm,
        "creation-timestamp": key.creation_timestamp_ms,
    }
    return _record(SESSION_KEY, body)


def restart_record(request: RestartRequest) -> Record:
    """Give the record of a request to restart (KIP-745)."""
    body: Json = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
    return _record(RESTART_PREFIX + request.connector, body)


def task_count_record(connector: str, tasks: int) -> Record:
    """Give the record that lets a generation of `tasks` tasks begin; the next is to shut out as many (KIP-618)."""
    return _record(TASK_COUNT_PREFIX + connector, {"task-count": tasks})


def logger_level_record(namespace: str, level: str) -> Record:
    """Give the record that sets a logger's level on every worker (KIP-976)."""
    return _record(LOGGER_PREFIX + namespace, {"level": level})


def _record(key: str, body: Json) -> Record:
    return Record(key.encode(), encode_json(body))
