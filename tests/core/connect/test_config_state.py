"""The config topic: what its records come to, also where compaction or a crash has taken some."""

from __future__ import annotations

import pytest

from barnabas.core.connect.config_records import (
    connector_config_record,
    connector_removal_records,
    logger_level_record,
    restart_record,
    session_key_record,
    target_state_record,
    task_commit_record,
    task_config_records,
    task_count_record,
)
from barnabas.core.connect.config_state import (
    EMPTY_CONFIG,
    ClusterConfigState,
    ConfigEvent,
    ConnectorConfigUpdated,
    ConnectorRemoved,
    LoggerLevelSet,
    RecordIgnored,
    RestartRequested,
    SessionKeyUpdated,
    TargetStateChanged,
    TaskConfigsUpdated,
    replay_config,
)
from barnabas.core.connect.ids import ConnectorTaskId, TargetState
from barnabas.core.connect.records import Record
from barnabas.core.connect.restarts import RestartRequest
from barnabas.core.connect.session_keys import SessionKey

CONNECTOR = connector_config_record("x-1", {"name": "x-1", "password": "not-to-be-seen"})
TASKS = [ConnectorTaskId("x-1", 0), ConnectorTaskId("x-1", 1)]
TWO_TASKS = [*task_config_records("x-1", [{"n": "0"}, {"n": "1"}]), task_commit_record("x-1", 2)]


def _replay(*records: Record, state: ClusterConfigState = EMPTY_CONFIG) -> tuple[ClusterConfigState, list[ConfigEvent]]:
    events = []
    for key, value in records:
        state, event = replay_config(state, key, value, max(state.offset, 0))
        events += [event] if event is not None else []
    return state, events


def test_a_connector_comes_with_its_tasks_once_they_are_committed() -> None:
    state, events = _replay(CONNECTOR, *TWO_TASKS[:-1])
    assert events == [ConnectorConfigUpdated("x-1")]
    assert state.tasks("x-1") == []
    state, events = _replay(TWO_TASKS[-1], state=state)
    assert events == [TaskConfigsUpdated("x-1", tuple(TASKS))]
    assert state.tasks("x-1") == TASKS
    assert [dict(state.task_config(task) or {}) for task in TASKS] == [{"n": "0"}, {"n": "1"}]
    assert state.target_state("x-1") is TargetState.STARTED
    assert state.offset == 4
    assert "x-1" in state
    assert state.connectors == ["x-1"]
    assert state.task_generations["x-1"] == 0


def test_a_commit_whose_tasks_are_not_all_there_leaves_the_connector_inconsistent_until_a_whole_one() -> None:
    state, _ = _replay(CONNECTOR, TWO_TASKS[0], TWO_TASKS[2])
    assert "x-1" in state.inconsistent
    assert state.tasks("x-1") == []
    state, _ = _replay(TWO_TASKS[1], TWO_TASKS[2], state=state)
    assert "x-1" in state.inconsistent, "what came before a commit does not count after it"
    state, _ = _replay(*TWO_TASKS, state=state)
    assert not state.inconsistent
    assert state.tasks("x-1") == TASKS


def test_fewer_tasks_may_find_old_records_of_more() -> None:
    state, _ = _replay(CONNECTOR, TWO_TASKS[1], TWO_TASKS[0], task_commit_record("x-1", 1))
    assert state.tasks("x-1") == TASKS[:1]
    assert not state.inconsistent


def test_a_deleted_connector_takes_its_tasks_along_and_a_late_commit_brings_nothing_back() -> None:
    state, events = _replay(CONNECTOR, *TWO_TASKS, *connector_removal_records("x-1"))
    assert events[-1] == ConnectorRemoved("x-1")
    assert not state.connectors
    assert not state.task_configs
    assert state.target_state("x-1") is None
    state, events = _replay(*TWO_TASKS, state=state)
    assert not state.task_configs
    assert events == []


