"""librdkafka's transactional producers on a secured node: what is committed is read, what is aborted is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from barnabas.testing.cluster import Cluster

WAIT_S = 60.0
ONE_PARTITION = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("node"), ONE_PARTITION) as running:
        yield running


def producer(cluster: Cluster, transactional_id: str, **settings: Any) -> Producer:
    made = Producer({**cluster.admin.librdkafka, "transactional.id": transactional_id, "linger.ms": 0, **settings})
    made.init_transactions(WAIT_S)
    return made


def send(producer: Producer, topic: str, *values: str) -> None:
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(WAIT_S) == 0


def read(cluster: Cluster, topic: str, *, isolation: str = "read_committed") -> list[str]:
    """Give the values of partition 0 up to what may be read now."""
    settings = {"group.id": "reader", "isolation.level": isolation, "enable.partition.eof": True}
    consumer = Consumer({**cluster.admin.librdkafka, **settings, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []
    try:
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None
            if message.error() is not None:
                return found
            value = message.value()
            assert isinstance(value, bytes)
            found.append(value.decode())
    finally:
        consumer.close()


def test_what_is_committed_is_read_and_what_is_aborted_is_not(cluster: Cluster) -> None:
    cluster.create_topic("outcomes", 1)
    one = producer(cluster, "outcomes")
    one.begin_transaction()
    send(one, "outcomes", "a", "b")
    one.commit_transaction(WAIT_S)
    one.begin_transaction()
    send(one, "outcomes", "c")
    one.abort_transaction(WAIT_S)
    one.begin_transaction()
    send(one, "outcomes", "d")
    one.commit_transaction(WAIT_S)
    assert read(cluster, "outcomes") == ["a", "b", "d"]
    assert read(cluster, "outcomes", isolation="read_uncommitted") == ["a", "b", "c", "d"]


def test_nobody_reads_past_an_open_transaction(cluster: Cluster) -> None:
    cluster.create_topic("open", 1)
    one = producer(cluster, "open")
    one.begin_transaction()
    send(one, "open", "a")
    plain = Producer(cluster.admin.librdkafka)
    send(plain, "open", "after")
    assert read(cluster, "open") == []
    one.commit_transaction(WAIT_S)
    assert read(cluster, "open") == ["a", "after"]


def test_a_second_producer_of_the_same_id_fences_the_first(cluster: Cluster) -> None:
    cluster.create_topic("fenced", 1)
    zombie = producer(cluster, "fenced")
    zombie.begin_transaction()
    send(zombie, "fenced", "lost")
    successor = producer(cluster, "fenced")
    with pytest.raises(KafkaException, match=r"(?i)fenced"):
        zombie.commit_transaction(WAIT_S)
    successor.begin_transaction()
    send(successor, "fenced", "kept")
    successor.commit_transaction(WAIT_S)
    assert read(cluster, "fenced") == ["kept"]


def test_offsets_are_committed_with_what_was_made_of_the_records(cluster: Cluster) -> None:
    cluster.create_topic("input", 1)
    cluster.create_topic("output", 1)
    send(Producer(cluster.admin.librdkafka), "input", "1", "2", "3")
    settings = {"group.id": "processor", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({**cluster.admin.librdkafka, **settings})
    consumer.subscribe(["input"])
    processor = producer(cluster, "processor")
    try:
        records: list[Message] = []
        while len(records) < 3:
            records += consumer.consume(3 - len(records), WAIT_S)
        for commits in (False, True):
            processor.begin_transaction()
            send(processor, "output", *(f"{record.value()!r}" for record in records))
            where = [TopicPartition("input", 0, 3)]
            processor.send_offsets_to_transaction(where, consumer.consumer_group_metadata(), WAIT_S)
            if commits:
                processor.commit_transaction(WAIT_S)
            else:
                processor.abort_transaction(WAIT_S)
                assert consumer.committed([TopicPartition("input", 0)], WAIT_S)[0].offset < 0
        assert consumer.committed([TopicPartition("input", 0)], WAIT_S)[0].offset == 3
    finally:
        consumer.close()
    assert read(cluster, "output") == ["b'1'", "b'2'", "b'3'"]


def test_transactions_outlive_a_restart(tmp_path: Path) -> None:
    with Cluster(tmp_path / "node", ONE_PARTITION) as cluster:
        cluster.create_topic("kept", 1)
        one = producer(cluster, "kept")
        one.begin_transaction()
        send(one, "kept", "a")
        one.commit_transaction(WAIT_S)
        one.begin_transaction()
        send(one, "kept", "b")
        cluster.stop()
        cluster.start()
        one.commit_transaction(WAIT_S)
        assert read(cluster, "kept") == ["a", "b"]
