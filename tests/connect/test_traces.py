"""What a trace comes to in one line."""

from __future__ import annotations

import traceback

import pytest

from barnabas.connect.traces import gist

JAVA = "org.example.ConnectException: no such table\n\tat org.example.Sink.put(Sink.java:1)\nCaused by: java.io.E"


def trace_of(error: Exception, cause: Exception | None = None) -> str:
    try:
        raise error from cause
    except (ValueError, OSError) as raised:
        return "".join(traceback.format_exception(raised))


@pytest.mark.parametrize(
    ("trace", "line"),
    [
        (JAVA, "org.example.ConnectException: no such table"),
        (trace_of(ValueError("no such table")), "ValueError: no such table"),
        (trace_of(ValueError("no such table"), OSError(28, "full")), "ValueError: no such table"),
        (trace_of(ValueError(f"no such table\n{JAVA}")), "ValueError: no such table"),
        ("", ""),
    ],
)
def test_a_trace_comes_to_what_was_raised(trace: str, line: str) -> None:
    assert gist(trace) == line
