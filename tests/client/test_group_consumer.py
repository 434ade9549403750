"""Members of classic groups against a real Apache Kafka."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.config import ClientConfig
from barnabas.client.group_consumer import GroupConsumer
from barnabas.client.producer import Producer
from barnabas.model.topic_partition import TopicPartition
from tests.peers.kafka import RealKafka

pytestmark = pytest.mark.peer


async def test_two_members_share_a_topic_and_keep_their_place(real_kafka: RealKafka) -> None:
    topic = f"g-{uuid.uuid4().hex[:10]}"
    config = ClientConfig.from_properties(
        real_kafka.client_properties(), group_id=topic, auto_offset_reset="earliest", heartbeat_interval_ms="50"
    )
    async with Admin(config) as admin, Producer(config) as producer, asyncio.timeout(60):
        await admin.create_topics([NewTopic(topic, 4, 1)])
        for n in range(40):
            await producer.send(topic, b"%d" % n, partition=n % 4)
        await producer.flush()
        async with GroupConsumer(config, [topic]) as first:
            values = await poll(first, 40)
            assert len(first.membership.partitions) == 4
            async with GroupConsumer(config, [topic]) as second:
                await asyncio.gather(until_shared(first), until_shared(second))
                held = [*first.membership.partitions, *second.membership.partitions]
                assert sorted(held) == [TopicPartition(topic, p) for p in range(4)]
                described = await admin.describe_group(topic)
                assert (described.state, len(described.members)) == ("Stable", 2)
        assert sorted(values) == sorted(b"%d" % n for n in range(40))
        offsets = await admin.group_offsets(topic)
        assert {p.partition: o.offset for p, o in offsets.items()} == {0: 10, 1: 10, 2: 10, 3: 10}
        await producer.send(topic, b"new", partition=3)
        await producer.flush()
        async with GroupConsumer(config, [topic]) as third:
            assert await poll(third, 1) == [b"new"]
        await admin.delete_groups([topic])
        await admin.delete_topics([topic])


async def poll(consumer: GroupConsumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    while len(values) < count:
        for batches in await consumer.poll(200):
            values += [v for v in batches.columns().values if v is not None]
    return values


async def until_shared(consumer: GroupConsumer) -> None:
    while len(consumer.membership.partitions) != 2 or consumer.membership.must_join:
        await consumer.poll(50)
