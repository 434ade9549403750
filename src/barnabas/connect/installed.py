"""Plug-ins that other packages bring by entry points: connectors, converters, transformations, predicates."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Final, TypeVar

import structlog

log = structlog.get_logger("kafka.connect.plugins")

CONNECTORS: Final = "barnabas.connectors"
CONVERTERS: Final = "barnabas.converters"
TRANSFORMS: Final = "barnabas.transforms"
PREDICATES: Final = "barnabas.predicates"
T = TypeVar("T")


def installed(group: str, base: type[T]) -> Iterator[tuple[str, type[T]]]:
    """Give name and class of each entry point of a group.

    One that cannot be loaded, or is no subclass of `base`, is logged and left out: it must not keep the worker from
    what else it has to do.
    """
    for point in entry_points(group=group):
        try:
            found = point.load()
        except Exception:  # somebody else's code
            log.error("a plug-in cannot be loaded", group=group, entry_point=point.name, exc_info=True)
            continue
        if isinstance(found, type) and issubclass(found, base):
            yield point.name, found
        else:
            wanted = f"{base.__module__}.{base.__qualname__}"
            log.error("a plug-in is of the wrong kind", group=group, entry_point=point.name, wanted=wanted)
