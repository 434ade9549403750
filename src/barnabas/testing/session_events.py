"""What a node has seen of its clients' sessions: events, and what became of each connection. Values only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum, auto
from typing import Final


class Kind(StrEnum):
    """What happened on a connection."""

    OPENED = auto()
    TRIED = auto()
    """A login has begun: a SaslHandshake has come, the first or a further one."""
    LOGGED_IN = auto()
    RENEWED = auto()
    REFUSED = auto()
    """A first login has failed."""
    RENEWAL_REFUSED = auto()
    CUT_OFF = auto()
    """The node has closed it, because it was used after the end of its session."""
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """at_ms: since the node began. connection: its name. principal: who it is by then. software: as the client says.

    detail: why a login was refused, which request came too late, or why the node closed it. lifetime_ms: of the session
    that begins, None for without end. knows: the client could be told of the session's end (KIP-368).
    """

    at_ms: int
    connection: str
    kind: Kind
    principal: str = ""
    software: str = ""
    detail: str = ""
    lifetime_ms: int | None = None
    knows: bool = True


@dataclass(frozen=True, slots=True)
class SeenConnection:
    """A connection from its begin on. sessions: those begun on it; cut_off: the request that came too late."""

    name: str
    opened_at_ms: int
    principal: str = ""
    software: str = ""
    knows: bool = True
    sessions: int = 0
    refused: str | None = None
    cut_off: str | None = None
    ended: bool = False

    @property
    def renewals(self) -> int:
        """Give how often its session was renewed."""
        return max(0, self.sessions - 1)


_BEGINS: Final = frozenset({Kind.LOGGED_IN, Kind.RENEWED})
_REFUSALS: Final = frozenset({Kind.REFUSED, Kind.RENEWAL_REFUSED})


def connections(events: Iterable[SessionEvent]) -> list[SeenConnection]:
    """Give the connections in the order of their begin."""
    found: dict[str, SeenConnection] = {}
    for event in events:
        one = found.get(event.connection) or SeenConnection(event.connection, event.at_ms)
        found[event.connection] = _after(one, event)
    return list(found.values())


def count(events: Iterable[SessionEvent], *kinds: Kind) -> int:
    """Give how many of the events are of these kinds."""
    return sum(event.kind in kinds for event in events)


def _after(one: SeenConnection, event: SessionEvent) -> SeenConnection:
    if event.kind in _BEGINS:
        return replace(
            one,
            sessions=one.sessions + 1,
            principal=event.principal,
            software=event.software or one.software,
            knows=event.knows,
        )
    if event.kind in _REFUSALS:
        return replace(one, refused=event.detail)
    if event.kind is Kind.CUT_OFF:
        return replace(one, cut_off=event.detail)
    return replace(one, ended=one.ended or event.kind is Kind.ENDED)
