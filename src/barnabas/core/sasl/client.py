"""The client's side of SASL on a connection: which request to send next.

States: SEND_HANDSHAKE -> AUTHENTICATE -> COMPLETE, or FAILED. The shell sends what `next_request` holds as
SaslHandshake v1 or SaslAuthenticate, and feeds back the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from barnabas.core.sasl.exchange import AuthenticationError, ClientMechanism
from barnabas.core.sasl.mechanisms import plain
from barnabas.core.sasl.mechanisms.plain import PlainClient
from barnabas.core.sasl.mechanisms.scram import ALGORITHMS, NewNonce, ScramClient

_NONE: Final = 0
_UNSUPPORTED_SASL_MECHANISM: Final = 33


class ClientState(Enum):
    """Where the client stands."""

    SEND_HANDSHAKE = auto()
    AUTHENTICATE = auto()
    COMPLETE = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class SendHandshake:
    """Send SaslHandshake v1 with this mechanism."""

    mechanism: str


@dataclass(frozen=True, slots=True)
class SendToken:
    """Send SaslAuthenticate, newest common version, with this token."""

    token: bytes


def client_mechanism(
    name: str, user: str, password: str, new_nonce: NewNonce, *, by_token: bool = False
) -> ClientMechanism:
    """Give the client's half of the mechanism called `name`; ValueError when there is none.

    by_token: user and password are a delegation token's id and HMAC, which only SCRAM knows.
    """
    if by_token and name not in ALGORITHMS:
        raise ValueError(f"sasl.mechanism={name} takes no delegation tokens: want one of {', '.join(ALGORITHMS)}")
    if name == plain.NAME:
        return PlainClient(user, password)
    if name in ALGORITHMS:
        return ScramClient(ALGORITHMS[name], user, password, new_nonce, by_token=by_token)
    raise ValueError(f"sasl.mechanism={name}: not one of {', '.join((plain.NAME, *ALGORITHMS))}")


class SaslClient:
    """One authentication of one connection."""

    __slots__ = ("_mechanism", "_name", "next_request", "session_lifetime_ms", "state")

    def __init__(self, name: str, mechanism: ClientMechanism) -> None:
        self._name = name
        self._mechanism = mechanism
        self.state = ClientState.SEND_HANDSHAKE
        self.next_request: SendHandshake | SendToken | None = SendHandshake(name)
        """What to send now; None when COMPLETE or FAILED."""
        self.session_lifetime_ms = 0
        """How long the session may be used, as the server said; 0: without end (KIP-368)."""

    def handshake_answered(self, error_code: int, mechanisms: Sequence[str]) -> None:
        """Take the SaslHandshake response; AuthenticationError unless the server knows the mechanism."""
        self._expect(ClientState.SEND_HANDSHAKE)
        if error_code == _UNSUPPORTED_SASL_MECHANISM:
            self._fail(f"the server does not offer {self._name}; it offers {', '.join(sorted(mechanisms))}")
        if error_code != _NONE:
            self._fail(f"the server refused the SASL handshake with error {error_code}")
        self.state = ClientState.AUTHENTICATE
        self.next_request = SendToken(self._mechanism.first())

    def token_answered(
        self, error_code: int, error_message: str | None, token: bytes, session_lifetime_ms: int = 0
    ) -> None:
        """Take the SaslAuthenticate response; AuthenticationError when either side is not convinced."""
        self._expect(ClientState.AUTHENTICATE)
        if error_code != _NONE:
            self._fail(error_message or f"authentication failed with error {error_code}")
        try:
            reply = self._mechanism.step(token)
        except AuthenticationError as e:
            self._fail(e.detail)
        if self._mechanism.complete:
            self.state = ClientState.COMPLETE
            self.next_request = None
            self.session_lifetime_ms = session_lifetime_ms
        else:
            self.next_request = SendToken(reply or b"")

    def _expect(self, state: ClientState) -> None:
        if self.state is not state:
            raise RuntimeError(f"SASL answer fed in state {self.state.name}, wanted {state.name}")

    def _fail(self, why: str) -> None:
        self.state = ClientState.FAILED
        self.next_request = None
        raise AuthenticationError(why, public=why)
