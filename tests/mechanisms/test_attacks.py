"""Strangers at a live node: guesses without end, frames without measure, what was overheard, who is a user."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.users import ScramUpsertion
from barnabas.core.sasl.client import client_mechanism
from barnabas.model.config import Password
from barnabas.testing.cluster import Cluster
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.clients.nodes import until
from tests.server.frames import FramePeer, port_of
from tests.sessions.nodes import LONG, OPEN, SHORT, listener_bean, served, session_settings

pytestmark = pytest.mark.slow

GUESSERS: Final = 100
DELAY_MS: Final = 60_000
"""Longer than a test lasts: whoever failed is answered long after it."""
MOST_BEFORE_LOGIN: Final = 524_288
SCRAM: Final = "SCRAM-SHA-256"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = session_settings(listener__name__short__connection__failed__authentication__delay__ms=str(DELAY_MS))
    with Cluster(tmp_path_factory.mktemp("attacked"), settings) as found:

        async def add() -> None:
            async with Admin(found.admin.barnabas) as admin:
                assert await admin.alter_scram([ScramUpsertion("known", SCRAM, Password("its-secret"))]) == {
                    "known": None
                }

        asyncio.run(add())
        yield found


def a_guess(mechanism: str, token: bytes) -> list[Any]:
    """Give the requests of a guess."""
    return [SaslHandshakeRequest(mechanism=mechanism), SaslAuthenticateRequest(auth_bytes=token)]


def guess(peer: FramePeer, mechanism: str = "PLAIN", token: bytes = b"\0root\0guess") -> None:
    """Send a guess and do not wait for what comes of it."""
    peer.send_together(a_guess(mechanism, token))


def count(cluster: Cluster, listener: str, name: str) -> int:
    return int(listener_bean(cluster, listener)[name])


def test_guesses_wait_and_hold_up_nobody(cluster: Cluster) -> None:
    failed = count(cluster, SHORT, "failed-authentication-total")
    with ExitStack() as stack:
        peers = [stack.enter_context(FramePeer(port_of(cluster, SHORT))) for _ in range(GUESSERS)]
        for peer in peers:
            guess(peer)
            peer.receive(SaslHandshakeRequest(mechanism="PLAIN"))
        until(lambda: count(cluster, SHORT, "failed-authentication-total"), lambda now: now == failed + GUESSERS)
        # All of them wait for their answers, and others are served meanwhile: here, and at the other listeners.
        for listener in (SHORT, LONG, OPEN):
            with FramePeer(port_of(cluster, listener)) as honest:
                if listener != OPEN:
                    assert honest.login("root").error_code == ErrorCode.NONE
                assert served(honest)
        assert all(peer.silent(0) for peer in peers)
    # Whoever leaves takes nothing along.
    until(lambda: count(cluster, SHORT, "connection-count"), lambda now: now == 0)


def test_a_connection_has_one_guess(cluster: Cluster) -> None:
    failed = count(cluster, LONG, "failed-authentication-total")
    done = count(cluster, LONG, "successful-authentication-total")
    with FramePeer(port_of(cluster, LONG)) as peer:
        tokens = [*(b"\0root\0guess-%d" % n for n in range(50)), b"\0root\0root-secret"]
        guesses = [request for token in tokens for request in a_guess("PLAIN", token)]
        # In one piece: the node closes after the first, and whatever left later would find the connection reset.
        peer.send_together([*guesses, MetadataRequest(topics=[])])
        peer.receive(SaslHandshakeRequest(mechanism="PLAIN"))
        _, answer = peer.receive(SaslAuthenticateRequest())
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        with pytest.raises(ConnectionError):
            peer.receive_raw()
    assert count(cluster, LONG, "failed-authentication-total") == failed + 1
    assert count(cluster, LONG, "successful-authentication-total") == done


@pytest.mark.parametrize("handshake", [None, 0, 1])
def test_a_frame_beyond_measure_ends_the_connection_before_it_has_come(cluster: Cluster, handshake: int | None) -> None:
    failed = count(cluster, LONG, "failed-authentication-total")
    with FramePeer(port_of(cluster, LONG)) as peer:
        if handshake is not None:
            peer.call(SaslHandshakeRequest(mechanism="PLAIN"), handshake)
        peer.socket.sendall((MOST_BEFORE_LOGIN + 1).to_bytes(4, "big"))
        with pytest.raises(ConnectionError):
            peer.receive_raw()
    # After the login that is nothing special.
    with FramePeer(port_of(cluster, LONG)) as peer:
        peer.login("root")
        answer = peer.call(MetadataRequest(topics=[]), 9, client_id="x" * 30_000)
        assert answer.brokers
    assert count(cluster, LONG, "failed-authentication-total") == failed


def test_many_that_announce_much_and_send_nothing_are_served_around(cluster: Cluster) -> None:
    with ExitStack() as stack:
        for _ in range(GUESSERS):
            peer = stack.enter_context(FramePeer(port_of(cluster, LONG)))
            peer.socket.sendall(MOST_BEFORE_LOGIN.to_bytes(4, "big") + b"\0\x24")
        with FramePeer(port_of(cluster, LONG)) as honest:
            honest.login("root")
            assert served(honest)


def exchange(cluster: Cluster, user: str, password: str, token_auth: bool = False) -> list[tuple[bytes, Any]]:
    """Log in by SCRAM, or try to; gives the tokens that were sent with their answers."""
    mechanism = client_mechanism(SCRAM, user, password, lambda: secrets.token_urlsafe(24), by_token=token_auth)
    told = []
    with FramePeer(port_of(cluster, LONG)) as peer:
        peer.call(SaslHandshakeRequest(mechanism=SCRAM))
        token: bytes | None = mechanism.first()
        while token is not None:
            answer = peer.call(SaslAuthenticateRequest(auth_bytes=token))
            told.append((token, answer))
            if answer.error_code != ErrorCode.NONE:
                assert peer.closed()
                break
            token = mechanism.step(answer.auth_bytes)
    return told


def test_nobody_learns_who_is_a_user(cluster: Cluster) -> None:
    """Apache Kafka refuses an unknown user at the first message, and so tells which ones there are."""
    shapes = []
    for user in ("known", "nobody", "nobody", "an-other"):
        told = exchange(cluster, user, "guess")
        (_, first), (_, last) = told
        fields = dict(part.split("=", 1) for part in first.auth_bytes.decode().split(","))
        salt_length = range(28, 40)
        assert len(fields["s"]) in salt_length
        shapes.append((len(told), first.error_code, sorted(fields), fields["i"], last.error_code, last.error_message))
    assert len(set(map(str, shapes))) == 1
    assert shapes[0][4] == ErrorCode.SASL_AUTHENTICATION_FAILED
    # Who asks twice is shown the same salt, as for a real user.
    salts = {exchange(cluster, "nobody", "guess")[0][1].auth_bytes.decode().split(",")[1] for _ in range(2)}
    assert len(salts) == 1
    plain = set()
    for user in ("root", "nobody"):
        with FramePeer(port_of(cluster, LONG)) as peer:
            answer = peer.login(user, "guess")
            plain.add((answer.error_code, answer.error_message))
    assert len(plain) == 1


def test_what_was_overheard_opens_nothing(cluster: Cluster) -> None:
    told = exchange(cluster, "known", "its-secret")
    assert [answer.error_code for _, answer in told] == [0, 0]
    with FramePeer(port_of(cluster, LONG)) as peer:
        peer.call(SaslHandshakeRequest(mechanism=SCRAM))
        (first, _), (final, _) = told
        assert peer.call(SaslAuthenticateRequest(auth_bytes=first)).error_code == ErrorCode.NONE
        assert peer.call(SaslAuthenticateRequest(auth_bytes=final)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert peer.closed()
    # Nor does it renew a session that stands.
    with FramePeer(port_of(cluster, LONG)) as peer:
        mechanism = client_mechanism(SCRAM, "known", "its-secret", lambda: secrets.token_urlsafe(24))
        peer.call(SaslHandshakeRequest(mechanism=SCRAM))
        challenge = peer.call(SaslAuthenticateRequest(auth_bytes=mechanism.first()))
        proof = mechanism.step(challenge.auth_bytes)
        assert proof is not None
        assert peer.call(SaslAuthenticateRequest(auth_bytes=proof)).session_lifetime_ms > 0
        peer.call(SaslHandshakeRequest(mechanism=SCRAM))
        peer.call(SaslAuthenticateRequest(auth_bytes=first))
        assert peer.call(SaslAuthenticateRequest(auth_bytes=final)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert peer.closed()


def test_a_user_is_no_token(cluster: Cluster) -> None:
    (_, refused) = exchange(cluster, "known", "its-secret", token_auth=True)[-1]
    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
