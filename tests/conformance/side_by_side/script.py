"""`@side_by_side`: a test out of a script that is run on both nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from .side import Side

if TYPE_CHECKING:
    from .conftest import Both


SCRIPTS: Final[set[Callable[[Side], None]]] = set()
"""Every script of the modules that are loaded."""


def side_by_side(script: Callable[[Side], None]) -> Callable[[Both], None]:
    """Make a test of a script: what it calls must be answered alike by Apache Kafka and by Barnabas."""

    SCRIPTS.add(script)

    def test(both: Both) -> None:
        both.run(script)

    test.__name__, test.__doc__, test.__module__ = script.__name__, script.__doc__, script.__module__
    return test
