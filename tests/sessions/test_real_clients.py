"""The clients of others against sessions that end: those that renew them, and those that cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.client.admin import Admin
from barnabas.client.admin.users import ScramDeletion
from barnabas.testing.cluster import Cluster
from barnabas.testing.users import User
from tests.clients.nodes import until

from .nodes import SECURE, WorkingClock, killed, listener_bean, session_settings

pytestmark = [
    pytest.mark.peer,
    # aiokafka lets transports go that it has closed without waiting for their end.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LIFE_MS: Final = 3000
WAIT_S: Final = 60


@pytest.fixture(scope="module")
def clock() -> Iterator[WorkingClock]:
    with WorkingClock() as found:
        yield found


@pytest.fixture(scope="module")
def cluster(clock: WorkingClock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = session_settings(connections__max__reauth__ms=str(LIFE_MS))
    with Cluster(tmp_path_factory.mktemp("clients"), settings, conduct=clock) as found:
        yield found


def counted(cluster: Cluster, name: str) -> int:
    return int(listener_bean(cluster, SECURE)[f"{name}-total"])


def user_of(cluster: Cluster, name: str) -> User:
    """Give a user who may use the topics and groups that begin with the name."""
    user = cluster.as_user(name)
    for operation in ("read", "write", "describe", "create"):
        user.allow(operation, "topic", name, prefixed=True)
    return user.allow("read", "group", name, prefixed=True)


def values(cluster: Cluster, topic: str, count: int) -> list[bytes]:
    """Give the first so many values in a topic's only partition."""
    consumer = Consumer({**cluster.admin.librdkafka, "group.id": "counting", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes] = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), timeout=WAIT_S)
            assert messages, f"only {len(found)} of {count} records"
            for message in messages:
                assert message.error() is None, message.error()
                found.append(message.value() or b"")
        return found
    finally:
        consumer.close()


def end_of(cluster: Cluster, topic: str) -> int:
    """Give where the topic's only partition ends."""
    consumer = Consumer({**cluster.admin.librdkafka, "group.id": "counting"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)[1])
    finally:
        consumer.close()


@pytest.mark.requirement("R-26", "R-28")
def test_confluent_kafka_keeps_its_connections_over_many_lives(cluster: Cluster) -> None:
    topic = "steady"
    cluster.create_topic(topic)
    user = user_of(cluster, topic)
    names = ("successful-reauthentication", "failed-reauthentication", "successful-authentication-no-reauth")
    before, kills = [counted(cluster, name) for name in names], killed(cluster)
    failed: list[Any] = []
    sent = 0
    producer = Producer({**user.librdkafka, "linger.ms": 0})
    consumer = Consumer({**user.librdkafka, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    got: list[bytes] = []
    created = None
    try:
        # Producer and consumer hold three connections or so: each is renewed a few times.
        while counted(cluster, names[0]) < before[0] + 8:
            producer.produce(topic, b"%d" % sent, on_delivery=lambda e, _: failed.append(e) if e else None)
            sent += 1
            producer.poll(0)
            message = consumer.poll(0.05)
            if message is not None:
                assert message.error() is None
                got.append(message.value() or b"")
                created = created or counted(cluster, "connection-creation")
        assert producer.flush(WAIT_S) == 0
        assert counted(cluster, "connection-creation") == created
    finally:
        consumer.close()
    assert failed == []
    assert values(cluster, topic, sent) == [b"%d" % n for n in range(sent)]
    assert got == [b"%d" % n for n in range(len(got))]
    after = [counted(cluster, name) for name in names]
    assert after[1:] == before[1:]
    assert killed(cluster) == kills


@pytest.mark.requirement("H-38")
async def test_aiokafka_is_cut_off_and_loses_no_record(cluster: Cluster) -> None:
    topic = "cut-off"
    cluster.create_topic(topic)
    user = user_of(cluster, topic)
    kills = killed(cluster)
    sent = 0
    async with AIOKafkaProducer(**user.aiokafka, enable_idempotence=True, acks="all") as producer:
        async with asyncio.timeout(4 * LIFE_MS / 1000 + WAIT_S):
            while killed(cluster) < kills + 3:
                await producer.send_and_wait(topic, b"%d" % sent)
                sent += 1
                await asyncio.sleep(0.02)
    assert await asyncio.to_thread(values, cluster, topic, sent) == [b"%d" % n for n in range(sent)]
    assert await asyncio.to_thread(end_of, cluster, topic) == sent


@pytest.mark.requirement("R-15")
def test_a_user_who_is_deleted_is_out_when_the_session_ends(cluster: Cluster, clock: WorkingClock) -> None:
    topic = "deleted"
    cluster.create_topic(topic)
    user = user_of(cluster, topic)
    rules = listing(cluster)
    errors: list[Any] = []
    producer = Producer({**user.librdkafka, "linger.ms": 0, "error_cb": errors.append, "message.timeout.ms": 60_000})
    delivered: list[int] = []

    def report(error: Any, message: Any) -> None:
        if error is None:
            delivered.append(message.offset())

    until(lambda: produce(producer, topic, report, delivered), lambda found: len(found) > 5)

    async def delete(admin: Admin) -> None:
        assert await admin.alter_scram(deletions=[ScramDeletion(user.name, "SCRAM-SHA-512")]) == {user.name: None}

    asyncio.run(as_admin(cluster, delete))
    gone = clock.monotonic_ms()
    # No rule has changed, and until its session ends the producer goes on.
    assert listing(cluster) == rules
    while clock.monotonic_ms() <= gone + LIFE_MS:
        produce(producer, topic, report, delivered)
    last = end_of(cluster, topic)
    until(lambda: produce(producer, topic, report, errors), bool, WAIT_S)
    failures = counted(cluster, "failed-reauthentication")
    assert any("uthentication" in error.str() for error in errors), errors
    assert failures >= 1
    assert end_of(cluster, topic) == last
    producer.purge()
    producer.flush(1)


def produce(producer: Producer, topic: str, report: Any, heard: list[Any]) -> list[Any]:
    """Send one record, hear of earlier ones, and give what was heard."""
    producer.produce(topic, b"x", on_delivery=report)
    producer.poll(0.02)
    return heard


def listing(cluster: Cluster) -> int:
    """Give how many rules there are."""

    async def count(_: object) -> int:
        return len(cluster.node.image().acls.by_id)

    found: int = cluster.run(count)
    return found


async def as_admin(cluster: Cluster, work: Any) -> Any:
    async with Admin(cluster.admin.barnabas) as admin:
        return await work(admin)
