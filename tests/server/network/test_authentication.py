"""Logins as requests: the gate before a connection on a SASL listener."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from immutables import Map

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.scram import ScramCredential, ScramImage, ScramMechanism
from barnabas.core.sasl.client import SaslClient, SendHandshake, client_mechanism
from barnabas.core.sasl.mechanisms import PASSWORD_MECHANISMS, oauthbearer
from barnabas.core.sasl.mechanisms.scram import ALGORITHMS, derive_keys, salt_password
from barnabas.model.config import ConfigError
from barnabas.model.principal import KafkaPrincipal
from barnabas.server.config import NodeConfig
from barnabas.server.context import ClientConnection, RequestContext
from barnabas.server.logins.mechanisms import Mechanisms, new_nonce
from barnabas.server.logins.oauth import UNSECURED
from barnabas.server.logins.principals import Principals
from barnabas.server.network.authentication import Authentication, SaslGate
from barnabas.server.network.conduct import SessionConduct
from barnabas.wire.api_keys import API_KEYS, ApiKey
from barnabas.wire.errors import ErrorCode, ProtocolError
from barnabas.wire.message import encode
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest

from .test_connection_limits import BASE

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
OFFERED = (*PASSWORD_MECHANISMS, oauthbearer.NAME)
"""Those that need nobody else."""
SETTINGS = {
    **BASE,
    "listener.security.protocol.map": "A:PLAINTEXT,B:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": ",".join(OFFERED),
    "listener.name.b.plain.sasl.jaas.config": JAAS,
    "listener.name.b.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
}


class FixedClock:
    def now_ms(self) -> int:
        return 1000

    def monotonic_ms(self) -> int:
        return 1000


@dataclass
class Asked:
    """As much of a RequestContext as the gate looks at."""

    row: Any
    version: int


def credentials() -> ScramImage:
    found: dict[ScramMechanism, Map[str, ScramCredential]] = {}
    for algorithm in ALGORITHMS.values():
        keys = derive_keys(algorithm, salt_password(algorithm, "secret", b"salt", 4096), b"salt", 4096)
        credential = ScramCredential(keys.salt, keys.stored_key, keys.server_key, keys.iterations)
        found[ScramMechanism.of(algorithm.code)] = Map(alice=credential)
    return ScramImage(Map(found))


IMAGE = credentials()


def gate(**changes: str) -> SaslGate:
    config = NodeConfig.parse({**SETTINGS, **{key.replace("_", "."): value for key, value in changes.items()}})
    client = ClientConnection("id", "10.0.0.1", 1, "B", "SASL_PLAINTEXT", KafkaPrincipal("User", "ANONYMOUS"))
    mechanisms = Mechanisms(config, lambda: MetadataImage(scram=IMAGE), None, FixedClock())
    return Authentication(config, mechanisms, Principals.load(config), FixedClock(), SessionConduct()).gate(client)


def ask(gate: SaslGate, request: Any, version: int) -> Any:
    ctx = cast(RequestContext, Asked(API_KEYS[request.API_KEY], version))
    return gate.receive(ctx, encode(request, version), 0)


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_login_through_requests(mechanism: str, version: int) -> None:
    server = gate()
    assert ask(server, ApiVersionsRequest(), 3).answer is None
    client = SaslClient(mechanism, client_mechanism(mechanism, "alice", "secret", new_nonce))
    while (step := client.next_request) is not None:
        assert server.principal is None
        if isinstance(step, SendHandshake):
            answer = ask(server, SaslHandshakeRequest(mechanism=step.mechanism), 1).answer
            client.handshake_answered(answer.error_code, answer.mechanisms)
        else:
            answer = ask(server, SaslAuthenticateRequest(auth_bytes=step.token), version).answer
            client.token_answered(
                answer.error_code, answer.error_message, answer.auth_bytes, answer.session_lifetime_ms
            )
    assert server.complete
    assert (server.principal, server.mechanism) == (KafkaPrincipal("User", "alice"), mechanism)
    assert client.session_lifetime_ms == 0
    assert ask(server, ApiVersionsRequest(), 3).answer is None
    for late in (SaslHandshakeRequest(mechanism=mechanism), SaslAuthenticateRequest(auth_bytes=b"x")):
        outcome = ask(server, late, 1)
        assert (outcome.answer.error_code, outcome.failure) == (ErrorCode.ILLEGAL_SASL_STATE, None)
    assert server.complete


def test_a_wrong_password_is_answered_and_ends_the_connection() -> None:
    server = gate()
    ask(server, SaslHandshakeRequest(mechanism="PLAIN"), 1)
    outcome = ask(server, SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
    assert outcome.answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "alice" not in outcome.answer.error_message
    assert outcome.failure is not None
    assert not server.complete


def test_another_mechanism_is_answered_with_those_on_offer() -> None:
    server = gate(sasl_enabled_mechanisms="SCRAM-SHA-512,PLAIN")
    outcome = ask(server, SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    assert outcome.answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert outcome.answer.mechanisms == ["SCRAM-SHA-512", "PLAIN"]
    assert outcome.failure is not None


def test_other_requests_before_the_login_close_the_connection() -> None:
    with pytest.raises(ProtocolError, match="METADATA"):
        ask(gate(), MetadataRequest(), 12)
    with pytest.raises(ProtocolError, match="SaslAuthenticate"):
        ask(gate(), SaslAuthenticateRequest(auth_bytes=b"x"), 2)
    server = gate()
    ask(server, SaslHandshakeRequest(mechanism="PLAIN"), 1)
    outcome = ask(server, MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
    assert outcome.failure is not None
    assert [topic.error_code for topic in outcome.answer.topics] == [ErrorCode.ILLEGAL_SASL_STATE]


def test_unknown_versions_close_the_connection() -> None:
    for key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
        ctx = cast(RequestContext, Asked(API_KEYS[key], 9))
        with pytest.raises(ProtocolError, match="version 9"):
            gate().receive(ctx, b"", 0)


def test_bare_tokens() -> None:
    server = gate()
    ask(server, SaslHandshakeRequest(mechanism="PLAIN"), 0)
    assert server.expects_raw_token
    assert server.raw_token(b"\0alice\0secret").token == b""
    assert server.complete
    server = gate()
    ask(server, SaslHandshakeRequest(mechanism="PLAIN"), 0)
    outcome = server.raw_token(b"\0alice\0wrong")
    assert outcome.token is None
    assert outcome.failure is not None


@given(st.binary(max_size=60), st.sampled_from(OFFERED), st.integers(0, 2))
@settings(max_examples=150, deadline=None)
def test_rubbish_is_answered_or_closes(body: bytes, mechanism: str, version: int) -> None:
    server = gate()
    ask(server, SaslHandshakeRequest(mechanism=mechanism), 1)
    ctx = cast(RequestContext, Asked(API_KEYS[ApiKey.SASL_AUTHENTICATE], version))
    try:
        outcome = server.receive(ctx, body, 0)
    except ProtocolError:
        pass
    else:
        assert outcome.answer is not None
        assert outcome.answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not server.complete


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"listener.name.b.plain.sasl.jaas.config": "nonsense"}, r"listener\.name\.b\.plain\.sasl\.jaas\.config: "),
        ({"sasl.enabled.mechanisms": "DIGEST-MD5"}, "want some of PLAIN"),
    ],
)
def test_listeners_set_up_wrongly_are_named(changes: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        gate(**changes)
