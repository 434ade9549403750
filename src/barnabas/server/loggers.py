"""The node's loggers and their levels, in Kafka's words: the BROKER_LOGGER resources of DescribeConfigs (KIP-412)."""

from __future__ import annotations

import logging
from typing import Final

ROOT: Final = "root"
_NAMES: Final = {"TRACE": 5, "DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING,
                 "ERROR": logging.ERROR, "FATAL": logging.CRITICAL}  # fmt: skip
LEVELS: Final = tuple(_NAMES)
"""The levels, the most talkative first."""


def levels() -> dict[str, str]:
    """Give the level in force of every logger, by name."""
    known = logging.root.manager.loggerDict
    found = {name: _name(one.getEffectiveLevel()) for name, one in known.items() if isinstance(one, logging.Logger)}
    return {ROOT: _name(logging.root.level), **dict(sorted(found.items()))}


def set_level(name: str, level: str | None) -> None:
    """Give a logger a level, or (None) that of the one above it; ValueError for a level or a logger unknown."""
    if level is not None and level not in _NAMES:
        raise ValueError(f"{level!r} is not a level: want one of {', '.join(LEVELS)}")
    if name not in levels():
        raise ValueError(f"there is no logger {name!r}")
    logger = logging.root if name == ROOT else logging.getLogger(name)
    logger.setLevel(logging.NOTSET if level is None else _NAMES[level])


def _name(number: int) -> str:
    fitting = [name for name, value in _NAMES.items() if value <= number]
    return fitting[-1] if fitting else LEVELS[0]
