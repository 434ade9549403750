"""Logging in frame by frame, by any mechanism."""

from __future__ import annotations

import secrets
from typing import Any

from barnabas.core.sasl.client import SaslClient, SendHandshake, client_mechanism
from barnabas.core.sasl.exchange import ClientMechanism
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.server.frames import FramePeer


def log_in(peer: FramePeer, name: str, mechanism: ClientMechanism) -> Any:
    """Log in; gives the last answer, AuthenticationError when there is one that refuses."""
    client = SaslClient(name, mechanism)
    answer = None
    while (step := client.next_request) is not None:
        if isinstance(step, SendHandshake):
            shaken = peer.call(SaslHandshakeRequest(mechanism=step.mechanism))
            client.handshake_answered(shaken.error_code, shaken.mechanisms)
        else:
            answer = peer.call(SaslAuthenticateRequest(auth_bytes=step.token))
            client.token_answered(
                answer.error_code, answer.error_message, answer.auth_bytes, answer.session_lifetime_ms
            )
    return answer


def by_token(peer: FramePeer, token_id: str, password: str, name: str = "SCRAM-SHA-256") -> Any:
    """Log in by a delegation token."""
    made = client_mechanism(name, token_id, password, lambda: secrets.token_urlsafe(24), by_token=True)
    return log_in(peer, name, made)
