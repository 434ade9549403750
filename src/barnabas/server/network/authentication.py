"""How connections log in by SASL: the thin part between requests and `core.sasl.server`.

How long a session may last is `connections.max.reauth.ms`, which may be set for a listener and for a mechanism of it.
What the mechanisms check against is the business of `server.logins`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.core.sasl.exchange import Verified
from barnabas.core.sasl.server import SaslServer, SaslState, SaslStateError
from barnabas.model.ports import Clock
from barnabas.model.principal import KafkaPrincipal
from barnabas.server.network.session_limit import SessionLimit, session_limit
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode, ProtocolError
from barnabas.wire.message import decode_from
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas.wire.primitives import Buffer
from barnabas.wire.refusals import refuse

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig
    from barnabas.server.context import ClientConnection, RequestContext
    from barnabas.server.logins.mechanisms import Mechanisms
    from barnabas.server.logins.principals import Principals
    from barnabas.server.network.conduct import SessionConduct


@dataclass(frozen=True, slots=True)
class LoginAnswer:
    """What to answer a request of the login. answer: the response message, None when it is for the router to answer.

    failure: for the log; set when the connection is to be closed after the answer, held back for a while.
    """

    answer: Any | None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """What to answer a bare token (SaslHandshake v0): a bare token, or nothing at all when `failure` is set."""

    token: bytes | None
    failure: str | None = None


class SaslGate:
    """What stands between a connection on a SASL listener and everything else."""

    __slots__ = ("_clock", "_limits", "_server")

    def __init__(self, server: SaslServer, clock: Clock, limits: Mapping[str, SessionLimit]) -> None:
        """limits: by mechanism."""
        self._server = server
        self._clock = clock
        self._limits = limits

    @property
    def complete(self) -> bool:
        """Whether the peer has logged in."""
        return self._server.complete

    @property
    def principal(self) -> KafkaPrincipal | None:
        """Who the peer is, once `complete`."""
        return self._server.principal if self._server.complete else None

    @property
    def mechanism(self) -> str | None:
        """The SASL mechanism that the peer chose."""
        return self._server.mechanism_name

    @property
    def expired(self) -> bool:
        """Whether the session has ended, so that the peer has to log in again before anything is served."""
        server = self._server
        return server.expires_at_ms is not None and server.expired(self._clock.monotonic_ms())

    @property
    def remaining_ms(self) -> int | None:
        """How long the session may still be used; None: without end."""
        ends = self._server.expires_at_ms
        return None if ends is None else max(0, ends - self._clock.monotonic_ms())

    @property
    def reauthentications(self) -> int:
        """How often the peer has logged in again."""
        return self._server.reauthentications

    @property
    def took_ms(self) -> int:
        """How long the last login took."""
        return self._server.took_ms

    @property
    def limit(self) -> SessionLimit | None:
        """What bounds the session's life; None before a mechanism is chosen."""
        return self._limits.get(self._server.mechanism_name or "")

    def expire(self) -> None:
        """End the session now; the peer may still log in again."""
        self._server.expire(self._clock.monotonic_ms())

    @property
    def expects_raw_token(self) -> bool:
        """Whether the next frame is a token without a request header."""
        return self._server.expects_raw_token

    def receive(self, ctx: RequestContext, frame: Buffer, body_at: int) -> LoginAnswer:
        """Take any request before the login is complete, and the SASL ones after it.

        An ApiVersions that may come now gives no answer here: it is for the router. ProtocolError closes the
        connection without a word, as Kafka does for requests that have no place here.
        """
        row, version = ctx.row, ctx.version
        known = row.min_version <= version <= row.max_version
        if row.key is ApiKey.API_VERSIONS:
            return self._api_versions(ctx, known, frame, body_at)
        try:
            if row.key is ApiKey.SASL_HANDSHAKE and self._server.state is not SaslState.AUTHENTICATE:
                _want(known, ctx)
                return self._handshake(version, decode_from(SaslHandshakeRequest, version, frame, body_at)[0])
            if row.key is ApiKey.SASL_AUTHENTICATE:
                _want(known, ctx)
                return self._token(decode_from(SaslAuthenticateRequest, version, frame, body_at)[0])
            self._server.other(row.key.name)
        except SaslStateError as e:
            return _illegal(ctx, e, frame, body_at)
        raise AssertionError(row.key)

    def raw_token(self, token: bytes) -> RawAnswer:
        """Take a frame that is a token."""
        reply = self._server.token(token, self._clock.now_ms(), self._clock.monotonic_ms())
        if reply.failure is not None:
            return RawAnswer(None, reply.failure)
        return RawAnswer(reply.token)

    def _api_versions(self, ctx: RequestContext, known: bool, frame: Buffer, body_at: int) -> LoginAnswer:
        if self._server.complete:
            return LoginAnswer(None)
        try:
            self._server.api_versions(valid=known)
        except SaslStateError as e:
            return _illegal(ctx, e, frame, body_at)
        return LoginAnswer(None)

    def _handshake(self, version: int, request: SaslHandshakeRequest) -> LoginAnswer:
        reply = self._server.handshake(version, request.mechanism, self._clock.monotonic_ms())
        answer = SaslHandshakeResponse(error_code=reply.error, mechanisms=list(reply.mechanisms))
        return LoginAnswer(answer, reply.failure)

    def _token(self, request: SaslAuthenticateRequest) -> LoginAnswer:
        reply = self._server.token(bytes(request.auth_bytes), self._clock.now_ms(), self._clock.monotonic_ms())
        answer = SaslAuthenticateResponse(
            error_code=reply.error,
            error_message=reply.message,
            auth_bytes=reply.token,
            session_lifetime_ms=reply.session_lifetime_ms,
        )
        return LoginAnswer(answer, reply.failure)


