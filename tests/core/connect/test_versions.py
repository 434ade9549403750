"""Versions in Maven's order, ranges of them, and what is neither."""

from __future__ import annotations

from itertools import combinations

import pytest

from barnabas.core.connect.versions import MAX_LENGTH, BadVersionError, Version, VersionRange


def test_versions_are_in_mavens_order() -> None:
    in_order = ["1.0-alpha", "1.0-b2", "1.0-m1", "1.0-rc1", "1.0-SNAPSHOT", "1.0", "1.0-sp", "1.0-x", "1.0-1", "1.0.1"]
    for one, other in combinations(in_order, 2):
        assert Version(one) < Version(other)
        assert not Version(other) < Version(one)


@pytest.mark.parametrize("text", ["1", "1.0", "1.0.0", "1-ga", "1.0-FINAL", "1.release", "01"])
def test_the_same_version_has_many_spellings(text: str) -> None:
    assert Version(text) == Version("1.0")


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        ("1.0", ["1.0"]),
        (" [1.0] ", ["1.0"]),
        ("[1.0,2.0)", ["1.0", "1.9"]),
        ("(1.0,2.0]", ["1.9", "2.0"]),
        ("[1.5,)", ["1.9", "2.0", "3"]),
        ("(,1.0],[3,)", ["1.0", "3"]),
        ("", []),
    ],
)
def test_a_range_takes_what_is_in_it(wanted: str, taken: list[str]) -> None:
    found = VersionRange.wanted(wanted)
    assert found is not None
    assert [each for each in ("1.0", "1.9", "2.0", "3") if each in found] == taken


@pytest.mark.parametrize("wanted", [None, "latest"])
def test_the_latest_is_no_range(wanted: str | None) -> None:
    assert VersionRange.wanted(wanted) is None


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("[1.0", "a bracket that nothing closes"),
        ("(1.0)", "stands in square brackets"),
        ("[2,1]", "no version is in"),
        ("(1,1]", "no version is in"),
        ("[1,3],[2,4]", "overlap"),
        ("[1],2", "'2' stands outside"),
        ("1-" * MAX_LENGTH, "at most"),
    ],
)
def test_what_is_no_range_says_why(wanted: str, why: str) -> None:
    with pytest.raises(BadVersionError, match=why):
        VersionRange.wanted(wanted)
