"""What a broker may offer of the APIs that it forwards: what both it and the active controller speak (KIP-590)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.wire.api_keys import ApiRow


class VersionRange(NamedTuple):
    """Versions of an API, both ends included."""

    lowest: int
    highest: int


def offered(
    rows: Iterable[ApiRow], forwarded: Iterable[ApiRow], controller: Mapping[int, tuple[int, int]] | None
) -> list[tuple[ApiRow, VersionRange]]:
    """Give the APIs that a broker's listener offers, by key.

    rows: everything it serves; forwarded: those of them that go to the controller; controller: what that speaks by
    API key, None while no controller is known: then our own ranges are offered.
    """
    goes_on = {row.key for row in forwarded}
    found = []
    for row in sorted(rows, key=lambda row: int(row.key)):
        own = VersionRange(row.min_version, row.max_version)
        if row.key in goes_on and controller is not None:
            theirs = controller.get(int(row.key))
            if theirs is None:
                continue
            own = VersionRange(max(own.lowest, theirs[0]), min(own.highest, theirs[1]))
            if own.lowest > own.highest:
                continue
        found.append((row, own))
    return found
