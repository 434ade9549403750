"""The checks of a chaos run find what was planted, and nothing in a run where all went well."""

from __future__ import annotations

import pytest

from tests.chaos.checks import (
    CHECKS,
    Check,
    Outcome,
    all_wrong,
    duplicated,
    lost,
    lost_changes,
    lost_commits,
    not_controller,
    phantoms,
    reordered,
    shown,
    surprises,
    unread,
)
from tests.chaos.history import Acknowledged, Consumed, History, Mark, TakenOver


class Run:
    """Two writers, one group, two topics, and nothing went wrong; tests spoil it."""

    def __init__(self) -> None:
        self.history = History()
        self.log = [(0, Mark("a", 0)), (1, Mark("b", 0)), (2, Mark("a", 1)), (4, Mark("b", 1)), (5, Mark("a", 3))]
        self.history.acknowledged += [Acknowledged(0, mark, offset, 1.0) for offset, mark in self.log]
        self.history.failed.append((0, Mark("a", 2), "timed out"))
        self.history.consumed += [Consumed("g", "m1", 0, offset, mark) for offset, mark in self.log]
        self.history.consumed.append(Consumed("g", "m2", 0, 5, Mark("a", 3)))
        self.history.commit("g", 0, 2)
        self.history.commit("g", 0, 5)
        self.history.taken_over.append(TakenOver("g", "m2", 0, 5, 5))
        self.history.item("topic", "there").acknowledged("3")
        self.history.item("topic", "gone").acknowledged("1")
        self.history.item("topic", "gone").acknowledged(None)
        self.history.item("topic", "perhaps").unsure("1")
        self.history.changes = 3
        self.history.errors["admin: REQUEST_TIMED_OUT"] += 1
        self.items: dict[tuple[str, str], str | None] = {("topic", "there"): "3"}
        self.position = 6

    def wrong(self) -> set[Check]:
        """Give the checks that found something."""
        outcome = Outcome({0: self.log}, {("g", 0): self.position}, {"broker 1": self.items})
        return {check for check in CHECKS if check(self.history, outcome)}


@pytest.fixture
def run() -> Run:
    return Run()


def test_nothing_is_found_where_nothing_is_wrong(run: Run) -> None:
    assert run.wrong() == set()
    assert all_wrong(run.history, Outcome({0: run.log})) == {}


def test_a_lost_record_is_found(run: Run) -> None:
    del run.log[3]
    assert run.wrong() == {lost, phantoms}


def test_a_lost_record_that_nobody_read_is_found(run: Run) -> None:
    run.history.consumed = [c for c in run.history.consumed if c.mark != Mark("b", 1)]
    del run.log[3]
    assert run.wrong() == {lost, unread}


def test_a_record_at_another_offset_is_found(run: Run) -> None:
    run.log[4] = (7, Mark("a", 3))
    assert run.wrong() == {lost, phantoms}


def test_a_duplicate_is_found(run: Run) -> None:
    run.log.append((6, Mark("a", 3)))
    assert run.wrong() == {duplicated}


def test_a_duplicate_of_what_was_never_acknowledged_is_found(run: Run) -> None:
    run.log += [(6, Mark("b", 2)), (7, Mark("b", 2))]
    assert run.wrong() == {duplicated}


def test_a_changed_order_is_found(run: Run) -> None:
    run.log.append((6, Mark("a", 2)))
    assert run.wrong() == {reordered}


def test_offsets_that_fall_are_found(run: Run) -> None:
    run.log.append((3, Mark("c", 0)))
    assert run.wrong() == {reordered}


def test_a_record_that_was_shown_too_early_is_found(run: Run) -> None:
    run.history.consumed.append(Consumed("g", "m1", 0, 6, Mark("b", 2)))
    assert run.wrong() == {phantoms}


def test_what_a_group_was_never_given_is_found(run: Run) -> None:
    run.history.acknowledged.append(Acknowledged(0, Mark("b", 2), 6, 2.0))
    run.log.append((6, Mark("b", 2)))
    assert run.wrong() == {unread}


def test_a_group_that_fell_back_is_found(run: Run) -> None:
    run.history.taken_over.append(TakenOver("g", "m3", 0, 2, 5))
    assert run.wrong() == {lost_commits}


def test_a_commit_that_is_gone_in_the_end_is_found(run: Run) -> None:
    run.position = -1
    assert run.wrong() == {lost_commits}


def test_a_lost_topic_is_found(run: Run) -> None:
    del run.items["topic", "there"]
    assert run.wrong() == {lost_changes}


def test_a_topic_that_came_back_is_found(run: Run) -> None:
    run.items["topic", "gone"] = "1"
    assert run.wrong() == {lost_changes}


def test_a_change_of_which_nobody_knows_may_be_there_or_not(run: Run) -> None:
    run.items["topic", "perhaps"] = "1"
    assert run.wrong() == set()
    run.items["topic", "perhaps"] = "2"
    assert run.wrong() == {lost_changes}


def test_a_value_that_went_back_is_found(run: Run) -> None:
    run.history.item("config", "there").acknowledged("1000")
    run.history.item("config", "there").acknowledged("2000")
    run.items["config", "there"] = "1000"
    assert run.wrong() == {lost_changes}


def test_a_client_that_was_told_not_controller_is_found(run: Run) -> None:
    run.history.error("admin", "NOT_CONTROLLER")
    assert run.wrong() == {not_controller}


def test_surprises_are_told(run: Run) -> None:
    run.history.surprises.append("node 1 ended by itself")
    assert run.wrong() == {surprises}


def test_marks_survive_the_wire_and_strangers_are_noticed() -> None:
    assert Mark.decode(Mark("ours-1", 17).encode()) == Mark("ours-1", 17)
    with pytest.raises(ValueError, match="none of ours"):
        Mark.decode(b"hello")


def test_only_the_first_few_are_shown() -> None:
    assert shown(str(n) for n in range(7)) == "    0\n    1\n    2\n    3\n    4\n    ... and 2 more"
