"""What a SASL mechanism is to the machines that drive it: steps that take a token and give one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

SHOWN_CHARACTERS: Final = 100


@dataclass(frozen=True, slots=True)
class Challenge:
    """The exchange goes on: send `token` and wait for the peer's next one."""

    token: bytes


@dataclass(frozen=True, slots=True)
class Verified:
    """The peer is who it says it is. token: the last one for the peer; expiry: wall clock ms, None without end.

    attributes: what else the mechanism knows, for principal builders; the claims of an OAUTHBEARER token.
    """

    token: bytes
    user: str
    token_authenticated: bool = False
    credential_expiry_ms: int | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


class AuthenticationError(Exception):
    """The exchange ended without proof.

    detail: for our own log. public: what the peer may be told; None when any word could say too much about
    which users exist, and the peer then gets one sentence that is the same for all such failures.
    """

    def __init__(self, detail: str, public: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.public = public


class ServerMechanism(Protocol):
    """The server's half of one exchange; thrown away after `Verified` or `AuthenticationError`."""

    def step(self, token: bytes) -> Challenge | Verified:
        """Take the client's next token; AuthenticationError when it does not prove what it must."""
        ...


class ClientMechanism(Protocol):
    """The client's half of one exchange; it always speaks first."""

    def first(self) -> bytes:
        """Give the token that opens the exchange."""
        ...

    def step(self, challenge: bytes) -> bytes | None:
        """Take the server's token and give ours; None when the server has proven itself and nothing is left to say.

        AuthenticationError when the server's token is malformed or proves nothing.
        """
        ...

    @property
    def complete(self) -> bool:
        """Whether nothing more is expected from the server."""
        ...


def shown(text: str) -> str:
    """Give what a peer sent as it may stand in a log: quoted, and of bounded length."""
    return repr(text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "...")
