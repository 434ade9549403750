"""What strangers send: bad input gets Kafka's error, or a closed connection and a log line; nothing else changes."""

from __future__ import annotations

import random
import re
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.wire.api_keys import API_KEYS
from barnabas.wire.errors import ErrorCode
from barnabas.wire.header import RequestHeader, decode_response_header, encode_request_header
from barnabas.wire.message import decode, encode_into
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.record_batch import Record, crc32c, encode_batch
from tests.clients.nodes import ServedNode

pytestmark = pytest.mark.peer
VERSION = 9
CRC_AT, MAGIC_AT, COUNT_AT, LENGTH_AT, LAST_DELTA_AT = 17, 16, 57, 8, 23
IDLE_GOAL_MB = 64
LOADED_GOAL_MB = 220
PATIENCE_S = 120


class Peer:
    """A connection that sends what it likes."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self.name = "{}:{}".format(*self.socket.getsockname())

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def is_closed(self) -> bool:
        """Wait for the node to say something; true when that is good-bye."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def call(self, request: Any, version: int) -> Any:
        self.send(frame(request, version))
        (size,) = struct.unpack(">i", self.exactly(4))
        answer = self.exactly(size)
        _, at = decode_response_header(request.API_KEY, version, answer)
        return decode(API_KEYS[request.API_KEY].response, version, answer, at)

    def exactly(self, size: int) -> bytes:
        got = b""
        while len(got) < size:
            more = self.socket.recv(size - len(got))
            assert more, "the node closed the connection"
            got += more
        return got


def frame(request: Any, version: int) -> bytes:
    parts: list[Any] = []
    header = RequestHeader(
        request_api_key=request.API_KEY, request_api_version=version, correlation_id=7, client_id="stranger"
    )
    encode_request_header(header, parts)
    encode_into(request, version, parts)
    body = b"".join(bytes(p) for p in parts)
    return struct.pack(">i", len(body)) + body


def raw(api_key: int, version: int, body: bytes) -> bytes:
    """Give a frame with a flexible header and any body."""
    inner = struct.pack(">hhi", api_key, version, 7) + struct.pack(">h", 8) + b"stranger" + b"\x00" + body
    return struct.pack(">i", len(inner)) + inner


@pytest.fixture
def topic(plain: ServedNode, name: str) -> Iterator[str]:
    """Give a topic of three records; afterwards it must hold just these, and the node must serve."""

    async def create(admin: Admin) -> None:
        assert await admin.create_topics([NewTopic(name, 1)]) == {name: None}

    plain.as_admin(create)
    producer = Producer(plain.librdkafka())
    for i in range(3):
        producer.produce(name, str(i).encode(), partition=0)
    assert producer.flush(PATIENCE_S) == 0
    yield name
    consumer = Consumer(
        {**plain.librdkafka(), "group.id": name, "auto.offset.reset": "earliest", "enable.partition.eof": "true"}
    )
    consumer.subscribe([name])
    values = []
    while True:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        if message.error() is not None:  # the end
            break
        values.append(message.value())
    consumer.close()
    assert values == [b"0", b"1", b"2"]


def random_bytes(seed: int) -> bytes:
    return random.Random(seed).randbytes(4096)


CLOSING: dict[str, bytes] = {
    **{f"random bytes, seed {seed}": random_bytes(seed) for seed in range(8)},
    "text": b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n" * 8,
    "a TLS hello on a plain port": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "a negative length": struct.pack(">i", -1) + bytes(20),
    "an oversized frame": struct.pack(">i", 2_000_000_000),
    "an empty frame": struct.pack(">i", 0),
    "an unknown API": raw(9999, 0, b""),
    "a version of Metadata that nobody knows": raw(3, 99, b""),
    "a version of Produce that is gone": raw(0, 0, b""),
    "a controller's API on a broker's port": raw(52, 1, bytes(16)),
    "half a Metadata request": raw(3, 12, b"\x05"),
    "an array of two billion": raw(3, 9, b"\xff\xff\xff\xff\x07"),
}


@pytest.mark.parametrize("what", CLOSING)
def test_rubbish_closes_the_connection(plain: ServedNode, topic: str, what: str) -> None:
    since = len(plain.log())
    with Peer(plain.bootstrap) as peer:
        peer.send(CLOSING[what])
        if what.startswith("random"):
            with suppress(OSError):  # the node may have closed it by now
                peer.socket.shutdown(socket.SHUT_WR)
        assert peer.is_closed()
        if not what.startswith("random"):  # random bytes may announce a frame that never comes
            line = re.compile(rf"connection closed.*peer={re.escape(peer.name)}.*reason=")
            plain.wait_for_log(lambda text: line.search(text) is not None, since)
    assert "Traceback" not in plain.log()[since:]


def test_what_kafka_overlooks_is_answered(plain: ServedNode, topic: str) -> None:
    """Bytes after a request are ignored, and a name that is not UTF-8 is read with replacement characters."""
    with Peer(plain.bootstrap) as peer:
        peer.send(raw(18, 3, b"\x02a\x02b\x00" + b"more"))
        (size,) = struct.unpack(">i", peer.exactly(4))
        assert peer.exactly(size)[4:6] == b"\x00\x00"
        peer.send(raw(3, 12, b"\x02" + bytes(16) + b"\x03\xff\xfe\x00\x01\x00\x00"))
        (size,) = struct.unpack(">i", peer.exactly(4))
        assert "\ufffd\ufffd".encode() in peer.exactly(size)


