"""The server's side of SASL on a connection (KIP-12, KIP-43, KIP-152, KIP-368).

States:

- INITIAL_REQUEST: nothing asked yet; ApiVersions or SaslHandshake may come.
- HANDSHAKE_REQUEST: ApiVersions is answered; only SaslHandshake may come.
- AUTHENTICATE: a mechanism is chosen; tokens come, in SaslAuthenticate after SaslHandshake v1, bare after v0.
- COMPLETE: the peer is known. A further SaslHandshake begins again where the session has an end.
- BAD_MECHANISM: it began again with another mechanism; whatever comes next fails, a token with words that say why.
- FAILED: nothing more is served.

`TRANSITIONS` is the whole of it; the methods of `SaslServer` only say which event a request is, and what to answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NoReturn

from barnabas.core.sasl.exchange import AuthenticationError, ServerMechanism, Verified, shown
from barnabas.core.sasl.session import LEAST_INTERVAL_MS, session_lifetime_ms
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
    (_S.BAD_MECHANISM, _E.REFUSED): _S.FAILED,
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


PrincipalOf = Callable[[str, Verified], KafkaPrincipal]
"""Gives who a peer is, by mechanism and what that found; AuthenticationError when it is to be refused."""


def default_principal(mechanism: str, verified: Verified) -> KafkaPrincipal:
    """Give the principal of Kafka's default builder."""
    return KafkaPrincipal(USER_TYPE, verified.user, verified.token_authenticated)


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
        "_began_at_ms", "_enabled", "_max_reauth_ms", "_mechanism", "_new_mechanism", "_principal_of",
        "_renewal_refused_until_ms", "_wanted_mechanism", "_with_headers", "expires_at_ms", "mechanism_name",
        "principal", "reauthentications", "state", "took_ms",
    )  # fmt: skip

    def __init__(
        self,
        enabled: Sequence[str],
        new_mechanism: Callable[[str], ServerMechanism],
        max_reauth_ms: Callable[[str], int] = lambda mechanism: 0,
        principal_of: PrincipalOf = default_principal,
    ) -> None:
        """enabled: names of mechanisms; new_mechanism: begins an exchange of one of them; max_reauth_ms: how long a
        session of a mechanism may last, 0 without end (`connections.max.reauth.ms`)."""
        self._enabled = tuple(enabled)
        self._new_mechanism = new_mechanism
        self._max_reauth_ms = max_reauth_ms
        self._principal_of = principal_of
        self._mechanism: ServerMechanism | None = None
        self._with_headers = False
        self._wanted_mechanism = ""
        self._began_at_ms = 0
        self._renewal_refused_until_ms: int | None = None
        self.state = SaslState.INITIAL_REQUEST
        self.mechanism_name: str | None = None
        self.principal: KafkaPrincipal | None = None
        """Who the peer is, once COMPLETE."""
        self.expires_at_ms: int | None = None
        """When the session ends, on the monotonic clock; None: never."""
        self.reauthentications = 0
        """How often the peer has renewed its session."""
        self.took_ms = 0
        """How long the last login took, from its handshake on."""

    @property
    def complete(self) -> bool:
        """Whether requests may be served for `principal`."""
        return self.state is SaslState.COMPLETE

    @property
    def expects_raw_token(self) -> bool:
        """Whether the next frame is a token without a request header (SaslHandshake v0)."""
        return self.state is SaslState.AUTHENTICATE and not self._with_headers

    def expired(self, monotonic_ms: int) -> bool:
        """Whether the session has ended: then nothing but a new login may be served (KIP-368)."""
        return self.expires_at_ms is not None and monotonic_ms > self.expires_at_ms

    def expire(self, monotonic_ms: int) -> None:
        """End the session now, whatever its lifetime; the peer may renew it."""
        self.expires_at_ms = monotonic_ms - 1

    def api_versions(self, *, valid: bool) -> None:
        """Take an ApiVersions request; SaslStateError when it is not the time. valid: it gets no error."""
        self._move(Event.VERSIONS_GIVEN if valid else Event.VERSIONS_REFUSED, "ApiVersions")

    def handshake(self, version: int, mechanism: str, monotonic_ms: int) -> HandshakeReply:
        """Take a SaslHandshake request; SaslStateError when it is not the time."""
        again = self.state is SaslState.COMPLETE
        if again:
            self._check_renewal(monotonic_ms)
        if mechanism not in self._enabled:
            self._move(Event.MECHANISM_UNKNOWN, "SaslHandshake")
            return HandshakeReply(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM, self._enabled, f"asked for the SASL mechanism {shown(mechanism)}"
            )
        if again and mechanism != self.mechanism_name:
            self._move(Event.MECHANISM_CHANGED, "SaslHandshake")
            self._wanted_mechanism = mechanism
            return HandshakeReply(ErrorCode.NONE, self._enabled)
        self._move(Event.MECHANISM_CHOSEN, "SaslHandshake")
        self._mechanism = self._new_mechanism(mechanism)
        self.mechanism_name = mechanism
        self._with_headers = version >= 1
        self._began_at_ms = monotonic_ms
        return HandshakeReply(ErrorCode.NONE, self._enabled)

    def token(self, token: bytes, now_ms: int, monotonic_ms: int) -> TokenReply:
        """Take a token, from a SaslAuthenticate request or bare; SaslStateError when it is not the time.

        now_ms: the wall clock, for when credentials end; monotonic_ms: the clock that sessions are measured on.
        """
        if self.state is SaslState.COMPLETE:
            raise SaslStateError("SaslAuthenticate after the login", answer=True, close=False)
        if self.state is SaslState.BAD_MECHANISM:
            return self._mechanism_changed()
        if self.state is not SaslState.AUTHENTICATE or self._mechanism is None:
            self._illegal("SaslAuthenticate")
        try:
            outcome = self._mechanism.step(token)
            if isinstance(outcome, Verified):
                return self._verified(outcome, now_ms, monotonic_ms)
        except AuthenticationError as e:
            self._move(Event.REFUSED, "a token")
            message = e.public or (f"{self._kind} failed: the credentials are not valid for {self.mechanism_name}")
            return TokenReply(ErrorCode.SASL_AUTHENTICATION_FAILED, message, b"", failure=e.detail)
        self._move(Event.CHALLENGED, "a token")
        return TokenReply(ErrorCode.NONE, None, outcome.token)

    def other(self, api: str) -> None:
        """Take any other request before COMPLETE: always SaslStateError."""
        self._illegal(api)

    def _check_renewal(self, monotonic_ms: int) -> None:
        if self.expires_at_ms is None:
            raise SaslStateError("SaslHandshake after the login, of a session without end", answer=True, close=False)
        until = self._renewal_refused_until_ms
        if until is not None and monotonic_ms < until:
            raise SaslStateError("SaslHandshake within a second of the one before", answer=True, close=False)
        self._renewal_refused_until_ms = monotonic_ms + LEAST_INTERVAL_MS

    def _mechanism_changed(self) -> TokenReply:
        self._move(Event.REFUSED, "a token")
        what = f"the mechanism may not change from {self.mechanism_name} to {self._wanted_mechanism}"
        return TokenReply(ErrorCode.SASL_AUTHENTICATION_FAILED, f"Re-authentication failed: {what}", b"", failure=what)

    def _verified(self, outcome: Verified, now_ms: int, monotonic_ms: int) -> TokenReply:
        principal = self._principal_of(self.mechanism_name or "", outcome)
        before = self.principal
        # What else a builder has put into a principal is news of the same one.
        if before is not None and (before.principal_type, before.name) != (principal.principal_type, principal.name):
            what = f"the principal may not change from {self.principal} to {principal}"
            raise AuthenticationError(what, public=f"Re-authentication failed: {what}")
        limit = self._max_reauth_ms(self.mechanism_name or "")
        lifetime = session_lifetime_ms(now_ms, outcome.credential_expiry_ms, limit)
        if lifetime is not None and lifetime <= 0:
            # On the wire 0 would mean "without end", and the session would be over at once (KAFKA-13848).
            raise AuthenticationError(
                f"the credentials of {principal} ended {-lifetime} ms ago",
                public=f"{self._kind} failed: the credentials are past their end",
            )
        self._move(Event.VERIFIED, "a token")
        self.reauthentications += self.principal is not None
        self.principal = principal
        self.expires_at_ms = None if lifetime is None else monotonic_ms + lifetime
        self.took_ms = monotonic_ms - self._began_at_ms
        self._mechanism = None
        return TokenReply(ErrorCode.NONE, None, outcome.token, lifetime or 0)

    @property
    def _kind(self) -> str:
        return "Re-authentication" if self.principal else "Authentication"

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
