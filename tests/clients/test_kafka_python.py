"""kafka-python against nodes of ours."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
)

from barnabas.model import acl
from tests.clients.nodes import ServedNode, until

# kafka-python leaves sockets of failed and of closed clients to the collector; they are collected here, test by test.
pytestmark = [
    pytest.mark.peer,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
WAIT_S = 120


@pytest.fixture(params=["plain", "secured"])
def node(request: pytest.FixtureRequest) -> ServedNode:
    found: ServedNode = request.getfixturevalue(request.param)
    return found


@pytest.fixture(autouse=True)
def _collect_leaks(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    # What kafka-python has logged holds errors, and these their tracebacks with the sockets.
    for when in ("setup", "call"):
        caplog.get_records(when).clear()
    gc.collect()


def create(node: ServedNode, name: str, partitions: int = 1) -> None:
    admin = KafkaAdminClient(**node.kafka_python())
    try:
        admin.create_topics([NewTopic(name, partitions, 1)])
    finally:
        admin.close()


def consume(consumer: Any, count: int) -> list[Any]:
    got: list[Any] = []
    until = time.monotonic() + WAIT_S
    while len(got) < count and time.monotonic() < until:
        for records in consumer.poll(1000).values():
            got += records
    assert len(got) == count
    return got


@pytest.mark.parametrize("codec", [None, "gzip"])
def test_records_come_back(node: ServedNode, name: str, codec: str | None) -> None:
    create(node, name)
    producer = KafkaProducer(**node.kafka_python(), compression_type=codec, acks="all")
    sent = [
        producer.send(name, key=f"k{i}".encode(), value=b"v" * i, headers=[("h", b"\x01"), ("h", b"\x02")])
        for i in range(200)
    ]
    producer.flush(WAIT_S)
    assert [f.get(WAIT_S).offset for f in sent] == list(range(200))
    producer.close()
    consumer = KafkaConsumer(name, **node.kafka_python(), group_id=name, auto_offset_reset="earliest")
    got = consume(consumer, 200)
    assert [(m.offset, m.key, m.value) for m in got] == [(i, f"k{i}".encode(), b"v" * i) for i in range(200)]
    assert list(got[0].headers) == [("h", b"\x01"), ("h", b"\x02")]
    consumer.close()


def test_a_group_goes_on_where_it_committed(node: ServedNode, name: str) -> None:
    create(node, name)
    producer = KafkaProducer(**node.kafka_python())
    for i in range(6):
        producer.send(name, value=str(i).encode(), timestamp_ms=1_700_000_000_000 + i * 1000).get(WAIT_S)
    producer.close()
    how = {"group_id": name, "auto_offset_reset": "earliest", "enable_auto_commit": False, "max_poll_records": 2}
    first = KafkaConsumer(name, **node.kafka_python(), **how)
    assert [m.value for m in consume(first, 2)] == [b"0", b"1"]
    first.commit()
    first.close()
    second = KafkaConsumer(name, **node.kafka_python(), **how)
    assert [m.value for m in consume(second, 4)] == [b"2", b"3", b"4", b"5"]
    partition = TopicPartition(name, 0)
    found = second.offsets_for_times({partition: 1_700_000_002_500})[partition]
    assert found.offset == 3
    second.seek(partition, found.offset)
    assert consume(second, 2)[0].value == b"3"
    assert second.end_offsets([partition]) == {partition: 6}
    second.close()


def test_administration(node: ServedNode, name: str) -> None:
    create(node, name)
    with pytest.raises(TopicAlreadyExistsError):
        create(node, name)
    admin = KafkaAdminClient(**node.kafka_python())
    assert name in admin.list_topics()
    (described,) = admin.describe_topics([name])
    assert len(described["partitions"]) == 1
    admin.delete_topics([name])
    assert name not in admin.list_topics()
    admin.close()


def test_a_wrong_password_is_refused(secured: ServedNode) -> None:
    since = len(secured.log())

    def told() -> str:
        """Try until the client gives up, which need not have come as far as its password by then."""
        with pytest.raises(KafkaError):
            KafkaConsumer(**secured.kafka_python("admin", "guess"), bootstrap_timeout_ms=2000)
        return secured.log()[since:]

    assert "login failed" in until(told, lambda text: "wrong password" in text, WAIT_S)


def test_without_rules_nothing_goes(secured: ServedNode, name: str) -> None:
    create(secured, name)
    user = secured.add_user(name)
    producer = KafkaProducer(**secured.kafka_python(user))
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send(name, b"x").get(WAIT_S)
    producer.close()
    secured.allow(user, acl.AclOperation.READ, acl.ResourceType.TOPIC, name)
    consumer = KafkaConsumer(name, **secured.kafka_python(user), group_id=name)
    with pytest.raises(GroupAuthorizationFailedError):
        consume(consumer, 1)
    consumer.close()
