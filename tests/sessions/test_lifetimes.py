"""What clients are told of their sessions' lives, and what happens at the end of one, in frames."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.users import ScramUpsertion
from barnabas.core.sasl.client import SaslClient, SendHandshake, client_mechanism
from barnabas.model.config import Password
from barnabas.testing.cluster import Cluster
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import encode
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.wire.record_batch import Record, encode_batch
from tests.clients.nodes import until
from tests.server.frames import FramePeer, decoded, port_of
from tests.server.requests import build

from .nodes import (
    DEFAULT_MS,
    LONG,
    OPEN,
    SECURE,
    SHORT,
    SHORT_MS,
    SSL,
    StandingClock,
    beans,
    killed,
    listener_bean,
    renew,
    served,
    session_settings,
)

pytestmark = pytest.mark.slow

TOKEN = b"\0root\0root-secret"
WAITING = "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=Fetch"


@pytest.fixture(scope="module")
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture(scope="module")
def cluster(clock: StandingClock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("lifetimes"), session_settings(), conduct=clock) as found:
        yield found


@pytest.fixture
def long(cluster: Cluster) -> Iterator[FramePeer]:
    with FramePeer(port_of(cluster, LONG)) as peer:
        yield peer


@pytest.fixture
def short(cluster: Cluster) -> Iterator[FramePeer]:
    with FramePeer(port_of(cluster, SHORT)) as peer:
        yield peer


def expire(peer: FramePeer, clock: StandingClock) -> None:
    """Log in and let the session end."""
    assert peer.login("root").session_lifetime_ms == SHORT_MS
    clock.pass_over(SHORT_MS)


def batch(value: bytes) -> memoryview:
    """Give a batch of one record."""
    return memoryview(bytearray(encode_batch([Record(0, time.time_ns() // 1_000_000, None, value)])))


def lifetimes(peer: FramePeer, mechanism: str, user: str, password: str) -> list[int]:
    """Log in; gives what each answer says of the session's life."""
    client = SaslClient(mechanism, client_mechanism(mechanism, user, password, lambda: secrets.token_urlsafe(24)))
    told: list[int] = []
    while (step := client.next_request) is not None:
        if isinstance(step, SendHandshake):
            shaken = peer.call(SaslHandshakeRequest(mechanism=step.mechanism))
            client.handshake_answered(shaken.error_code, shaken.mechanisms)
            continue
        answer = peer.call(SaslAuthenticateRequest(auth_bytes=step.token))
        told.append(answer.session_lifetime_ms)
        client.token_answered(answer.error_code, answer.error_message, answer.auth_bytes, answer.session_lifetime_ms)
    return told


async def add(cluster: Cluster, wanted: ScramUpsertion) -> None:
    """Give somebody a credential."""
    async with Admin(cluster.admin.barnabas) as admin:
        assert await admin.alter_scram([wanted]) == {wanted.user: None}


# --- what is told


@pytest.mark.requirement("R-01")
def test_a_session_s_life_is_told_from_version_1_on_and_version_0_is_as_it_was(cluster: Cluster) -> None:
    offered = {}
    bodies = {}
    for version in (0, 1, 2):
        with FramePeer(port_of(cluster, LONG)) as peer:
            offered = {k.api_key: (k.min_version, k.max_version) for k in peer.call(ApiVersionsRequest(), 2).api_keys}
            peer.call(SaslHandshakeRequest(mechanism="PLAIN"))
            peer.send(SaslAuthenticateRequest(auth_bytes=TOKEN), version)
            frame = peer.receive_raw()
            bodies[version] = frame[4:]
            answer = decoded(SaslAuthenticateRequest(), version, frame)
            assert answer.error_code == ErrorCode.NONE
            assert answer.session_lifetime_ms == (120_000 if version else 0)
            assert served(peer)
    assert offered[ApiKey.SASL_AUTHENTICATE] == (0, 2)
    # error_code, error_message null, auth_bytes empty; then the new field, in milliseconds.
    assert bodies[0] == b"\x00\x00" + b"\xff\xff" + b"\x00\x00\x00\x00"
    assert bodies[1] == bodies[0] + (120_000).to_bytes(8, "big")
    requests = [encode(SaslAuthenticateRequest(auth_bytes=TOKEN), version) for version in (0, 1)]
    assert requests[0] == requests[1]


