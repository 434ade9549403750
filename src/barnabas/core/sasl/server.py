"""The server's side of SASL on a connection (KIP-12, KIP-43, KIP-152, KIP-368).

States:

- INITIAL_REQUEST: nothing asked yet; ApiVersions or SaslHandshake may come.
- HANDSHAKE_REQUEST: ApiVersions is answered; only SaslHandshake may come.
- AUTHENTICATE: a mechanism is chosen; tokens come, in SaslAuthenticate after SaslHandshake v1, bare after v0.
- COMPLETE: the peer is known. A further SaslHandshake begins again where the session has an end.
- BAD_MECHANISM: it began again with another mechanism; whatever comes next fails.
- FAILED: nothing more is served.

`TRANSITIONS` is the whole of it; the methods of `SaslServer` only say which event a request is, and what to answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NoReturn

from barnabas.core.sasl.exchange import AuthenticationError, ServerMechanism, Verified, shown
from barnabas.core.sasl.session import session_lifetime_ms
from barnabas.model.principal import USER_TYPE, KafkaPrincipal
from barnabas.wire.errors import ErrorCode


class SaslState(Enum):
    """Where a connection stands."""

    INITIAL_REQUEST = auto()
    HANDSHAKE_REQUEST = auto()
    AUTHENTICATE = auto()
    COMPLETE = auto()
    BAD_MECHANISM = auto()
    FAILED = auto()


class Event(Enum):
    """What a request turned out to be."""

    VERSIONS_GIVEN = auto()
    VERSIONS_REFUSED = auto()
    MECHANISM_CHOSEN = auto()
    MECHANISM_UNKNOWN = auto()
    MECHANISM_CHANGED = auto()
    CHALLENGED = auto()
    VERIFIED = auto()
    REFUSED = auto()


_S, _E = SaslState, Event
TRANSITIONS: Final[dict[tuple[SaslState, Event], SaslState]] = {
    (_S.INITIAL_REQUEST, _E.VERSIONS_GIVEN): _S.HANDSHAKE_REQUEST,
    (_S.INITIAL_REQUEST, _E.VERSIONS_REFUSED): _S.INITIAL_REQUEST,
    (_S.INITIAL_REQUEST, _E.MECHANISM_CHOSEN): _S.AUTHENTICATE,
    (_S.INITIAL_REQUEST, _E.MECHANISM_UNKNOWN): _S.FAILED,
    (_S.HANDSHAKE_REQUEST, _E.MECHANISM_CHOSEN): _S.AUTHENTICATE,
    (_S.HANDSHAKE_REQUEST, _E.MECHANISM_UNKNOWN): _S.FAILED,
    (_S.AUTHENTICATE, _E.CHALLENGED): _S.AUTHENTICATE,
    (_S.AUTHENTICATE, _E.VERIFIED): _S.COMPLETE,
    (_S.AUTHENTICATE, _E.REFUSED): _S.FAILED,
    # Only where the session has an end (KIP-368); mechanism and principal must stay.
    (_S.COMPLETE, _E.MECHANISM_CHOSEN): _S.AUTHENTICATE,
    (_S.COMPLETE, _E.MECHANISM_UNKNOWN): _S.FAILED,
    (_S.COMPLETE, _E.MECHANISM_CHANGED): _S.BAD_MECHANISM,
}
"""Any pair not listed is an illegal state: answered with ILLEGAL_SASL_STATE, or the connection is closed."""


class SaslStateError(Exception):
    """A request came that this state does not know.

    answer: whether to say ILLEGAL_SASL_STATE, in the response that belongs to the request; close: whether the
    connection ends with it.
    """

    def __init__(self, detail: str, *, answer: bool, close: bool) -> None:
        super().__init__(detail)
        self.answer = answer
        self.close = close


@dataclass(frozen=True, slots=True)
class HandshakeReply:
    """What to answer a SaslHandshake. failure: for the log; set when the connection ends with this answer."""

    error: ErrorCode
    mechanisms: tuple[str, ...]
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class TokenReply:
    """What to answer a token. After SaslHandshake v0 only `token` is sent, and nothing at all after a failure."""

    error: ErrorCode
    message: str | None
    token: bytes
    session_lifetime_ms: int = 0
    failure: str | None = None


class SaslServer:
    """One connection's authentication."""

    __slots__ = (
        "_enabled", "_max_reauth_ms", "_mechanism", "_new_mechanism", "_with_headers",
        "expires_at_ms", "mechanism_name", "principal", "state",
    )  # fmt: skip

    def __init__(
        self,
        enabled: Sequence[str],
        new_mechanism: Callable[[str], ServerMechanism],
        max_reauth_ms: Callable[[str], int] = lambda mechanism: 0,
    ) -> None:
        """enabled: names of mechanisms; new_mechanism: begins an exchange of one of them; max_reauth_ms: how long a
        session of a mechanism may last, 0 without end."""
        self._enabled = tuple(enabled)
        self._new_mechanism = new_mechanism
        self._max_reauth_ms = max_reauth_ms
        self._mechanism: ServerMechanism | None = None
        self._with_headers = False
        self.state = SaslState.INITIAL_REQUEST
        self.mechanism_name: str | None = None
        self.principal: KafkaPrincipal | None = None
        """Who the peer is, once COMPLETE."""
        self.expires_at_ms: int | None = None
        """When the session ends, on the clock of `now_ms`; None: never."""

    @property
    def complete(self) -> bool:
        """Whether requests may be served for `principal`."""
        return self.state is SaslState.COMPLETE

    @property
    def expects_raw_token(self) -> bool:
        """Whether the next frame is a token without a request header (SaslHandshake v0)."""
        return self.state is SaslState.AUTHENTICATE and not self._with_headers

    def api_versions(self, *, valid: bool) -> None:
        """Take an ApiVersions request; SaslStateError when it is not the time. valid: it gets no error."""
        self._move(Event.VERSIONS_GIVEN if valid else Event.VERSIONS_REFUSED, "ApiVersions")

    def handshake(self, version: int, mechanism: str) -> HandshakeReply:
        """Take a SaslHandshake request; SaslStateError when it is not the time."""
        again = self.state is SaslState.COMPLETE
        if again and self.expires_at_ms is None:
            raise SaslStateError("SaslHandshake after the login", answer=True, close=False)
        if mechanism not in self._enabled:
            self._move(Event.MECHANISM_UNKNOWN, "SaslHandshake")
            return HandshakeReply(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM, self._enabled, f"asked for the SASL mechanism {shown(mechanism)}"
            )
        if again and mechanism != self.mechanism_name:
            self._move(Event.MECHANISM_CHANGED, "SaslHandshake")
            return HandshakeReply(ErrorCode.NONE, self._enabled)
        self._move(Event.MECHANISM_CHOSEN, "SaslHandshake")
        self._mechanism = self._new_mechanism(mechanism)
        self.mechanism_name = mechanism
        self._with_headers = self._with_headers or version >= 1
        return HandshakeReply(ErrorCode.NONE, self._enabled)

    def token(self, token: bytes, now_ms: int) -> TokenReply:
        """Take a token, from a SaslAuthenticate request or bare; SaslStateError when it is not the time."""
        if self.state is SaslState.COMPLETE:
            raise SaslStateError("SaslAuthenticate after the login", answer=True, close=False)
        if self.state is not SaslState.AUTHENTICATE or self._mechanism is None:
            self._illegal("SaslAuthenticate")
        try:
            outcome = self._mechanism.step(token)
            if isinstance(outcome, Verified):
                return self._verified(outcome, now_ms)
        except AuthenticationError as e:
            self._move(Event.REFUSED, "a token")
            message = e.public or (
                f"{'Re-authentication' if self.principal else 'Authentication'} failed: "
                f"the credentials are not valid for {self.mechanism_name}"
            )
            return TokenReply(ErrorCode.SASL_AUTHENTICATION_FAILED, message, b"", failure=e.detail)
        self._move(Event.CHALLENGED, "a token")
        return TokenReply(ErrorCode.NONE, None, outcome.token)

    def other(self, api: str) -> None:
        """Take any other request before COMPLETE: always SaslStateError."""
        self._illegal(api)

    def _verified(self, outcome: Verified, now_ms: int) -> TokenReply:
        principal = KafkaPrincipal(USER_TYPE, outcome.user, outcome.token_authenticated)
        if self.principal is not None and principal != self.principal:
            why = f"{self.principal} logged in again as {principal}"
            raise AuthenticationError(why, public="Re-authentication failed: the principal may not change")
        self._move(Event.VERIFIED, "a token")
        self.principal = principal
        limit = self._max_reauth_ms(self.mechanism_name or "")
        lifetime = session_lifetime_ms(now_ms, outcome.credential_expiry_ms, limit)
        ends = outcome.credential_expiry_ms is not None or limit > 0
        self.expires_at_ms = now_ms + lifetime if ends else None
        self._mechanism = None
        return TokenReply(ErrorCode.NONE, None, outcome.token, lifetime)

    def _move(self, event: Event, request: str) -> None:
        after = TRANSITIONS.get((self.state, event))
        if after is None:
            self._illegal(request)
        self.state = after

    def _illegal(self, request: str) -> NoReturn:
        answer = self.state is SaslState.AUTHENTICATE and self._with_headers
        detail = f"{request} in the state {self.state.name}"
        self.state = SaslState.FAILED
        raise SaslStateError(detail, answer=answer, close=True)
