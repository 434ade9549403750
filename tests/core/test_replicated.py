"""Replicated state: what is answered when, and what a lost epoch takes back."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.replicated import (
    Decision,
    OffsetWaiters,
    ReplayTable,
    Replicated,
    UnknownRecordError,
    VersionedRecord,
    answer,
    replayed_by,
    replays,
)


@dataclass(frozen=True)
class Add:
    n: int


@dataclass(frozen=True)
class Forget:
    pass


@replays(Add)
def add(total: int, r: Add) -> int:
    return total + r.n


@replays(Forget)
def forget(total: int, r: Forget) -> int:
    return 0


TABLE: ReplayTable[int] = ReplayTable((add, forget))


def test_records_are_replayed_in_their_order() -> None:
    records = (VersionedRecord(Add(2), 0), VersionedRecord(Forget(), 0), VersionedRecord(Add(5), 0))
    assert TABLE.replay_all(1, records) == 5
    assert replayed_by(add) is Add
    assert Add in TABLE
    assert TABLE.types() == {Add, Forget}


def test_a_record_nobody_knows_stops_the_replay() -> None:
    with pytest.raises(UnknownRecordError, match="newer software"):
        TABLE.replay(0, "what is this")


def test_tables_refuse_unmarked_functions_and_two_for_one_class() -> None:
    with pytest.raises(ValueError, match="not marked"):
        ReplayTable((lambda state, record: state,))
    with pytest.raises(ValueError, match="two functions replay Add"):
        ReplayTable((add, add))


def test_a_decision_without_records_is_only_an_answer() -> None:
    assert answer("x") == Decision((), "x", atomic=True)


def test_an_answer_that_saw_only_committed_state_need_not_wait() -> None:
    replicated: Replicated[int, str] = Replicated(0)
    assert not replicated.wait("read")
    assert replicated.commit(10) == []


def test_a_read_waits_for_the_uncommitted_write_it_saw() -> None:
    replicated: Replicated[int, str] = Replicated(0)
    replicated.appended(3, 7)
    assert replicated.wait("write")
    assert replicated.wait("read")
    replicated.appended(5, 8)
    assert replicated.wait("second write")
    assert replicated.commit(2) == []
    assert replicated.commit(4) == ["write", "read"]
    assert (replicated.committed, replicated.committed_offset, replicated.newest) == (7, 3, 8)
    assert replicated.commit(5) == ["second write"]
    assert not replicated.wait("late read")


def test_a_lost_epoch_drops_what_was_not_committed() -> None:
    replicated: Replicated[int, str] = Replicated(0)
    replicated.appended(0, 1)
    replicated.wait("a")
    replicated.commit(0)
    replicated.appended(1, 2)
    replicated.wait("b")
    replicated.wait("c")
    assert replicated.roll_back() == ["b", "c"]
    assert (replicated.newest, replicated.newest_offset) == (1, 0)
    replicated.appended(1, 9)
    assert replicated.newest == 9
    replicated.wait("d")
    assert replicated.reset(100, 50) == ["d"]
    assert (replicated.newest, replicated.committed_offset) == (100, 50)


def test_offsets_never_go_back() -> None:
    waiters: OffsetWaiters[str] = OffsetWaiters()
    waiters.add(4, "a")
    with pytest.raises(ValueError, match="only grow"):
        waiters.add(3, "b")
    replicated: Replicated[int, str] = Replicated(0, offset=4)
    with pytest.raises(ValueError, match="only grow"):
        replicated.appended(4, 1)
    assert len(waiters) == 1
    assert waiters.fail_all() == ["a"]


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans())))
def test_nobody_is_answered_before_its_commit_and_everybody_once(steps: list[tuple[int, bool, bool]]) -> None:
    replicated: Replicated[int, int] = Replicated(0)
    waiting: list[int] = []
    answered: list[int] = []
    refused: list[int] = []
    for width, commits, loses in steps:
        replicated.appended(replicated.newest_offset + width, replicated.newest + 1)
        if replicated.wait(len(waiting)):
            waiting.append(replicated.newest_offset)
        if commits:
            done = replicated.commit(replicated.newest_offset - 1)
            assert all(waiting[w] <= replicated.newest_offset - 1 for w in done)
            answered += done
        if loses:
            refused += replicated.roll_back()
            assert replicated.newest == replicated.committed
    refused += replicated.roll_back()
    assert sorted(answered + refused) == list(range(len(waiting)))