def test_half_a_frame_and_good_bye(plain: ServedNode, topic: str) -> None:
    whole = frame(MetadataRequest(topics=[]), 9)
    for cut in (1, 3, 4, 9, len(whole) - 1):
        with Peer(plain.bootstrap) as peer:
            peer.send(whole[:cut])
    with Peer(plain.bootstrap) as slow:  # a byte at a time is slow, not wrong
        for i in range(len(whole)):
            slow.send(whole[i : i + 1])
        assert slow.exactly(4)


def produce(peer: Peer, topic: str, records: bytes, partition: int = 0) -> tuple[ErrorCode, str | None]:
    response = peer.call(
        ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
            ],
        ),
        VERSION,
    )
    answer = response.responses[0].partition_responses[0]
    return ErrorCode(answer.error_code), answer.error_message


def good_batch() -> bytearray:
    return bytearray(encode_batch([Record(i, 1_700_000_000_000, None, b"x" * 20, ()) for i in range(3)]))


def patched(at: int, value: bytes, *, sealed: bool) -> bytes:
    """Give a batch with some bytes changed; sealed: with a CRC that fits."""
    batch = good_batch()
    batch[at : at + len(value)] = value
    if sealed:
        batch[CRC_AT : CRC_AT + 4] = struct.pack(">I", crc32c(bytes(batch[21:])))
    return bytes(batch)


BATCHES: dict[str, tuple[Callable[[], bytes], set[ErrorCode]]] = {
    "a bad CRC": (lambda: patched(70, b"\x00\x01", sealed=False), {ErrorCode.CORRUPT_MESSAGE}),
    "fewer records than counted": (
        lambda: patched(COUNT_AT, struct.pack(">i", 5), sealed=True),
        {ErrorCode.INVALID_RECORD},
    ),
    "a negative count": (lambda: patched(COUNT_AT, struct.pack(">i", -3), sealed=True), {ErrorCode.INVALID_RECORD}),
    "a wrong last offset": (
        lambda: patched(LAST_DELTA_AT, struct.pack(">i", 9), sealed=True),
        {ErrorCode.INVALID_RECORD},
    ),
    "magic 7": (
        lambda: patched(MAGIC_AT, b"\x07", sealed=False),
        {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE},
    ),
    "magic 1": (
        lambda: patched(MAGIC_AT, b"\x01", sealed=False),
        {ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.CORRUPT_MESSAGE},
    ),
    "a truncated batch": (lambda: bytes(good_batch()[:-7]), {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE}),
    "a length beyond the data": (
        lambda: patched(LENGTH_AT, struct.pack(">i", 100_000), sealed=False),
        {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE},
    ),
    "a negative length": (
        lambda: patched(LENGTH_AT, struct.pack(">i", -100), sealed=False),
        {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD},
    ),
    "a few bytes": (lambda: b"\x00" * 10, {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}),
    "nothing": (lambda: b"", {ErrorCode.INVALID_RECORD}),
    "two batches": (lambda: bytes(good_batch() * 2), {ErrorCode.INVALID_RECORD}),
    "a control batch": (lambda: patched(22, b"\x20", sealed=True), {ErrorCode.INVALID_RECORD}),
    "a codec nobody knows": (
        lambda: patched(22, b"\x07", sealed=True),
        {ErrorCode.INVALID_RECORD},
    ),
    "too large": (
        lambda: encode_batch([Record(0, 1, None, bytes(2_000_000), ())]),
        {ErrorCode.MESSAGE_TOO_LARGE},
    ),
}


@pytest.mark.parametrize("what", BATCHES)
def test_malformed_batches_are_refused_and_not_written(plain: ServedNode, topic: str, what: str) -> None:
    make, wanted = BATCHES[what]
    with Peer(plain.bootstrap) as peer:
        code, message = produce(peer, topic, make())
        assert code in wanted, (code, message)
        # the connection goes on
        assert peer.call(MetadataRequest(topics=[]), 9).brokers


def test_unknown_topics_and_partitions_are_refused(plain: ServedNode, topic: str) -> None:
    with Peer(plain.bootstrap) as peer:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert produce(peer, topic, bytes(good_batch()), partition=5)[0] == unknown
        assert produce(peer, f"{topic}-none", bytes(good_batch()))[0] == unknown


def test_before_login_only_small_frames_are_taken(secured: ServedNode) -> None:
    since = len(secured.log())
    with Peer(secured.bootstrap) as peer:  # not even TLS
        peer.send(random_bytes(1))
        assert peer.is_closed()
    assert "Traceback" not in secured.log()[since:]


def test_a_thousand_connections_and_two_thousand_partitions_fit(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with ServedNode(tmp_path_factory.mktemp("crowd"), plain=True) as node:
        idle = node.rss_mb()
        assert idle <= 2 * IDLE_GOAL_MB

        async def create(admin: Admin) -> None:
            for i in range(20):  # a request each: all at once may take longer than a client waits for an answer
                assert await admin.create_topics([NewTopic(f"crowd-{i}", 100)]) == {f"crowd-{i}": None}

        node.as_admin(create)
        peers = [Peer(node.bootstrap) for _ in range(1000)]
        try:
            for peer in peers:
                assert len(peer.call(MetadataRequest(topics=[]), 9).brokers) == 1
            everything = peers[0].call(MetadataRequest(topics=None), 9)
            assert sum(len(t.partitions) for t in everything.topics) == 2000
            for i, peer in enumerate(peers[:200]):
                assert produce(peer, f"crowd-{i % 20}", bytes(good_batch()), partition=i % 100)[0] == ErrorCode.NONE
            assert node.rss_mb() <= 2 * LOADED_GOAL_MB
        finally:
            for peer in peers:
                peer.socket.close()