@pytest.mark.requirement("R-04", "R-06", "R-19")
def test_a_session_lasts_as_the_most_specific_setting_says_and_only_the_last_answer_says_so(cluster: Cluster) -> None:
    root = cluster.as_user("scrammed")
    asyncio.run(add(cluster, ScramUpsertion("scrammed", "SCRAM-SHA-256", Password(root.password))))
    told = {}
    for listener, mechanism, user, password in (
        (LONG, "PLAIN", "root", "root-secret"),
        (LONG, "SCRAM-SHA-512", "scrammed", root.password),
        (LONG, "SCRAM-SHA-256", "scrammed", root.password),
        (SHORT, "PLAIN", "root", "root-secret"),
        (SHORT, "SCRAM-SHA-512", "scrammed", root.password),
    ):
        with FramePeer(port_of(cluster, listener)) as peer:
            told[listener, mechanism] = lifetimes(peer, mechanism, user, password)
    with FramePeer(port_of(cluster, SECURE), ca=cluster.files.ca) as peer:
        told[SECURE, "SCRAM-SHA-512"] = lifetimes(peer, "SCRAM-SHA-512", "scrammed", root.password)
    assert told == {
        (LONG, "PLAIN"): [120_000],
        (LONG, "SCRAM-SHA-512"): [0, 60_000],
        (LONG, "SCRAM-SHA-256"): [0, 60_000],
        (SHORT, "PLAIN"): [SHORT_MS],
        (SHORT, "SCRAM-SHA-512"): [0, SHORT_MS],
        (SECURE, "SCRAM-SHA-512"): [0, DEFAULT_MS],
    }


# --- the end


@pytest.mark.requirement("R-07")
@pytest.mark.parametrize("request_", ["produce", "metadata", "api versions"])
def test_what_comes_after_the_end_is_neither_answered_nor_done(
    cluster: Cluster, clock: StandingClock, request_: str
) -> None:
    topic = f"untouched-{request_.replace(' ', '-')}"
    cluster.create_topic(topic)
    wanted = {
        "produce": (build(ApiKey.PRODUCE, acks=1, timeout_ms=1000, topic_data=[
            {"name": topic, "partition_data": [{"index": 0, "records": batch(b"late")}]}
        ]), 9),
        "metadata": (MetadataRequest(topics=[]), 9),
        "api versions": (ApiVersionsRequest(), 3),
    }[request_]  # fmt: skip
    before = killed(cluster)
    with FramePeer(port_of(cluster, SHORT)) as peer:
        expire(peer, clock)
        peer.send(*wanted)
        with pytest.raises(ConnectionError):
            peer.receive_raw()
    assert killed(cluster) == before + 1
    with FramePeer(port_of(cluster, OPEN)) as peer:
        asked = build(ApiKey.LIST_OFFSETS, replica_id=-1, topics=[
            {"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}
        ])  # fmt: skip
        assert peer.call(asked, 1).topics[0].partitions[0].offset == 0


@pytest.mark.requirement("R-08", "R-09")
def test_an_idle_connection_outlives_its_session_and_may_log_in_again(
    cluster: Cluster, clock: StandingClock, short: FramePeer
) -> None:
    before = killed(cluster)
    expire(short, clock)
    assert short.silent(0.2)
    assert renew(short).session_lifetime_ms == SHORT_MS
    assert served(short)
    assert killed(cluster) == before


@pytest.mark.requirement("R-10")
def test_a_request_that_came_in_time_is_answered_after_the_end(
    cluster: Cluster, clock: StandingClock, short: FramePeer
) -> None:
    cluster.create_topic("boundary")
    short.login("root")
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "boundary", "partitions": [partition]}]
    fetch = build(ApiKey.FETCH, max_wait_ms=60_000, min_bytes=1, topics=topics)
    sent = short.send(fetch, 11)
    until(lambda: int(beans(cluster, WAITING)[WAITING]["Value"]), lambda count: count == 1)
    clock.pass_over(SHORT_MS)
    later = short.send(MetadataRequest(topics=[]), 9)
    with FramePeer(port_of(cluster, OPEN)) as writer:
        data = [{"name": "boundary", "partition_data": [{"index": 0, "records": batch(b"news")}]}]
        writer.call(build(ApiKey.PRODUCE, acks=1, timeout_ms=5000, topic_data=data), 9)
    got, answer = short.receive(fetch, 11)
    assert (got, answer.error_code) == (sent, 0)
    with pytest.raises(ConnectionError):
        short.receive_raw()
    assert later > sent