class Authentication:
    """The logins of a node: which mechanisms its listeners offer, and what they check against."""

    __slots__ = ("_by_listener", "_clock", "_conduct", "_limits", "_principals")

    def __init__(
        self,
        config: NodeConfig,
        mechanisms: Mechanisms,
        principals: Principals,
        clock: Clock,
        conduct: SessionConduct,
    ) -> None:
        """ConfigError for a listener whose logins are set up wrongly."""
        self._clock = clock
        self._conduct = conduct
        self._principals = principals
        self._by_listener = {
            endpoint.listener_name: mechanisms.of_listener(endpoint.listener_name)
            for endpoint in config.listeners
            if endpoint.sasl
        }
        self._limits = {
            listener: {name: session_limit(config, listener, name) for name in mechanisms}
            for listener, mechanisms in self._by_listener.items()
        }

    def gate(self, client: ClientConnection) -> SaslGate:
        """Give the gate for a new connection."""
        mechanisms = self._by_listener[client.listener_name]
        limits = self._limits[client.listener_name]
        server = SaslServer(
            tuple(mechanisms),
            lambda name: mechanisms[name](),
            lambda name: self._conduct.lifetime_ms(client, limits[name]),
            partial(self._principal, client),
        )
        return SaslGate(server, self._conduct.clock(client, self._clock), limits)

    def _principal(self, client: ClientConnection, mechanism: str, verified: Verified) -> KafkaPrincipal:
        return self._conduct.principal(client, self._principals.of_sasl(client, mechanism, verified))


def _want(known: bool, ctx: RequestContext) -> None:
    if not known:
        raise ProtocolError(f"{ctx.row.key.name} version {ctx.version} is not served")


def _illegal(ctx: RequestContext, error: SaslStateError, frame: Buffer, body_at: int) -> LoginAnswer:
    row, version = ctx.row, ctx.version
    if not error.answer or not row.min_version <= version <= row.max_version:
        raise ProtocolError(str(error)) from None
    # The request is read whole, because in many answers the error stands beside what was asked for.
    request, _ = decode_from(row.request, version, frame, body_at)
    failure = str(error) if error.close else None
    return LoginAnswer(refuse(request, version, ErrorCode.ILLEGAL_SASL_STATE, str(error)), failure)
