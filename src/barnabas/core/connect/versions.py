"""Versions of plug-ins and ranges of them, as Maven orders and writes them (KIP-891)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import total_ordering
from itertools import pairwise, zip_longest
from typing import Final, Self, TypeAlias

LATEST: Final = "latest"
MAX_LENGTH: Final = 200
"""Of a version, in characters: each dash nests what follows it once more."""
_TOKEN: Final = re.compile(r"[.-]|\d+|[^.\-\d]+")
_SEPARATORS: Final = (".", "-")
_QUALIFIERS: Final = ("alpha", "beta", "milestone", "rc", "snapshot", "", "sp")
_RELEASE: Final = str(_QUALIFIERS.index(""))
_ALIASES: Final = {"ga": "", "final": "", "release": "", "cr": "rc"}
_SHORT: Final = {"a": "alpha", "b": "beta", "m": "milestone"}
_Item: TypeAlias = "int | str | list[_Item]"


class BadVersionError(ValueError):
    """What is written is neither a version nor a range of versions; the message says why."""


@total_ordering
class Version:
    """A version: numbers and words, `1.0-rc1 < 1.0-SNAPSHOT < 1 = 1.0 = 1.0-ga < 1.0-sp < 1.0-x < 1.0-1 < 1.0.1`."""

    __slots__ = ("_items", "text")

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise BadVersionError(f"a version has at most {MAX_LENGTH} characters")
        self.text = text
        self._items = _parsed(text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and _compared(self._items, other._items) == 0

    def __lt__(self, other: Version) -> bool:
        return _compared(self._items, other._items) < 0

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class _Interval:
    """lower, upper: None for no bound."""

    lower: Version | None
    takes_lower: bool
    upper: Version | None
    takes_upper: bool

    def __contains__(self, version: Version) -> bool:
        if self.lower is not None and (version < self.lower or (version == self.lower and not self.takes_lower)):
            return False
        return self.upper is None or version < self.upper or (version == self.upper and self.takes_upper)


@dataclass(frozen=True, slots=True)
class VersionRange:
    """One or more intervals, `[1.0,2.0)` or `(,1.0],[1.2,)`; `[1.0]` and a bare `1.0` are that version alone."""

    text: str
    intervals: tuple[_Interval, ...]

    @classmethod
    def wanted(cls, text: str | None) -> Self | None:
        """Give the range that a setting asks for, None where it takes the latest version; BadVersionError."""
        if text is None or text == LATEST:
            return None
        bare = text.strip()
        return cls.parse(bare if bare.startswith(("[", "(")) else f"[{bare}]")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Give a range that is written with its brackets; BadVersionError."""
        intervals: list[_Interval] = []
        rest = text
        while rest.startswith(("[", "(")):
            end = min((at for at in (rest.find(")"), rest.find("]")) if at >= 0), default=None)
            if end is None:
                raise BadVersionError(f"the range {text!r} has a bracket that nothing closes")
            interval = _interval(rest[: end + 1])
            if intervals and _overlap(intervals[-1], interval):
                raise BadVersionError(f"the range {text!r} has parts that overlap, or are out of order")
            intervals.append(interval)
            rest = rest[end + 1 :].strip().removeprefix(",").strip()
        if rest:
            raise BadVersionError(f"in the range {text!r}, {rest!r} stands outside of brackets")
        return cls(text, tuple(intervals))

    def __contains__(self, version: str) -> bool:
        asked = Version(version)
        return any(asked in interval for interval in self.intervals)

    def __str__(self) -> str:
        return self.text


def _interval(text: str) -> _Interval:
    takes_lower, takes_upper = text[0] == "[", text[-1] == "]"
    first, comma, second = text[1:-1].partition(",")
    lower, upper = _bound(first), _bound(second)
    if not comma:
        if not (takes_lower and takes_upper):
            raise BadVersionError(f"one version alone stands in square brackets, not {text!r}")
        only = Version(first.strip())
        return _Interval(only, True, only, True)
    if lower is not None and upper is not None:
        empty = lower == upper and not (takes_lower and takes_upper)
        if upper < lower or empty:
            raise BadVersionError(f"no version is in {text!r}")
    return _Interval(lower, takes_lower, upper, takes_upper)


def _bound(text: str) -> Version | None:
    return Version(text.strip()) if text.strip() else None


def _overlap(one: _Interval, other: _Interval) -> bool:
    # After a part without an upper bound Maven takes any other.
    return one.upper is not None and (other.lower is None or other.lower < one.upper)


def _parsed(text: str) -> list[_Item]:
    """Take a version apart: each dash, and each change between letters and digits, opens a list in the list."""
    lists: list[list[_Item]] = [[]]
    tokens = ["", *_TOKEN.findall(text.lower()), ""]
    for (before, token), (_, after) in pairwise(pairwise(tokens)):
        if token in _SEPARATORS:
            if before in ("", *_SEPARATORS):
                lists[-1].append(0)
            if token == "-":
                _nest(lists)
        elif token[0].isdecimal():
            lists[-1].append(int(token))
            if after not in ("", *_SEPARATORS):
                _nest(lists)
        else:
            _add_word(lists, token, after)
    for one in reversed(lists):
        _trim(one)
    return lists[0]


def _nest(lists: list[list[_Item]]) -> None:
    inner: list[_Item] = []
    lists[-1].append(inner)
    lists.append(inner)


def _add_word(lists: list[list[_Item]], word: str, after: str) -> None:
    numbered = after[:1].isdecimal()
    if lists[-1] and (numbered or not after):
        _nest(lists)
    lists[-1].append(_qualifier(word, numbered=numbered))
    if numbered:
        _nest(lists)


def _qualifier(word: str, *, numbered: bool) -> str:
    whole = _SHORT.get(word, word) if numbered else word
    return _ALIASES.get(whole, whole)


def _trim(items: list[_Item]) -> None:
    """Take away what says nothing at the end, and before lists at the end: zeros, releases, empty lists."""
    for at in range(len(items) - 1, -1, -1):
        if items[at] in (0, "", []):
            del items[at]
        elif not isinstance(items[at], list):
            return


def _compared(one: _Item | None, other: _Item | None) -> int:
    """Give a number below, at or above 0. None is what a shorter version does not have."""
    if one is None:
        return 0 if other is None else -_compared(other, None)
    if other is None:
        return _against_nothing(one)
    if isinstance(one, list) and isinstance(other, list):
        return _first(_compared(a, b) for a, b in zip_longest(one, other))
    if isinstance(one, str) and isinstance(other, str):
        return _sign(_rank(one), _rank(other))
    if isinstance(one, int) and isinstance(other, int):
        return _sign(one, other)
    return _sign(_kind(one), _kind(other))


def _against_nothing(item: _Item) -> int:
    if isinstance(item, list):
        return _first(_compared(each, None) for each in item)
    return _sign(_rank(item), _RELEASE) if isinstance(item, str) else int(item > 0)


def _kind(item: _Item) -> int:
    return 0 if isinstance(item, str) else 1 if isinstance(item, list) else 2


def _rank(word: str) -> str:
    return str(_QUALIFIERS.index(word)) if word in _QUALIFIERS else f"{len(_QUALIFIERS)}-{word}"


def _sign(one: int | str, other: int | str) -> int:
    return (one > other) - (one < other)  # type: ignore[operator]


def _first(results: Iterable[int]) -> int:
    return next((result for result in results if result), 0)
