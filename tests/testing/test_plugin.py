"""The pytest plugin, used as its users do."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import KafkaProducer

from barnabas.core.metadata.topic_names import INTERNAL_TOPICS
from barnabas.testing.cluster import Cluster


def produce(config: dict[str, str], topic: str, value: bytes = b"hello") -> KafkaError | None:
    """Give what the broker said of one record."""
    outcome: list[KafkaError | None] = []
    producer = Producer({**config, "message.timeout.ms": "60000"})
    producer.produce(topic, value, on_delivery=lambda error, _: outcome.append(error))
    producer.flush(90)
    return outcome[0]


def test_a_user_may_do_what_it_was_allowed_and_nothing_else(barnabas: Cluster) -> None:
    barnabas.create_topic("orders", partitions=3)
    alice = barnabas.as_user("alice").allow("write", "topic", "orders")
    assert produce(alice.librdkafka, "orders") is None
    refused = produce(barnabas.as_user("mallory").librdkafka, "orders")
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_deny_beats_allow(barnabas: Cluster) -> None:
    barnabas.create_topic("orders")
    alice = barnabas.as_user("alice").allow("write", "topic", "ord", prefixed=True).deny("write", "topic", "orders")
    refused = produce(alice.librdkafka, "orders")
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_kafka_python_connects_with_its_own_spelling(barnabas: Cluster) -> None:
    barnabas.create_topic("orders")
    alice = barnabas.as_user("alice").allow("write", "topic", "orders")
    producer = KafkaProducer(**alice.kafka_python)
    assert producer.send("orders", b"hello").get(timeout=60).offset == 0
    producer.close()


async def test_aiokafka_connects_with_its_own_spelling(barnabas: Cluster) -> None:
    from aiokafka import AIOKafkaProducer

    barnabas.create_topic("orders")
    alice = barnabas.as_user("alice").allow("write", "topic", "orders")
    producer = AIOKafkaProducer(**alice.aiokafka)
    await producer.start()
    try:
        assert (await producer.send_and_wait("orders", b"hello")).offset == 0
    finally:
        await producer.stop()


def test_a_wrong_password_is_refused(barnabas: Cluster) -> None:
    alice = barnabas.as_user("alice").librdkafka
    errors: list[KafkaError] = []
    stranger = Producer({**alice, "sasl.password": "wrong", "error_cb": errors.append, "log_level": 0})
    with pytest.raises(KafkaException):
        stranger.list_topics(timeout=1)
    until = time.monotonic() + 60
    while KafkaError._AUTHENTICATION not in [e.code() for e in errors]:
        assert time.monotonic() < until, errors
        stranger.poll(1)


@pytest.fixture
def left_behind(barnabas_cluster: Cluster) -> None:
    """Have somebody who shares the cluster leave something in it."""
    barnabas_cluster.create_topic("left-behind")
    barnabas_cluster.as_user("somebody").allow("write", "topic", "left-behind")


def test_every_test_begins_with_an_empty_cluster(left_behind: None, barnabas: Cluster) -> None:
    assert set(barnabas.node.image().topics.by_name) <= INTERNAL_TOPICS
    assert not barnabas.node.image().acls.by_id
    consumer = Consumer({**barnabas.admin.librdkafka, "group.id": "g"})
    assert not [t for t in consumer.list_topics(timeout=60).topics if not t.startswith("__")]
    consumer.close()


def test_a_cluster_starts_and_stops_in_well_under_a_second(tmp_path_factory: pytest.TempPathFactory) -> None:
    # Of the processor's time, generously: what others take of a busy machine is not ours. `make bench` has the figure.
    begun = time.process_time()
    with Cluster(tmp_path_factory.mktemp("quick")) as cluster:
        started_s = time.process_time() - begun
        assert cluster.bootstrap.startswith("127.0.0.1:")
    assert started_s < 5


def test_data_outlives_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    cluster = Cluster(tmp_path_factory.mktemp("kept"))
    with cluster:
        cluster.create_topic("orders")
        assert produce(cluster.admin.librdkafka, "orders", b"kept") is None
    with cluster:
        consumer = Consumer(
            {**cluster.admin.librdkafka, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        consumer.subscribe(["orders"])
        found = consumer.consume(1, 60)
        consumer.close()
    assert [m.value() for m in found] == [b"kept"]
