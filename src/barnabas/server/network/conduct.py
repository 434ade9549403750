"""How the sessions of a node's clients go, and who looks on: a seam for those who test clients.

`Node(config, conduct=...)` takes one; without it a node does as it is configured. Everything is called in the node's
loop, for clients of every listener, and must answer at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.model.ports import Clock
    from barnabas.model.principal import KafkaPrincipal
    from barnabas.server.context import ClientConnection
    from barnabas.server.network.session_limit import SessionLimit


class SessionConduct:
    """Does as configured and looks at nothing; override what is to be otherwise."""

    def clock(self, client: ClientConnection, clock: Clock) -> Clock:
        """Give the clock that a client's sessions are measured on. clock: the node's."""
        return clock

    def lifetime_ms(self, client: ClientConnection, limit: SessionLimit) -> int:
        """Give how long the session that begins now may last, 0 for without end. limit: what is configured."""
        return limit.ms

    def principal(self, client: ClientConnection, principal: KafkaPrincipal) -> KafkaPrincipal:
        """Give who has logged in, or is logging in again: `client.principal` is who it was."""
        return principal

    def answer_after_ms(self, client: ClientConnection) -> int:
        """Give how long an answer of a login that is not its last is held back: what a slow mechanism does."""
        return 0

    def opened(self, client: ClientConnection) -> None:
        """Somebody has connected to a listener with SASL."""

    def asked(self, client: ClientConnection, request: str) -> None:
        """A request of a login has come: SASL_HANDSHAKE, or SASL_AUTHENTICATE; bare tokens are not told."""

    def logged_in(self, client: ClientConnection, lifetime_ms: int | None, *, again: bool, knows: bool) -> None:
        """A session has begun. lifetime_ms: None for without end; again: on a connection that had one; knows: the
        client could be told when it ends (KIP-368)."""

    def refused(self, client: ClientConnection, why: str, *, again: bool) -> None:
        """A login has failed, and the connection is about to be closed."""

    def cut_off(self, client: ClientConnection, request: str) -> None:
        """A connection is being closed, as it was used for that request after the end of its session."""

    def ended(self, client: ClientConnection, reason: str) -> None:
        """A connection is gone. reason: the node's for closing it; empty when it was the client's doing."""
