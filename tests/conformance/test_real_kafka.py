"""Our requests and batches against a running Apache Kafka, with librdkafka at the other end."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Iterator
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.wire.api_keys import API_KEYS, ApiKey, row_of
from barnabas.wire.header import RequestHeader, decode_response_header, encode_request_header
from barnabas.wire.message import Message, decode, encode_into
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from barnabas.wire.primitives import Records
from barnabas.wire.record_batch import Compression, Record, check_crc, decode_columns, encode_batch, iter_headers
from tests.peers.eventually import eventually
from tests.peers.kafka import RealKafka

pytestmark = pytest.mark.peer
_M = TypeVar("_M", bound=Message)
VALUES = [b"value-%d" % i * (i % 50) for i in range(300)]


class Wire:
    """A blocking connection that speaks through our codec."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)

    def close(self) -> None:
        self._socket.close()

    def call(self, request: Message, version: int, response: type[_M]) -> _M:
        """Send a request and give its response."""
        parts: list[Records] = []
        header = RequestHeader(
            request_api_key=request.API_KEY, request_api_version=version, correlation_id=3, client_id="barnabas-test"
        )
        encode_request_header(header, parts)
        encode_into(request, version, parts)
        body = b"".join(p for p in parts if isinstance(p, bytes | bytearray | memoryview))
        self._socket.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", self._exactly(4))
        reply = self._exactly(size)
        answered, at = decode_response_header(row_of(request).key, version, reply)
        assert answered.correlation_id == 3
        return decode(response, version, reply, at)

    def _exactly(self, size: int) -> bytes:
        out = bytearray()
        while len(out) < size:
            out += self._socket.recv(size - len(out)) or pytest.fail("Kafka closed the connection")
        return bytes(out)


@pytest.fixture
def wire(real_kafka: RealKafka) -> Iterator[Wire]:
    connection = Wire(real_kafka.bootstrap("PLAINTEXT"))
    yield connection
    connection.close()


def make_topic(wire: Wire, kafka: RealKafka, name: str) -> None:
    """Make a topic, and wait until the broker leads it: the controller's answer comes before."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap("PLAINTEXT")})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    topic = ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])

    async def error() -> int:
        answer = wire.call(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7, ListOffsetsResponse)
        return answer.topics[0].partitions[0].error_code

    asyncio.run(eventually(error, 0))


def test_kafka_offers_what_our_table_says(wire: Wire) -> None:
    for version in range(5):
        offered = wire.call(
            ApiVersionsRequest(client_software_name="b", client_software_version="1"), version, ApiVersionsResponse
        )
        table = {a.api_key: (a.min_version, a.max_version) for a in offered.api_keys}
        for key, (low, high) in table.items():
            row = API_KEYS[key]
            if key != ApiKey.PRODUCE:
                assert low == row.min_version, row.name
            assert row.max_version <= high <= row.latest_version, row.name
        assert set(table) <= {r.key for r in API_KEYS.values() if "broker" in r.listeners}


def test_every_version_of_metadata_is_understood(wire: Wire, real_kafka: RealKafka) -> None:
    make_topic(wire, real_kafka, "wire-metadata")
    for version in range(14):
        answer = wire.call(
            MetadataRequest(topics=[MetadataRequestTopic(name="wire-metadata")]), version, MetadataResponse
        )
        (topic,) = answer.topics
        assert (topic.name, topic.error_code, len(topic.partitions)) == ("wire-metadata", 0, 1)


@pytest.mark.parametrize("codec", list(Compression), ids=lambda c: c.name)
def test_librdkafka_reads_our_batches_and_we_read_its(wire: Wire, real_kafka: RealKafka, codec: Compression) -> None:
    name = f"wire-{codec.name.lower()}"
    make_topic(wire, real_kafka, name)
    now = int(time.time() * 1000)  # far from the present, Kafka would begin another segment
    ours = [Record(0, now + i, b"k%d" % i, value, [("h", b"1")]) for i, value in enumerate(VALUES)]
    batch = encode_batch(ours, compression=codec)
    data = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])
    produced = wire.call(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), 12, ProduceResponse)
    (partition,) = produced.responses[0].partition_responses
    assert (partition.error_code, partition.base_offset) == (0, 0)

    servers = {"bootstrap.servers": real_kafka.bootstrap("PLAINTEXT")}
    producer = Producer({**servers, "compression.type": codec.name.lower(), "linger.ms": 200})
    for i, value in enumerate(VALUES):
        producer.produce(name, value, b"k%d" % i, headers=[("h", b"1")])
    assert producer.flush(60) == 0

    wanted = VALUES * 2
    fetch = FetchTopic(topic=name, partitions=[FetchPartition(partition=0, partition_max_bytes=10_000_000)])
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=10_000_000, topics=[fetch])
    records = wire.call(request, 12, FetchResponse).responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    headers = list(iter_headers(records))
    assert all(check_crc(records, at, header) for at, header in headers)
    assert {header.compression for _, header in headers} == {codec}
    columns = decode_columns(records)
    assert columns.offsets == list(range(600))
    assert columns.values == wanted
    assert columns.headers == [[("h", b"1")]] * 600

    consumer = Consumer({**servers, "group.id": name, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    try:
        consumer.subscribe([name])
        seen: list[bytes | None] = []
        while len(seen) < len(wanted):
            message = consumer.poll(60)
            assert message is not None
            assert message.error() is None
            seen.append(message.value())
        assert seen == wanted
    finally:
        consumer.close()
