"""Everything anew in every rebalance: connectors, then tasks, one after the other to one member after the other.

Subprotocol `default`. A pure function of who is there and what there is to do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from barnabas.core.connect.assignment.work import (
    Capable,
    Shares,
    Unit,
    connector_of,
    connectors_of,
    in_order,
    tasks_of,
    units,
)


def share_out(work: Iterable[Unit], members: Collection[str], capable: Capable | None = None) -> Shares:
    """Give every member its part; `capable`: see there."""
    order = sorted(members)
    parts: dict[str, list[Unit]] = {member: [] for member in order}
    turn = 0
    for unit in in_order(work):
        who = _next(order, turn, connector_of(unit), capable)
        parts[order[who]].append(unit)
        turn = (who + 1) % len(order)
    shares = {member: units(connectors_of(part), tasks_of(part)) for member, part in parts.items()}
    return Shares(assigned=shares, owned=shares)


def _next(order: list[str], turn: int, connector: str, capable: Capable | None) -> int:
    if capable is None:
        return turn
    circle = (*range(turn, len(order)), *range(turn))
    return next((who for who in circle if capable(order[who], connector)), turn)
