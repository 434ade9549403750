"""Where the lines of nodes in the test's process go, whatever other tests did before."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import capture_logs

from barnabas.testing.logs import log_by_logging_unless_told, logged_by_logging

log = structlog.get_logger("kafka.server.TestLogs")


@pytest.fixture(autouse=True)
def _untouched() -> Iterator[None]:
    """Begin with structlog as it ships, and leave it as it was."""
    before = structlog.get_config()
    structlog.reset_defaults()
    yield
    structlog.configure(**before)


def caught(caplog: pytest.LogCaptureFixture) -> list[tuple[str, object]]:
    """Give what a line of a node's logger leaves in the tests' own log."""
    caplog.clear()
    with caplog.at_level(logging.INFO):
        log.warning("said", topic="orders")
    return [(r.getMessage(), vars(r)["topic"]) for r in caplog.records]


def test_lines_are_caught_after_a_test_that_captured_its_own(caplog: pytest.LogCaptureFixture) -> None:
    with capture_logs() as lines:
        log.warning("early")
    assert len(lines) == 1
    assert structlog.is_configured()
    log_by_logging_unless_told()
    assert caught(caplog) == [("said", "orders")]


def test_who_has_said_where_lines_go_keeps_them(caplog: pytest.LogCaptureFixture) -> None:
    kept: list[structlog.typing.EventDict] = []

    def keep(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        kept.append(event)
        raise structlog.DropEvent

    structlog.configure(processors=[keep])
    log_by_logging_unless_told()
    assert caught(caplog) == []
    with logged_by_logging():
        assert caught(caplog) == [("said", "orders")]
    assert caught(caplog) == []
    assert [event["event"] for event in kept] == ["said", "said"]
