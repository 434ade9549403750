"""The client's machine against the server's, in memory."""

from __future__ import annotations

import pytest

from barnabas.core.sasl.client import ClientState, SaslClient, SendHandshake, SendToken, client_mechanism
from barnabas.core.sasl.exchange import AuthenticationError
from barnabas.core.sasl.mechanisms import PASSWORD_MECHANISMS
from barnabas.core.sasl.server import SaslServer
from barnabas.model.principal import KafkaPrincipal
from barnabas.wire.errors import ErrorCode

from .test_traces import PASSWORDS, mechanism_called


def client(name: str, user: str = "alice", password: str = PASSWORDS["alice"]) -> SaslClient:
    return SaslClient(name, client_mechanism(name, user, password, lambda: "nonce"))


def converse(client: SaslClient, server: SaslServer, now_ms: int = 0) -> None:
    while (step := client.next_request) is not None:
        if isinstance(step, SendHandshake):
            shaken = server.handshake(1, step.mechanism, now_ms)
            client.handshake_answered(shaken.error, shaken.mechanisms)
        else:
            assert isinstance(step, SendToken)
            reply = server.token(step.token, now_ms, now_ms)
            client.token_answered(reply.error, reply.message, reply.token, reply.session_lifetime_ms)


@pytest.mark.parametrize("name", PASSWORD_MECHANISMS)
def test_a_login(name: str) -> None:
    ours, server = client(name), SaslServer(PASSWORD_MECHANISMS, mechanism_called, lambda mechanism: 5000)
    converse(ours, server, now_ms=100)
    assert ours.state is ClientState.COMPLETE
    assert server.principal == KafkaPrincipal("User", "alice")
    assert (ours.session_lifetime_ms, server.expires_at_ms) == (5000, 5100)


@pytest.mark.parametrize("name", PASSWORD_MECHANISMS)
def test_a_wrong_password(name: str) -> None:
    ours, server = client(name, password="wrong"), SaslServer(PASSWORD_MECHANISMS, mechanism_called)
    with pytest.raises(AuthenticationError, match="Authentication failed"):
        converse(ours, server)
    assert (ours.state, ours.next_request, server.principal) == (ClientState.FAILED, None, None)


def test_a_mechanism_that_the_server_does_not_offer() -> None:
    ours = client("SCRAM-SHA-512")
    with pytest.raises(AuthenticationError, match="it offers PLAIN, SCRAM-SHA-256"):
        converse(ours, SaslServer(("SCRAM-SHA-256", "PLAIN"), mechanism_called))


def test_other_errors_are_passed_on() -> None:
    ours = client("PLAIN")
    with pytest.raises(AuthenticationError, match="error 34"):
        ours.handshake_answered(ErrorCode.ILLEGAL_SASL_STATE, [])


def test_an_unknown_mechanism_is_named() -> None:
    with pytest.raises(ValueError, match=r"sasl\.mechanism=GSSAPI"):
        client("GSSAPI")


def test_answers_out_of_turn_are_our_own_mistake() -> None:
    ours = client("PLAIN")
    with pytest.raises(RuntimeError, match="SEND_HANDSHAKE"):
        ours.token_answered(0, None, b"")
