"""Our transactions against a real Apache Kafka, with librdkafka as the reader and as the rival."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest
from confluent_kafka import Consumer

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.config import ClientConfig
from barnabas.client.group_consumer import GroupConsumer
from barnabas.client.transaction_errors import AbortableTransactionError, ProducerFencedError
from barnabas.client.transactional_producer import TransactionalProducer
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.batch_writer import batch_of_body
from barnabas.wire.errors import ApiError
from barnabas.wire.record_batch import BATCH_HEADER_SIZE, Record, encode_batch
from tests.peers.kafka import RealKafka

pytestmark = pytest.mark.peer


def config(kafka: RealKafka, **more: str) -> ClientConfig:
    return ClientConfig.from_properties(kafka.client_properties(), **more)


@pytest.fixture
async def topic(real_kafka: RealKafka) -> AsyncIterator[str]:
    name = f"x-{uuid.uuid4().hex[:10]}"
    async with Admin(config(real_kafka)) as admin:
        assert await admin.create_topics([NewTopic(name, 2, 1)]) == {name: None}
        yield name
        await admin.delete_topics([name])


def committed(kafka: RealKafka, topic: str, count: int) -> list[bytes]:
    """Give the first `count` values that librdkafka's reader of what is committed sees, or fewer after two minutes."""
    reader = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap(),
            "group.id": f"r-{uuid.uuid4().hex}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    reader.subscribe([topic])
    try:
        return sorted(message.value() or b"" for message in reader.consume(count, 120))
    finally:
        reader.close()


async def test_only_what_is_committed_is_seen(real_kafka: RealKafka, topic: str) -> None:
    whole = batch_of_body(encode_batch([Record(0, 5, None, b"whole")])[BATCH_HEADER_SIZE:], 1, 5)
    async with TransactionalProducer(config(real_kafka, transactional_id=topic)) as producer:
        await producer.init_transactions()
        for n, commit in enumerate((True, False, True)):
            await producer.begin()
            for partition in (0, 1):
                await producer.send(topic, b"%d-%d" % (n, partition), partition=partition)
            await producer.flush()
            await (producer.commit() if commit else producer.abort())
        async with producer.transaction():
            await producer.send_encoded(TopicPartition(topic, 0), whole)
    seen = await asyncio.to_thread(committed, real_kafka, topic, 5)
    assert seen == [b"0-0", b"0-1", b"2-0", b"2-1", b"whole"]


async def test_a_zombie_is_fenced(real_kafka: RealKafka, topic: str) -> None:
    own = config(real_kafka, transactional_id=topic)
    async with TransactionalProducer(own) as old, TransactionalProducer(own) as new:
        await old.init_transactions()
        await old.begin()
        await (await old.send(topic, b"old", partition=0))
        await new.init_transactions()
        with pytest.raises(ProducerFencedError):
            await old.commit()
        async with new.transaction():
            await new.send(topic, b"new", partition=0)
    assert await asyncio.to_thread(committed, real_kafka, topic, 1) == [b"new"]


async def test_a_zombie_that_writes_learns_of_it(real_kafka: RealKafka, topic: str) -> None:
    own = config(real_kafka, transactional_id=topic)
    async with TransactionalProducer(own) as old, TransactionalProducer(own) as new:
        await old.init_transactions()
        await old.begin()
        await new.init_transactions()
        delivery = await old.send(topic, b"zombie", partition=0)
        with pytest.raises(ApiError):
            await delivery
        with pytest.raises((AbortableTransactionError, ProducerFencedError)):
            await old.commit()


async def test_offsets_go_with_the_records(real_kafka: RealKafka, topic: str) -> None:
    group = f"g-{topic}"
    reading = config(real_kafka, group_id=group, auto_offset_reset="earliest", enable_auto_commit="false")
    own = config(real_kafka, transactional_id=topic)
    async with (
        TransactionalProducer(own) as producer,
        GroupConsumer(reading, [topic]) as consumer,
        Admin(config(real_kafka)) as admin,
        asyncio.timeout(120),
    ):
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send(topic, b"in", partition=0)
        while not (fetched := await consumer.poll(500)):
            pass
        offsets = {batches.partition: batches.next for batches in fetched}
        await producer.begin()
        await producer.send(topic, b"out", partition=1)
        await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        await producer.abort()
        assert await admin.group_offsets(group, offsets, require_stable=True) == {}
        await producer.begin()
        await producer.send(topic, b"out", partition=1)
        await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        await producer.commit()
        stable = await admin.group_offsets(group, offsets, require_stable=True)
        assert {p: o.offset for p, o in stable.items()} == offsets
    assert await asyncio.to_thread(committed, real_kafka, topic, 2) == [b"in", b"out"]
