"""How connections log in by SASL: the thin part between requests and `core.sasl.server`.

Passwords for PLAIN come from `listener.name.<name>.plain.sasl.jaas.config`, credentials for SCRAM from the metadata
image of the moment, so that a change of either counts from the next login on.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.metadata.scram import ScramImage, ScramMechanism
from barnabas.core.sasl.exchange import ServerMechanism
from barnabas.core.sasl.jaas import JaasError, parse_jaas
from barnabas.core.sasl.mechanisms import MECHANISMS, plain
from barnabas.core.sasl.mechanisms.plain import PlainServer, VerifyPassword, verify_in
from barnabas.core.sasl.mechanisms.scram import ALGORITHMS, ScramAlgorithm, ScramServer, StoredCredential
from barnabas.core.sasl.server import SaslServer, SaslState, SaslStateError
from barnabas.model.config import ConfigError, Password
from barnabas.model.ports import Clock
from barnabas.model.principal import KafkaPrincipal
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

_NONCE_BYTES: Final = 24
_DECOY_BYTES: Final = 32
_PLAIN_JAAS: Final = "sasl.jaas.config"


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

    __slots__ = ("_clock", "_server")

    def __init__(self, server: SaslServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock

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
        reply = self._server.token(token, self._clock.now_ms())
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
        reply = self._server.handshake(version, request.mechanism)
        answer = SaslHandshakeResponse(error_code=reply.error, mechanisms=list(reply.mechanisms))
        return LoginAnswer(answer, reply.failure)

    def _token(self, request: SaslAuthenticateRequest) -> LoginAnswer:
        reply = self._server.token(bytes(request.auth_bytes), self._clock.now_ms())
        answer = SaslAuthenticateResponse(
            error_code=reply.error,
            error_message=reply.message,
            auth_bytes=reply.token,
            session_lifetime_ms=reply.session_lifetime_ms,
        )
        return LoginAnswer(answer, reply.failure)


class Authentication:
    """The logins of a node: which mechanisms its listeners offer, and what they check against."""

    __slots__ = ("_by_listener", "_clock")

    def __init__(self, config: NodeConfig, scram: Callable[[], ScramImage], clock: Clock) -> None:
        """scram: gives the credentials of the moment. ConfigError for a listener whose logins are set up wrongly."""
        self._clock = clock
        # Of this process only: after a restart a decoy's salt differs, which tells a stranger no more than a
        # changed password would.
        secret = secrets.token_bytes(_DECOY_BYTES)
        self._by_listener = {
            endpoint.listener_name: _mechanisms(config, endpoint.listener_name, scram, secret)
            for endpoint in config.listeners
            if endpoint.sasl
        }

    def gate(self, client: ClientConnection) -> SaslGate:
        """Give the gate for a new connection."""
        mechanisms = self._by_listener[client.listener_name]
        return SaslGate(SaslServer(tuple(mechanisms), lambda name: mechanisms[name]()), self._clock)


def new_nonce() -> str:
    """Give the server's part of a SCRAM nonce: 192 bits, printable, without a comma."""
    return secrets.token_urlsafe(_NONCE_BYTES)


def _mechanisms(
    config: NodeConfig, listener: str, scram: Callable[[], ScramImage], secret: bytes
) -> Mapping[str, Callable[[], ServerMechanism]]:
    enabled = config.on_listener(listener, "sasl.enabled.mechanisms")
    if not enabled:
        raise ConfigError(f"sasl.enabled.mechanisms is empty, and listener {listener} logs in by SASL")
    found: dict[str, Callable[[], ServerMechanism]] = {}
    for name in enabled:
        if name == plain.NAME:
            found[name] = partial(PlainServer, _plain_users(config, listener))
        elif name in ALGORITHMS:
            look_up = partial(_credential, scram, ALGORITHMS[name])
            found[name] = partial(ScramServer, ALGORITHMS[name], look_up, new_nonce, secret)
        else:
            raise ConfigError(f"sasl.enabled.mechanisms={name}: want some of {', '.join(MECHANISMS)}")
    return found


def _plain_users(config: NodeConfig, listener: str) -> VerifyPassword:
    text = config.on_mechanism(listener, plain.NAME, _PLAIN_JAAS)
    key = f"listener.name.{listener.lower()}.plain.{_PLAIN_JAAS}"
    if text is None:
        raise ConfigError(f'{key} is missing: want "...PlainLoginModule required user_alice=\\"password\\";"')
    try:
        return verify_in(parse_jaas(text.secret if isinstance(text, Password) else text).user_passwords())
    except JaasError as e:
        raise ConfigError(f"{key}: {e}") from None


def _credential(scram: Callable[[], ScramImage], algorithm: ScramAlgorithm, user: str) -> StoredCredential | None:
    return scram().get(ScramMechanism.of(algorithm.code), user)


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
