"""Where the log lines of nodes in the test's process go: where the tests' own go, through `logging`.

pytest's `caplog` catches them then, each with what it tells as attributes of the record.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog


def log_by_logging() -> None:
    """Let nodes log through `logging` from now on."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            structlog.stdlib.render_to_log_kwargs,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )


def log_by_logging_unless_told() -> None:
    """Let nodes log through `logging`, unless the tests have said where structlog's lines go."""
    if _is_as_shipped():
        log_by_logging()


@contextmanager
def logged_by_logging() -> Iterator[None]:
    """Let nodes log through `logging` in this block, whatever was said before, and as before after it."""
    before = structlog.get_config()
    log_by_logging()
    try:
        yield
    finally:
        structlog.configure(**before)


def _is_as_shipped() -> bool:
    """Say whether structlog is as it ships.

    `structlog.is_configured` does not: it is true for good after a `capture_logs`, which leaves everything as it was.
    """
    if not structlog.is_configured():
        return True
    found = structlog.get_config()
    structlog.reset_defaults()
    shipped = structlog.get_config()
    structlog.configure(**found)
    return found == shipped
