"""Who is connected to a node, by which session, and how to end one: what `barnabas sessions` and tests ask."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.server.network.connection import Connection
    from barnabas.server.network.listeners import ServedListener


@dataclass(frozen=True, slots=True)
class Session:
    """A connection as of now.

    connection: its name, as in logs. mechanism: None without SASL. age_ms: since it was accepted. remaining_ms: how
    long the session may still be used, None for without end. reauthentications: how often it was renewed (KIP-368).
    """

    connection: str
    listener: str
    principal: str
    mechanism: str | None
    client_software_name: str
    client_software_version: str
    age_ms: int
    remaining_ms: int | None
    reauthentications: int


def sessions(listeners: Iterable[ServedListener]) -> Iterator[Session]:
    """Give what there is, oldest first on each listener; connections that have not logged in are left out."""
    now = asyncio.get_running_loop().time()
    for connection in _connections(listeners):
        client, gate = connection.client, connection.gate
        if client is None or (gate is not None and gate.principal is None):
            continue
        yield Session(
            connection=client.id,
            listener=client.listener_name,
            principal=str(client.principal),
            mechanism=None if gate is None else gate.mechanism,
            client_software_name=client.software_name,
            client_software_version=client.software_version,
            age_ms=int((now - connection.accepted_at) * 1000),
            remaining_ms=None if gate is None else gate.remaining_ms,
            reauthentications=0 if gate is None else gate.reauthentications,
        )


def expire(listeners: Iterable[ServedListener], connection: str) -> bool:
    """End a session now, as if its life were over; False when there is no SASL session of that name.

    The client may log in again on the connection; if it sends anything else first, the connection is closed.
    """
    for one in _connections(listeners):
        if one.client is not None and one.client.id == connection:
            if one.gate is None or one.gate.principal is None:
                return False
            one.gate.expire()
            return True
    return False


def _connections(listeners: Iterable[ServedListener]) -> Iterator[Connection]:
    for listener in listeners:
        yield from list(listener.connections)
