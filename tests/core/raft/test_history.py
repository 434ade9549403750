from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.raft.history import At, History


def test_values_hold_from_their_offset_on() -> None:
    history = History("static")
    assert history.last == At(-1, "static")
    history.add(3, "a")
    history.add(7, "b")
    assert [history.at(o) for o in (0, 2, 3, 6, 7, 100)] == ["static", "static", "a", "a", "b", "b"]
    history.truncate_to(7)
    assert history.last == At(3, "a")
    history.truncate_to(0)
    assert history.last == At(-1, "static")


def test_trimming_keeps_the_value_in_force() -> None:
    history = History(0)
    for offset in (1, 5, 9):
        history.add(offset, offset)
    history.trim_to(6)
    assert history.at(6) == 5
    assert history.at(9) == 9


def test_offsets_do_not_go_back() -> None:
    history = History(0)
    history.add(5, 1)
    history.add(5, 2)
    assert history.last == At(5, 2)
    with pytest.raises(ValueError):
        history.add(4, 3)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers()), max_size=20), st.integers(0, 60), st.integers(0, 60))
def test_it_agrees_with_a_plain_search(entries: list[tuple[int, int]], start: int, asked: int) -> None:
    history, naive = History(-1), {}
    for offset, value in sorted(entries, key=lambda e: e[0]):
        history.add(offset, value)
        naive[offset] = value
    history.trim_to(start)
    if asked >= start:
        known = [o for o in naive if o <= asked]
        assert history.at(asked) == (naive[max(known)] if known else -1)
