"""Producing and fetching against a real Apache Kafka, with its own tools and librdkafka as witnesses."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest
from confluent_kafka import Producer as LibrdkafkaProducer

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.config import ClientConfig
from barnabas.client.consumer import PartitionFetcher
from barnabas.client.producer import Producer
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.record_batch import Columns, Record
from tests.peers.kafka import RealKafka
from tests.peers.tools import CONSOLE_CONSUMER, run_tool

pytestmark = pytest.mark.peer


def config(kafka: RealKafka, protocol: str = "PLAINTEXT", **more: str) -> ClientConfig:
    return ClientConfig.from_properties(kafka.client_properties(protocol), **more)


@pytest.fixture
async def topic(real_kafka: RealKafka) -> AsyncIterator[str]:
    name = f"p-{uuid.uuid4().hex[:10]}"
    async with Admin(config(real_kafka)) as admin:
        assert await admin.create_topics([NewTopic(name, 3, 1, configs={"max.message.bytes": "20000"})]) == {name: None}
        yield name
        await admin.delete_topics([name])


async def read(kafka: RealKafka, partitions: list[TopicPartition], count: int, **more: str) -> dict[int, Columns]:
    """Read `count` records from the beginning."""
    found = {p.partition: Columns.empty() for p in partitions}
    async with PartitionFetcher(config(kafka, **more)) as fetcher, asyncio.timeout(60):
        fetcher.assign(await fetcher.start_offsets(partitions, "earliest"))
        while sum(len(c.offsets) for c in found.values()) < count:
            for batches in await fetcher.fetch(500):
                columns = batches.columns()
                into = found[batches.partition.partition]
                into.offsets.extend(columns.offsets)
                into.keys.extend(columns.keys)
                into.values.extend(columns.values)
                into.headers.extend(columns.headers)
                into.timestamps.extend(columns.timestamps)
    return found


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_kafkas_own_consumer_reads_what_we_write(real_kafka: RealKafka, topic: str, compression: str) -> None:
    async with Producer(config(real_kafka, "SASL_SSL", compression_type=compression)) as producer:
        first = await producer.send(topic, b"v1", key=b"k", headers=[("h", b"x"), ("n", None)], timestamp=1700000000000)
        await producer.send(topic, None, key=b"k")
        where = await first
    read_by_java = run_tool(
        CONSOLE_CONSUMER,
        *("--bootstrap-server", real_kafka.bootstrap(), "--topic", topic, "--from-beginning"),
        *("--max-messages", "2", "--timeout-ms", "60000"),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true"),
        *("--formatter-property", "print.timestamp=true", "--formatter-property", "print.partition=true"),
    )
    assert f"CreateTime:1700000000000\tPartition:{where.partition}\th:x,n:null\tk\tv1\n" in read_by_java
    assert "\tk\tnull\n" in read_by_java


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_SSL"])
async def test_every_record_comes_back_once_and_in_order(real_kafka: RealKafka, topic: str, protocol: str) -> None:
    async with Producer(config(real_kafka, protocol, compression_type="lz4")) as producer:
        deliveries = [await producer.send(topic, b"%d" % n, key=b"%d" % (n % 50)) for n in range(5000)]
        await producer.flush()
        places = [await d for d in deliveries]
    found = await read(real_kafka, [TopicPartition(topic, p) for p in range(3)], 5000)
    for n, place in enumerate(places):
        assert found[place.partition].values[place.offset] == b"%d" % n
    assert all(c.offsets == list(range(len(c.offsets))) for c in found.values())


async def test_many_records_of_one_partition_go_in_whole_batches(real_kafka: RealKafka, topic: str) -> None:
    partition = TopicPartition(topic, 1)
    async with Producer(config(real_kafka)) as producer:
        batches = await producer.send_many(partition, [Record(0, n, None, b"x" * 100) for n in range(1000)])
        await producer.flush()
    assert 1 < len(batches) < 20
    found = await read(real_kafka, [partition], 1000)
    assert found[1].timestamps == list(range(1000))


async def test_a_batch_that_is_too_large_is_cut(real_kafka: RealKafka, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    async with Producer(config(real_kafka, batch_size="500000", linger_ms="1000")) as producer:
        batches = await producer.send_many(partition, [Record(0, n, None, b"%04d" % n * 200) for n in range(300)])
        await producer.flush()
        assert len(batches) == 1
        await batches[0]
        with pytest.raises(ApiError, match="MESSAGE_TOO_LARGE"):
            await (await producer.send(topic, b"x" * 30000, partition=0))
        await (await producer.send(topic, b"after", partition=0))
    found = await read(real_kafka, [partition], 301)
    assert found[0].values == [b"%04d" % n * 200 for n in range(300)] + [b"after"]


async def test_no_permission_names_the_topic(real_kafka: RealKafka, topic: str) -> None:
    alice = ClientConfig.from_properties(real_kafka.client_properties("SASL_SSL", "alice"))
    async with Producer(alice) as producer:
        with pytest.raises(ApiError, match=topic) as refused:
            await producer.send(topic, b"x")
    assert refused.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_without_acks_records_arrive_as_well(real_kafka: RealKafka, topic: str) -> None:
    async with Producer(config(real_kafka)) as producer:
        await (await producer.send(topic, b"first", partition=2))  # from now on the leader takes records for sure
    async with Producer(config(real_kafka, acks="0")) as producer:
        assert (await (await producer.send(topic, b"x", partition=2))).offset == -1
    assert (await read(real_kafka, [TopicPartition(topic, 2)], 2))[2].values == [b"first", b"x"]


async def test_what_was_aborted_is_left_out(real_kafka: RealKafka, topic: str) -> None:
    producer = LibrdkafkaProducer({"bootstrap.servers": real_kafka.bootstrap(), "transactional.id": topic})
    producer.init_transactions(120)
    for value, commit in ((b"kept", True), (b"dropped", False), (b"kept too", True)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        assert producer.flush(120) == 0
        (producer.commit_transaction if commit else producer.abort_transaction)(120)
    partition = TopicPartition(topic, 0)
    committed = await read(real_kafka, [partition], 2, isolation_level="read_committed")
    assert committed[0].values == [b"kept", b"kept too"]
    everything = await read(real_kafka, [partition], 3)
    assert everything[0].values == [b"kept", b"dropped", b"kept too"]


async def test_a_position_outside_the_log_is_reset_as_configured(real_kafka: RealKafka, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    async with Producer(config(real_kafka)) as producer:
        await (await producer.send(topic, b"x", partition=0))
    async with PartitionFetcher(config(real_kafka, auto_offset_reset="earliest")) as fetcher:
        fetcher.assign({partition: 99})
        async with asyncio.timeout(120):
            while not (fetched := await fetcher.fetch(100)):
                pass
        assert [b.columns().values for b in fetched] == [[b"x"]]
    async with PartitionFetcher(config(real_kafka, auto_offset_reset="none")) as fetcher:
        fetcher.assign({partition: 99})
        with pytest.raises(ApiError, match=r"auto\.offset\.reset"):
            await fetcher.fetch(120_000)
