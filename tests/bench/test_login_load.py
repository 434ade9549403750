"""The load of log-ins says what a server of ours takes, answered here without a socket."""

from __future__ import annotations

import pytest
from bench.login_load import tokens_of
from bench.requests import RequestsError

from barnabas.core.sasl.exchange import AuthenticationError, Challenge, Verified
from barnabas.core.sasl.mechanisms.scram import ALGORITHMS, ScramServer, derive_keys, salt_password
from barnabas.wire.header import decode_request_header, encode_response_header
from barnabas.wire.message import decode, encode
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

SALT = b"some salt"


def scram(mechanism: str, password: str) -> ScramServer:
    algorithm = ALGORITHMS[mechanism]
    keys = derive_keys(algorithm, salt_password(algorithm, password, SALT, 4096), SALT, 4096)
    return ScramServer(algorithm, {"alice": keys}.get, lambda: "nonce", b"secret")


def token_in(frame: bytes) -> bytes:
    """Give the token of a SaslAuthenticate request."""
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, at, _ = decode_request_header(memoryview(frame)[4:])
    assert (header.request_api_key, header.request_api_version) == (SaslAuthenticateRequest.API_KEY, 2)
    return bytes(decode(SaslAuthenticateRequest, 2, frame[4:], at).auth_bytes)


def answer(token: bytes, error: int = 0) -> bytes:
    response = SaslAuthenticateResponse(error_code=error, auth_bytes=token, session_lifetime_ms=60_000)
    header = encode_response_header(SaslAuthenticateRequest.API_KEY, 2, 1)
    return bytes(header) + encode(response, 2)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_it_logs_in_by_scram_again_and_again(mechanism: str) -> None:
    tokens = tokens_of(mechanism, "alice", "right")
    for _ in range(2):
        server, script = scram(mechanism, "right"), tokens()
        outcome = server.step(token_in(next(script)))
        assert isinstance(outcome, Challenge)
        outcome = server.step(token_in(script.send(answer(outcome.token))))
        assert isinstance(outcome, Verified)
        assert outcome.user == "alice"
        with pytest.raises(StopIteration):
            script.send(answer(outcome.token))


def test_a_wrong_password_is_found_out() -> None:
    server, script = scram("SCRAM-SHA-256", "right"), tokens_of("SCRAM-SHA-256", "alice", "wrong")()
    first = server.step(token_in(next(script)))
    assert isinstance(first, Challenge)
    with pytest.raises(AuthenticationError):
        server.step(token_in(script.send(answer(first.token))))


def test_a_refusal_ends_the_load() -> None:
    script = tokens_of("PLAIN", "alice", "wrong")()
    assert token_in(next(script)) == b"\0alice\0wrong"
    with pytest.raises(RequestsError, match="error 58"):
        script.send(answer(b"", error=58))


def test_long_tokens_are_framed_as_they_should_be() -> None:
    for size in (100, 126, 127, 128, 1000, 16_000):
        script = tokens_of("PLAIN", "alice", "x" * size)()
        assert token_in(next(script)) == b"\0alice\0" + b"x" * size
