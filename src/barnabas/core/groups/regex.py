"""Regular expressions that consumers subscribe with (KIP-848): RE2's, which match in time linear in the name.

Kafka compiles them with RE2/J, of the same syntax: no back references, no look-around, at most a thousand
repetitions. A pattern of a client runs in the coordinator's loop, so no engine that backtracks will do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import re2

from barnabas.wire.errors import ApiError, ErrorCode


class TopicRegex:
    """A compiled pattern of topic names."""

    __slots__ = ("_compiled", "pattern")

    def __init__(self, pattern: str) -> None:
        """ApiError INVALID_REGULAR_EXPRESSION when the pattern is none that RE2 knows, or is too big."""
        self.pattern: Final = pattern
        if "\\C" in pattern and _SINGLE_BYTE.match(pattern):
            raise ApiError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: \\C is a byte, not a character.",
            )
        try:
            self._compiled: Final[Any] = re2.compile(pattern, _OPTIONS)
        except (re2.error, UnicodeEncodeError) as e:
            raise ApiError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {_reason(e)}.",
            ) from e

    def matches(self, name: str) -> bool:
        """Say whether the whole name matches."""
        return self._compiled.fullmatch(name) is not None

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Give the names that match."""
        return frozenset(name for name in names if self.matches(name))


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False  # it would write what clients send to standard error
    options.never_capture = True  # nobody asks for groups, and matching is faster without
    return options


_OPTIONS: Final = _options()
_SINGLE_BYTE: Final = re2.compile(r"(?s)(?:\\Q.*?(?:\\E|$)|\\[^CQ]|[^\\])*\\C", _OPTIONS)
r"""Finds \C outside of \Q...\E: RE2 knows it, RE2/J refuses it."""


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(error)
