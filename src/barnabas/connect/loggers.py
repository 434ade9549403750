"""The worker's loggers and their levels, in Connect's words (KIP-495, KIP-976)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.connect.herder_port import BadRequestError, LoggerLevel
from barnabas.model.ports import Clock

ROOT: Final = "root"
LEVELS: Final[Mapping[str, int]] = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
    "ALL": 1,
}
"""The levels, the quietest first."""
_TELLTALE: Final = "py4j"
"""Below WARN it writes down whatever is handed to Spark, secrets among it: it is never heard below."""


class Loggers:
    """What has been set of them while the worker runs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._modified_ms: dict[str, int] = {}

    def levels(self) -> Mapping[str, LoggerLevel]:
        """Give the level in force of every logger, by name."""
        known = logging.root.manager.loggerDict
        found = {name: one for name, one in known.items() if isinstance(one, logging.Logger)}
        names = [ROOT, *sorted(found)]
        return {name: LoggerLevel(_name(_logger(name)), self._modified_ms.get(name)) for name in names}

    def set_level(self, namespace: str, level: str) -> Sequence[str]:
        """Set the level of a logger and those below it; give the names of those that had another.

        BadRequestError for a level unknown.
        """
        number = LEVELS.get(level.upper())
        if number is None:
            raise BadRequestError(f"{level!r} is not a level: want one of {', '.join(LEVELS)}")
        before = self.levels()
        below = {name for name in before if namespace == ROOT or name.startswith(namespace + ".")}
        names = sorted({namespace, *below})
        for name in names:
            quietest = logging.WARNING if name.split(".")[0] == _TELLTALE else number
            _logger(name).setLevel(max(number, quietest))
        now = self.levels()
        changed = [name for name in names if name not in before or before[name].level != now[name].level]
        self._modified_ms |= dict.fromkeys(changed, self._clock.now_ms())
        return changed


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def _name(logger: logging.Logger) -> str:
    number = logger.getEffectiveLevel()
    return next(name for name, value in LEVELS.items() if value <= number or name == "ALL")
