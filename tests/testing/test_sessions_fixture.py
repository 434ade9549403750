"""The fixture for sessions that end, used as docs/testing.md shows it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.testing.plugin import MakeSessions
from barnabas.testing.session_events import Kind

pytestmark = pytest.mark.slow


@contextmanager
def our_producer(settings: dict[str, Any], topic: str) -> Iterator[None]:
    """Let a producer work in a thread."""
    stop = threading.Event()
    producer = Producer({**settings, "linger.ms": 0})

    def work() -> None:
        while not stop.wait(0.02):
            producer.produce(topic, b"x")
            producer.poll(0)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        producer.purge()
        producer.flush(1)


@pytest.mark.requirement("R-15")
def test_our_producer_renews_its_sessions(barnabas_sessions: MakeSessions) -> None:
    node = barnabas_sessions(lifetimes_ms=(8000, 6000, 9000))  # librdkafka renews at 90 % of each
    node.create_topic("orders")
    alice = node.as_user("alice").allow("write", "topic", "orders")
    with our_producer(alice.librdkafka, "orders"):
        node.wait_for(lambda: node.count(Kind.RENEWED) >= 2)
        assert node.count(Kind.CUT_OFF) == 0
        assert {one.principal for one in node.sessions()} == {"User:alice"}
        logins = node.count(Kind.LOGGED_IN)
        node.expire_now(node.sessions()[-1].connection)
        node.wait_for(lambda: node.count(Kind.CUT_OFF) == 1 and node.count(Kind.LOGGED_IN) > logins)
        node.change_password("alice", "another")
        node.wait_for(lambda: node.count(Kind.RENEWAL_REFUSED, Kind.REFUSED))


def test_what_does_not_happen_is_told_with_what_did(barnabas_sessions: MakeSessions) -> None:
    node = barnabas_sessions(protocol="SASL_PLAINTEXT")
    with pytest.raises(TimeoutError, match=r"after 0.1 s not as wanted; seen: \[\]"):
        node.wait_for(lambda: node.count(Kind.OPENED), 0.1)
    assert not node.expire_now("nobody")