@pytest.mark.requirement("R-11", "H-36")
@pytest.mark.parametrize("handshake", [0, 1])
def test_clients_that_were_never_told_are_cut_off_as_well(
    cluster: Cluster, clock: StandingClock, short: FramePeer, handshake: int
) -> None:
    before = killed(cluster), listener_bean(cluster, SHORT)["successful-authentication-no-reauth-total"]
    short.call(SaslHandshakeRequest(mechanism="PLAIN"), handshake)
    if handshake:
        assert short.call(SaslAuthenticateRequest(auth_bytes=TOKEN), 0).error_code == 0
    else:
        short.send_raw(TOKEN)
        assert short.receive_raw() == b""
    assert served(short)
    clock.pass_over(SHORT_MS)
    short.send(MetadataRequest(topics=[]), 9)
    with pytest.raises(ConnectionError):
        short.receive_raw()
    after = killed(cluster), listener_bean(cluster, SHORT)["successful-authentication-no-reauth-total"]
    assert after == (before[0] + 1, before[1] + 1)


@pytest.mark.requirement("R-12")
def test_listeners_without_a_login_know_no_sessions(cluster: Cluster, clock: StandingClock) -> None:
    # The node's own setting counts, and no listener's overrides it here.
    before = killed(cluster)
    ca = cluster.files.ca
    with (
        FramePeer(port_of(cluster, OPEN)) as plain,
        FramePeer(port_of(cluster, SSL), ca=ca) as tls,
        FramePeer(port_of(cluster, SECURE), ca=ca) as secure,
        FramePeer(port_of(cluster, SHORT)) as short,
    ):
        lifetimes(secure, "SCRAM-SHA-512", cluster.admin.name, cluster.admin.password)
        short.login("root")
        assert all(served(peer) for peer in (plain, tls, secure, short))
        clock.pass_over(DEFAULT_MS)
        assert served(plain)
        assert served(tls)
        for peer in (secure, short):
            peer.send(MetadataRequest(topics=[]), 9)
            assert peer.closed()
    assert killed(cluster) == before + 2


# --- the next session


@pytest.mark.requirement("R-14")
def test_a_failed_renewal_is_answered_and_ends_the_connection(cluster: Cluster, long: FramePeer) -> None:
    before = listener_bean(cluster, LONG)
    long.login("root")
    answer = renew(long, password="wrong")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message
    with pytest.raises(ConnectionError):
        long.call(SaslHandshakeRequest(mechanism="PLAIN"))
    after = listener_bean(cluster, LONG)
    assert after["failed-reauthentication-total"] == before["failed-reauthentication-total"] + 1
    assert after["failed-authentication-total"] == before["failed-authentication-total"]


@pytest.mark.requirement("H-39")
def test_what_may_not_change_is_named(cluster: Cluster) -> None:
    with FramePeer(port_of(cluster, LONG)) as peer:
        peer.login("root")
        answer = renew(peer, "alice")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "from User:root to User:alice" in answer.error_message
        assert peer.closed()
    with FramePeer(port_of(cluster, LONG)) as peer:
        peer.login("root")
        # A second handshake is never told that a mechanism on offer is not supported.
        assert peer.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-512")).error_code == ErrorCode.NONE
        refused: SaslAuthenticateResponse = peer.call(SaslAuthenticateRequest(auth_bytes=b"n,,n=root,r=x"))
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "from PLAIN to SCRAM-SHA-512" in (refused.error_message or "")
        assert peer.closed()


