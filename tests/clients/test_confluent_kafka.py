"""confluent-kafka (librdkafka) against nodes of ours, unchanged."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from barnabas.model import acl
from tests.clients.nodes import ServedNode

pytestmark = pytest.mark.peer
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
WAIT_S = 120


@pytest.fixture(params=["plain", "secured"])
def node(request: pytest.FixtureRequest) -> ServedNode:
    found: ServedNode = request.getfixturevalue(request.param)
    return found


def create(node: ServedNode, topic: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
    admin = AdminClient(node.librdkafka())
    admin.create_topics([NewTopic(topic, partitions, 1, config=config or {})])[topic].result(WAIT_S)


def produce(config: dict[str, Any], topic: str, count: int, **how: Any) -> list[Message]:
    """Produce `count` records, all acknowledged; gives the delivery reports."""
    reports: list[Message] = []
    producer = Producer(config)
    for i in range(count):
        producer.produce(
            topic, key=f"k{i}".encode(), value=f"v{i}".encode() * 20, on_delivery=lambda _, m: reports.append(m), **how
        )
    assert producer.flush(WAIT_S) == 0
    assert [m.error() for m in reports] == [None] * count
    return reports


def consume(consumer: Consumer, count: int) -> list[Message]:
    got: list[Message] = []
    while len(got) < count:
        messages = consumer.consume(count - len(got), timeout=WAIT_S)
        assert messages, f"only {len(got)} of {count} records came"
        for message in messages:
            assert message.error() is None, message.error()
        got += messages
    return got


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_in_every_codec(node: ServedNode, name: str, codec: str) -> None:
    create(node, name, partitions=2)
    headers = [("trace", b"\x00\x01"), ("none", None), ("trace", b"again")]
    for number in range(2):
        produce(
            {**node.librdkafka(), "compression.type": codec, "enable.idempotence": "true"},
            name,
            100,
            partition=number,
            headers=headers,
        )
    consumer = Consumer({**node.librdkafka(), "group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    got = consume(consumer, 200)
    consumer.close()
    by_partition = {p: [m for m in got if m.partition() == p] for p in (0, 1)}
    for messages in by_partition.values():
        assert [m.offset() for m in messages] == list(range(100))
        assert [(m.key(), m.value()) for m in messages] == [
            (f"k{i}".encode(), f"v{i}".encode() * 20) for i in range(100)
        ]
        assert messages[0].headers() == headers


def test_a_group_goes_on_where_it_committed(node: ServedNode, name: str) -> None:
    create(node, name)
    produce(node.librdkafka(), name, 10)
    config = {
        **node.librdkafka(),
        "group.id": name,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
    }
    first = Consumer(config)
    first.subscribe([name])
    assert [m.offset() for m in consume(first, 4)] == [0, 1, 2, 3]
    first.commit(offsets=[TopicPartition(name, 0, 4, metadata="so far")], asynchronous=False)
    first.close()
    second = Consumer(config)
    second.subscribe([name])
    assert [m.offset() for m in consume(second, 6)] == [4, 5, 6, 7, 8, 9]
    (committed,) = second.committed([TopicPartition(name, 0)], timeout=WAIT_S)
    assert (committed.offset, committed.metadata) == (4, "so far")
    second.close()


def test_two_members_share_the_partitions(node: ServedNode, name: str) -> None:
    create(node, name, partitions=4)
    config = {**node.librdkafka(), "group.id": name, "auto.offset.reset": "earliest"}
    members = [Consumer(config) for _ in range(2)]
    for member in members:
        member.subscribe([name])
    shares: list[set[int]] = [set(), set()]
    deadline = time.monotonic() + WAIT_S
    while not (all(shares) and len(shares[0] | shares[1]) == 4) and time.monotonic() < deadline:
        for member in members:
            member.poll(0.1)
        shares = [{p.partition for p in m.assignment()} for m in members]
    assert sorted(shares[0] | shares[1]) == [0, 1, 2, 3]
    assert not shares[0] & shares[1]
    for member in members:
        member.close()


def test_seeking_by_time_and_to_an_offset(node: ServedNode, name: str) -> None:
    create(node, name)
    producer = Producer(node.librdkafka())
    for i in range(10):
        producer.produce(name, value=str(i).encode(), timestamp=1_700_000_000_000 + i * 1000)
        assert producer.flush(WAIT_S) == 0  # a batch each
    consumer = Consumer({**node.librdkafka(), "group.id": name})
    (found,) = consumer.offsets_for_times([TopicPartition(name, 0, 1_700_000_004_500)], timeout=WAIT_S)
    assert found.offset == 5
    consumer.assign([TopicPartition(name, 0, found.offset)])
    assert consume(consumer, 1)[0].value() == b"5"
    consumer.seek(TopicPartition(name, 0, 2))
    assert consume(consumer, 1)[0].value() == b"2"
    assert consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=WAIT_S) == (0, 10)
    consumer.close()


def test_administration(node: ServedNode, name: str) -> None:
    admin = AdminClient(node.librdkafka())
    create(node, name, partitions=2, config={"retention.ms": "3600000"})
    with pytest.raises(KafkaException) as again:
        create(node, name)
    assert again.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.create_partitions([NewPartitions(name, 3)])[name].result(WAIT_S)
    (described,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
    config = described.result(WAIT_S)
    assert config["retention.ms"].value == "3600000"
    assert not config["retention.ms"].is_default
    assert config["segment.bytes"].is_default
    produce(node.librdkafka(), name, 7, partition=2)
    newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    (end,) = admin.list_offsets({TopicPartition(name, 2): newest}).values()
    assert end.result(WAIT_S).offset == 7
    (deleted,) = admin.delete_records([TopicPartition(name, 2, 5)]).values()
    assert deleted.result(WAIT_S).low_watermark == 5
    cluster = admin.describe_cluster().result(WAIT_S)
    assert [n.id for n in cluster.nodes] == [1]
    assert name in admin.list_topics(timeout=WAIT_S).topics
    assert len(admin.list_topics(name, timeout=WAIT_S).topics[name].partitions) == 3
    admin.delete_topics([name])[name].result(WAIT_S)
    # all topics: asked for one by name, the node would create it (auto.create.topics.enable)
    assert name not in admin.list_topics(timeout=WAIT_S).topics


def test_groups_are_listed_described_and_deleted(node: ServedNode, name: str) -> None:
    create(node, name)
    produce(node.librdkafka(), name, 3)
    consumer = Consumer({**node.librdkafka(), "group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    consume(consumer, 3)
    admin = AdminClient(node.librdkafka())
    (described,) = admin.describe_consumer_groups([name]).values()
    group = described.result(WAIT_S)
    assert (group.state.name, len(group.members)) == ("STABLE", 1)
    consumer.close()
    assert name in {g.group_id for g in admin.list_consumer_groups().result(WAIT_S).valid}
    admin.delete_consumer_groups([name])[name].result(WAIT_S)
    assert name not in {g.group_id for g in admin.list_consumer_groups().result(WAIT_S).valid}


def test_a_wrong_password_is_refused(secured: ServedNode) -> None:
    errors: list[KafkaError] = []
    config: dict[str, Any] = {**secured.librdkafka("admin", "guess"), "error_cb": errors.append}
    admin = AdminClient(config)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3)
    deadline = time.monotonic() + WAIT_S
    while KafkaError._AUTHENTICATION not in {e.code() for e in errors}:
        assert time.monotonic() < deadline, errors
        admin.poll(0.1)
    assert any("credentials" in e.str() for e in errors)


def test_a_user_without_rules_may_do_nothing(secured: ServedNode, name: str) -> None:
    create(secured, name)
    user = secured.add_user(name)
    config = secured.librdkafka(user)
    producer = Producer(config)
    reports: list[KafkaError | None] = []
    producer.produce(name, b"x", on_delivery=lambda e, _: reports.append(e))
    producer.flush(WAIT_S)
    (refusal,) = reports
    assert refusal is not None
    assert refusal.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    admin = AdminClient(config)
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic(f"{name}-2", 1, 1)])[f"{name}-2"].result(WAIT_S)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert name not in admin.list_topics(timeout=WAIT_S).topics


def test_rules_grant_what_they_say(secured: ServedNode, name: str) -> None:
    create(secured, name)
    user = secured.add_user(name)
    secured.allow(user, acl.AclOperation.WRITE, acl.ResourceType.TOPIC, name)
    produce(secured.librdkafka(user), name, 2)
    consumer = Consumer({**secured.librdkafka(user), "group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    message = consumer.poll(WAIT_S)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.close()
    secured.allow(user, acl.AclOperation.READ, acl.ResourceType.TOPIC, name)
    secured.allow(user, acl.AclOperation.READ, acl.ResourceType.GROUP, name)
    allowed = Consumer({**secured.librdkafka(user), "group.id": name, "auto.offset.reset": "earliest"})
    allowed.subscribe([name])
    assert len(consume(allowed, 2)) == 2
    allowed.close()