def test_target_states_are_understood_old_and_new() -> None:
    stopped = target_state_record("x-1", TargetState.STOPPED)
    assert stopped.value == b'{"state":"PAUSED","state.v2":"STOPPED"}'
    state, events = _replay(CONNECTOR, stopped)
    assert events[-1] == TargetStateChanged("x-1")
    assert state.target_state("x-1") is TargetState.STOPPED
    state, _ = _replay(Record(stopped.key, b'{"state":"PAUSED"}'), state=state)
    assert state.target_state("x-1") is TargetState.PAUSED
    state, events = _replay(Record(stopped.key, b'{"state":"DREAMING"}'), state=state)
    assert isinstance(events[0], RecordIgnored)
    assert state.target_state("x-1") is TargetState.PAUSED
    state, events = _replay(Record(stopped.key, None), state=state)
    assert state.target_state("x-1") is TargetState.STARTED
    state, events = _replay(target_state_record("new", TargetState.PAUSED))
    assert events == [], "it is that of a connector yet to come"
    state, _ = _replay(connector_config_record("new", {}), state=state)
    assert state.target_state("new") is TargetState.PAUSED


@pytest.mark.requirement("C-11")
def test_a_session_key_comes_back_as_it_was_written() -> None:
    key = SessionKey(b"not-to-be-seen", "HmacSHA256", 1_700_000_000_000)
    record = session_key_record(key)
    assert record == Record(
        b"session-key",
        b'{"key":"bm90LXRvLWJlLXNlZW4=","algorithm":"HmacSHA256","creation-timestamp":1700000000000}',
    )
    state, events = _replay(record)
    assert state.session_key == key
    assert events == [SessionKeyUpdated(key)]


def test_requests_and_levels_are_events_and_nothing_else() -> None:
    request = RestartRequest("x-1", only_failed=True, include_tasks=True)
    state, events = _replay(restart_record(request), logger_level_record("a.b", "DEBUG"))
    assert events == [RestartRequested(request), LoggerLevelSet("a.b", "DEBUG")]
    assert state == ClusterConfigState(offset=2)


def test_a_commit_of_no_tasks_is_a_generation_of_its_own() -> None:
    state, _ = _replay(CONNECTOR, *TWO_TASKS, task_commit_record("x-1", 0))
    assert state.task_generation("x-1") == 1
    assert EMPTY_CONFIG.task_generation("x-1") == -1


def test_new_tasks_wait_for_a_round_of_fencing_and_a_count_ends_it() -> None:
    state, _ = _replay(CONNECTOR, *TWO_TASKS)
    assert "x-1" in state.pending_fencing
    state, _ = _replay(task_count_record("x-1", 2), state=state)
    assert "x-1" not in state.pending_fencing
    assert state.task_count_records["x-1"] == 2


def test_numbers_in_a_record_written_by_hand_are_text() -> None:
    state, _ = _replay(Record(b"connector-x", b'{"properties":{"tasks.max":2,"on":true,"none":null,"some":[1, "a"]}}'))
    assert dict(state.connector_configs["x"]) == {"tasks.max": "2", "on": "true", "none": None, "some": '[1,"a"]'}


@pytest.mark.requirement("C-35")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"nobody-knows", b"{}"),
        (b"session-key-2", b"{}"),
        (b"session-key", None),
        (b"session-key", b'{"key":"!","algorithm":"HmacSHA256","creation-timestamp":1}'),
        (b"session-key", b'{"key":"not-to-be-seen="}'),
        (b"session-key", b'{"key":"AAAA","algorithm":"HmacSHA256","creation-timestamp":"not-to-be-seen"}'),
        (b"connector-x", b"[]"),
        (b"connector-x", b'{"properties":["not-to-be-seen"]}'),
        (b"connector-x", b"not-to-be-seen"),
        (b"connector-x", b"\xff"),
        (b"task-x", b'{"properties":{}}'),
        (b"task-x-0", None),
        (b"commit-x-1", b'{"tasks":"2"}'),
        (b"tasks-fencing-x", b"null"),
        (b"restart-connector-x", None),
        (b"logger-cluster-x", b'{"level":1}'),
        (b"\xff", b"{}"),
        (None, b"{}"),
    ],
)
def test_what_cannot_be_used_is_complained_of_and_skipped(key: bytes | None, value: bytes | None) -> None:
    before, _ = _replay(CONNECTOR)
    state, event = replay_config(before, key, value, 7)
    assert isinstance(event, RecordIgnored)
    assert "not-to-be-seen" not in event.complaint
    assert "not-to-be-seen" not in repr(state)
    assert state.offset == 8
    assert state.connector_configs == before.connector_configs
    assert state.session_key is None
