"""How a process of ours logs: a line an event on standard error, colours on a terminal only.

Every logger is one of the standard library's, so that each has a level of its own that can be changed while the node
runs (BROKER_LOGGER configs), and the audit trail of `kafka.authorizer.logger` comes out as it is.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _left_out(name: str) -> Iterator[None]:
    """Let a package seem not to be installed, unless it is loaded already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # what the import system takes for "there is none"
    try:
        yield
    finally:
        del sys.modules[name]


with _left_out("rich"):  # structlog would load it for tracebacks that we print plainly: a tenth of the time to start
    import structlog
    from structlog.typing import Processor


def configure_logs() -> None:
    """Set the logs up once, at the level in BARNABAS_LOG (debug, info, warning, error; info unless set)."""
    level = logging.getLevelNamesMapping().get(os.environ.get("BARNABAS_LOG", "info").upper(), logging.INFO)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
