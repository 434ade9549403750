"""The status topic: what its records come to, and who may write."""

from __future__ import annotations

import pytest

from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.records import Record
from barnabas.core.connect.status import (
    ConnectorStatus,
    State,
    TaskStatus,
    TopicStatus,
    connector_status_record,
    task_status_record,
    topic_reset_record,
    topic_status_record,
)
from barnabas.core.connect.status_state import EMPTY_STATUSES, StatusState, may_replace, replay_status

TASK = ConnectorTaskId("x-1", 0)
CONNECTOR = ConnectorStatus("x-1", State.RUNNING, "a:1", 3, version="1.0")
RUNNING = TaskStatus(TASK, State.RUNNING, "a:1", 3)
TOPIC = TopicStatus("t", "x:connector-1", 0, 17)


def _replay(*records: Record, state: StatusState = EMPTY_STATUSES) -> StatusState:
    for key, value in records:
        state, complaint = replay_status(state, key, value)
        assert complaint is None
    return state


def test_states_and_topics_come_back_as_they_were_written() -> None:
    failed = TaskStatus(TASK, State.FAILED, "a:1", 3, 'Trace "with"\nlines', "1.0")
    state = _replay(connector_status_record(CONNECTOR), task_status_record(failed), topic_status_record(TOPIC))
    assert state.connector("x-1") == CONNECTOR
    assert state.task(TASK) == failed
    assert state.tasks("x-1") == [failed]
    assert state.topics("x:connector-1") == [TOPIC]
    state = _replay(topic_reset_record("x:connector-1", "t"), state=state)
    assert state.topics("x:connector-1") == []


def test_the_end_of_a_connector_ends_its_tasks_states() -> None:
    gone = ConnectorStatus("x-1", State.DESTROYED, "a:1", 3)
    assert connector_status_record(gone).value is None
    state = _replay(connector_status_record(CONNECTOR), task_status_record(RUNNING), connector_status_record(gone))
    assert state.connector("x-1") is None
    assert state.task(TASK) is None
    assert state.tasks("x-1") == []


def test_a_task_can_end_alone() -> None:
    gone = TaskStatus(TASK, State.DESTROYED, "a:1", 3)
    state = _replay(connector_status_record(CONNECTOR), task_status_record(RUNNING), task_status_record(gone))
    assert state.task(TASK) is None
    assert state.connector("x-1") == CONNECTOR


@pytest.mark.parametrize(("generation", "wins"), [(2, False), (3, False), (4, True)])
def test_giving_up_a_task_does_not_hide_that_it_runs_elsewhere(generation: int, wins: bool) -> None:
    late = TaskStatus(TASK, State.UNASSIGNED, "b:1", generation)
    state = _replay(task_status_record(RUNNING), task_status_record(late))
    assert state.task(TASK) == (late if wins else RUNNING)


def test_a_worker_does_not_write_over_a_later_ones_word() -> None:
    assert may_replace(None, RUNNING)
    assert may_replace(RUNNING, TaskStatus(TASK, State.FAILED, "a:1", 1)), "it is its own"
    assert may_replace(RUNNING, TaskStatus(TASK, State.FAILED, "b:1", 3))
    assert not may_replace(RUNNING, TaskStatus(TASK, State.FAILED, "b:1", 2))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"else", b"{}"),
        (b"status-connector-", b"{}"),
        (b"status-connector-x", b"{}"),
        (b"status-connector-x", b"no JSON"),
        (b"status-connector-x", b'{"state":"RUNNING","worker_id":"a","generation":"3"}'),
        (b"status-connector-x", b'{"state":"RUNNING","worker_id":"a","generation":3,"trace":1}'),
        (b"status-connector-x", b'{"state":"DREAMING","worker_id":"a","generation":3}'),
        (b"status-task-x", b"{}"),
        (b"status-task-x-y", None),
        (b"status-topic-t", b"{}"),
        (b"status-topic-t:connector-x", b'{"topic":1}'),
        (b"\xff", None),
    ],
)
def test_what_cannot_be_used_is_complained_of(key: bytes, value: bytes | None) -> None:
    before = _replay(connector_status_record(CONNECTOR))
    state, complaint = replay_status(before, key, value)
    assert state == before
    assert complaint is not None