def test_a_session_is_not_renewed_twice_within_a_second(clock: StandingClock, long: FramePeer) -> None:
    long.login("root")
    assert renew(long).error_code == ErrorCode.NONE
    clock.move(999)
    shaken = long.call(SaslHandshakeRequest(mechanism="PLAIN"))
    assert shaken.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert served(long)
    clock.move(1)
    assert renew(long).error_code == ErrorCode.NONE
    assert served(long)


@pytest.mark.requirement("R-18")
@pytest.mark.parametrize("after_tokens", [0, 1])
def test_nothing_but_sasl_is_served_during_the_exchange(cluster: Cluster, long: FramePeer, after_tokens: int) -> None:
    cluster.as_user("busy")
    assert lifetimes(long, "SCRAM-SHA-512", "busy", "busy-secret")[-1] == 60_000
    long.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"))
    if after_tokens:
        challenge = long.call(SaslAuthenticateRequest(auth_bytes=b"n,,n=busy,r=abc"))
        assert challenge.auth_bytes
    answer = long.call(MetadataRequest(topics=None), 9)
    assert not answer.brokers
    assert not answer.topics
    assert long.closed()


@pytest.mark.requirement("R-17", "H-37")
@pytest.mark.parametrize("tls", [False, True])
def test_what_was_asked_before_is_answered_in_order_around_a_renewal(cluster: Cluster, tls: bool) -> None:
    topic = f"deep-{tls}"
    cluster.create_topic(topic)
    alice = cluster.admin
    value = secrets.token_bytes(200_000)
    with FramePeer(port_of(cluster, OPEN)) as writer:
        data = [{"name": topic, "partition_data": [{"index": 0, "records": batch(value)}]}]
        for _ in range(5):
            produced = writer.call(build(ApiKey.PRODUCE, acks=1, timeout_ms=5000, topic_data=data), 9)
            assert produced.responses[0].partition_responses[0].error_code == 0

    def fetch(offset: int, max_wait_ms: int = 0) -> Any:
        partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        topics = [{"topic": topic, "partitions": [partition]}]
        return build(ApiKey.FETCH, max_wait_ms=max_wait_ms, min_bytes=1, topics=topics)

    port, ca = (port_of(cluster, SECURE), cluster.files.ca) if tls else (port_of(cluster, LONG), None)
    with FramePeer(port, ca=ca) as peer:
        lifetimes(peer, "SCRAM-SHA-512", alice.name, alice.password)
        client = SaslClient(
            "SCRAM-SHA-512", client_mechanism("SCRAM-SHA-512", alice.name, alice.password, lambda: "pipelined")
        )
        # A slow one, at the end of the log, and large ones behind it; then the renewal, without waiting for any.
        expected = [(peer.send(fetch(5, 400), 11), 0)]
        expected += [(peer.send(fetch(n % 5), 11), (5 - n % 5) * len(value)) for n in range(40)]
        shaking = SaslHandshakeRequest(mechanism="SCRAM-SHA-512")
        handshake = peer.send(shaking)
        for sent, size in expected:
            got, answer = peer.receive(fetch(0), 11)
            assert got == sent
            assert len(answer.responses[0].partitions[0].records or b"") >= min(size, 1)
        got, shaken = peer.receive(shaking)
        assert got == handshake
        client.handshake_answered(shaken.error_code, shaken.mechanisms)
        while (step := client.next_request) is not None:
            assert not isinstance(step, SendHandshake)
            answer = peer.call(SaslAuthenticateRequest(auth_bytes=step.token))
            client.token_answered(
                answer.error_code, answer.error_message, answer.auth_bytes, answer.session_lifetime_ms
            )
        assert client.session_lifetime_ms > 0
        assert served(peer)
