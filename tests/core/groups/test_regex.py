"""Patterns that a consumer may subscribe with, and those that it may not."""

from __future__ import annotations

import time

import pytest

from barnabas.core.groups.regex import TopicRegex
from barnabas.wire.errors import ApiError, ErrorCode

NAMES = ("orders", "orders-eu", "orders.us", "Orders", "payments", "zahlungen-öst")


@pytest.mark.parametrize(
    ("pattern", "want"),
    [
        ("orders", {"orders"}),
        ("order", set()),  # the whole name, not a part of it
        ("orders.*", {"orders", "orders-eu", "orders.us"}),
        (r"orders\..*", {"orders.us"}),
        ("(?i)ORDERS", {"orders", "Orders"}),
        ("orders|payments", {"orders", "payments"}),
        ("[a-z]+-[a-z]{2}", {"orders-eu"}),
        (r"\Qorders.us\E", {"orders.us"}),
        (r"\Q\C\E|\\C|orders", {"orders"}),
        ("zahlungen-.st", {"zahlungen-öst"}),
        ("[[:alpha:]]+", {"orders", "Orders", "payments"}),
        ("(?P<first>pay)ments", {"payments"}),
        (r"\p{Lu}.*", {"Orders"}),
        ("", set()),
        ("^orders$", {"orders"}),
    ],
)
def test_names_that_match(pattern: str, want: set[str]) -> None:
    assert TopicRegex(pattern).among(NAMES) == want


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "missing )"),
        ("[a", "missing ]"),
        ("a**", "bad repetition"),
        ("*", "no argument for repetition"),
        ("a{1001}", "invalid repetition size"),
        (r"(a)\1", "invalid escape"),
        ("(?=a)b", "invalid perl operator"),
        ("(?!a)b", "invalid perl operator"),
        ("(?<=a)b", "invalid perl operator"),
        ("a\\", "trailing"),
        (r"order\C", "a byte"),
        (r"\Qorder\E\\\C", "a byte"),
        ("a\ud800", "surrogate"),
    ],
)
def test_patterns_that_are_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ApiError, match=r"is not a valid regular expression") as refused:
        TopicRegex(pattern)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert reason in str(refused.value)


def test_a_refused_pattern_is_not_written_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ApiError):
        TopicRegex("(secret")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(.*a){12}", "(a?){500}a{500}"])
def test_no_pattern_makes_a_long_name_expensive(pattern: str) -> None:
    regex = TopicRegex(pattern)
    began = time.thread_time()
    regex.matches("a" * 249 + "!")
    assert time.thread_time() - began < 0.5
