"""Each check finds what it is for, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.chaos.checks import Log
from tests.chaos.history import Mark
from tests.chaos.loops.checks import Outcome, all_wrong, duplicated, lost, phantoms, reordered, surprises


def log(*numbers: int, gap: int = 0) -> Log:
    """Give a log of these numbers. gap: offsets between any two, as markers and what was aborted leave them."""
    return [(n * (gap + 1), Mark("feeder", number)) for n, number in enumerate(numbers)]


def outcome(target: Log, shown: Log | None = None, surprises: Sequence[str] = ()) -> Outcome:
    return Outcome(
        {"orders": {0: log(0, 1, 2, 3)}, "checked": {0: log(0, 1, 2, 3, gap=1)}, "billed": {0: target}},
        {"billed": {0: target if shown is None else shown}},
        tuple(surprises),
    )


def found(what: Outcome) -> set[str]:
    return {check.__name__ for check in (lost, duplicated, reordered, phantoms, surprises) if check(what)}


@pytest.mark.parametrize("gap", [0, 3])
def test_all_is_well(gap: int) -> None:
    assert not all_wrong(outcome(log(0, 1, 2, 3, gap=gap)))


def test_a_lost_record() -> None:
    assert found(outcome(log(0, 1, 3))) == {"lost"}


def test_a_record_that_is_there_twice() -> None:
    assert found(outcome(log(0, 1, 1, 2, 3))) == {"duplicated"}


def test_records_that_come_back_later() -> None:
    assert found(outcome(log(0, 1, 2, 1, 2, 3))) == {"duplicated", "reordered"}


def test_records_in_another_order() -> None:
    assert found(outcome(log(0, 2, 1, 3))) == {"reordered"}


def test_a_record_that_was_never_in_the_source() -> None:
    assert found(outcome(log(0, 1, 2, 3, 9))) == {"duplicated"}


def test_a_record_that_was_shown_and_is_gone() -> None:
    assert found(outcome(log(0, 1, 2, 3), shown=log(0, 1, 2, 3, 4))) == {"phantoms"}


def test_a_record_that_was_not_shown() -> None:
    assert found(outcome(log(0, 1, 2, 3), shown=log(0, 1, 2))) == {"phantoms"}


def test_a_surprise() -> None:
    assert found(outcome(log(0, 1, 2, 3), surprises=["a loop ended"])) == {"surprises"}
