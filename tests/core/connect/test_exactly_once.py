"""Names of transactions, when somebody is shut out, and where transactions end (KIP-618)."""

from __future__ import annotations

import pytest

from barnabas.core.connect.boundaries import Boundaries, TransactionBoundary, Verdict, Wish
from barnabas.core.connect.config_records import (
    connector_config_record,
    task_commit_record,
    task_config_records,
    task_count_record,
)
from barnabas.core.connect.config_state import EMPTY_CONFIG, ClusterConfigState, replay_config
from barnabas.core.connect.exactly_once import SourceSupport, leader_transactional_id, transactional_ids
from barnabas.core.connect.fencing import FencingRound, fencing_due, is_overtaken, refusal
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.records import Record

CONNECTOR = connector_config_record("x-1", {"name": "x-1"})


def _tasks(count: int) -> list[Record]:
    return [*task_config_records("x-1", [{"n": str(n)} for n in range(count)]), task_commit_record("x-1", count)]


def _count(tasks: int) -> Record:
    return task_count_record("x-1", tasks)


def _state(*records: Record, begin: ClusterConfigState = EMPTY_CONFIG) -> ClusterConfigState:
    for key, value in records:
        begin = replay_config(begin, key, value, max(begin.offset, 0)).state
    return begin


def test_the_names_of_transactions_are_those_of_the_jvms_workers() -> None:
    assert leader_transactional_id("flights") == "connect-cluster-flights"
    assert transactional_ids("g", "a-b", 2) == ["g-a-b-0", "g-a-b-1"]
    assert transactional_ids("g", "a-b", 0) == []


def test_a_group_gets_there_in_two_steps() -> None:
    ways = [(each.transactional_leader, each.transactional_tasks) for each in SourceSupport]
    assert ways == [(False, False), (True, False), (True, True)]


def test_a_task_count_record_reads_as_the_jvms_workers_write_it() -> None:
    assert _count(3) == Record(b"tasks-fencing-x-1", b'{"task-count":3}')


@pytest.mark.parametrize(
    ("records", "due"),
    [
        ([], None),
        (_tasks(2), (0, 2)),  # no task has ever had a transactional producer
        ([*_tasks(2), _count(2)], None),
        ([*_tasks(2), _count(2), *_tasks(1)], (2, 1)),
        ([*_tasks(1), _count(1), *_tasks(2)], (1, 2)),
        ([*_tasks(1), _count(1), *_tasks(1)], (0, 1)),  # the one shuts the other out by itself
        ([*_tasks(3), _count(3), *_tasks(1), *_tasks(1)], (3, 1)),  # nobody of the second generation began
        ([*_tasks(3), _count(3), *_tasks(0)], (3, 0)),  # stopped, and its offsets are to be moved
        ([*_tasks(3), _count(3), *_tasks(0), _count(0), *_tasks(2)], (0, 2)),
    ],
)
def test_who_is_shut_out_before_tasks_begin(records: list[Record], due: tuple[int, int] | None) -> None:
    found = fencing_due(_state(CONNECTOR, *records), "x-1")
    assert (found and (found.fenced, found.recorded)) == due


def test_a_round_is_not_recorded_for_tasks_that_came_after_it_began() -> None:
    state = _state(CONNECTOR, *_tasks(2))
    due = fencing_due(state, "x-1")
    assert due == FencingRound("x-1", 0, 2, 0)
    assert not is_overtaken(due, state)
    assert is_overtaken(due, _state(*_tasks(2), begin=state))


def test_a_task_looks_once_more_before_it_begins() -> None:
    state, task = _state(CONNECTOR, *_tasks(2)), ConnectorTaskId("x-1", 1)
    assert refusal(task, 0, state, {task}) is None
    assert "taken from this worker" in (refusal(task, 0, state, {ConnectorTaskId("x-1", 0)}) or "")
    assert "other task configurations" in (refusal(task, 0, _state(*_tasks(2), begin=state), {task}) or "")


@pytest.mark.parametrize("wish", Wish)
def test_by_default_each_batch_is_a_transaction_whatever_the_connector_wishes(wish: Wish) -> None:
    each = Boundaries(TransactionBoundary.POLL)
    assert each.after_batch(wish, 5) == (each, Verdict.COMMIT)
    assert each.at_end(wish) is Verdict.COMMIT


def test_a_transaction_of_an_interval_ends_with_the_first_batch_after_it() -> None:
    now = Boundaries(TransactionBoundary.INTERVAL, 100).begun(1_000)
    said = []
    for at_ms in (1_000, 1_099, 1_100, 1_150, 1_250, 1_349, 1_350):
        now, verdict = now.after_batch(Wish.ABORT, at_ms)
        said.append(verdict is Verdict.COMMIT)
    assert said == [False, False, True, False, True, False, True]
    assert now.at_end(Wish.NOTHING) is Verdict.COMMIT


def test_an_interval_of_nothing_commits_after_each_batch() -> None:
    now = Boundaries(TransactionBoundary.INTERVAL).begun(7)
    assert now.after_batch(Wish.NOTHING, 7)[1] is Verdict.COMMIT


def test_a_connector_that_says_where_transactions_end_is_left_its_open_ones_unfinished() -> None:
    theirs = Boundaries(TransactionBoundary.CONNECTOR)
    for wish, verdict in ((Wish.NOTHING, Verdict.GO_ON), (Wish.COMMIT, Verdict.COMMIT), (Wish.ABORT, Verdict.ABORT)):
        assert theirs.after_batch(wish, 9) == (theirs, verdict)
        assert theirs.at_end(wish) is verdict
