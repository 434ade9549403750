"""Producing, fetching, and everything else about the records of a partition."""

from __future__ import annotations

import struct
import time
from functools import partial
from typing import Any, Final

import pytest

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ProtocolError
from barnabas.wire.message import encode
from barnabas.wire.record_batch import Compression, Record, TimestampType, crc32c, encode_batch

from .requests import request
from .script import side_by_side
from .side import ADMIN, NOBODY, SILENT, Side

pytestmark = pytest.mark.peer
NOW: Final = int(time.time() * 1000)
NO_TOPIC: Final = Uuid(b"\1" * 16)
PRODUCE_VERSIONS: Final = range(3, 14)
FETCH_VERSIONS: Final = range(4, 19)
_CRC_AT, _MAGIC_AT, _COUNT_AT, _ATTRIBUTES_AT, _LAST_DELTA_AT = 17, 16, 57, 21, 23


def batch(count: int = 3, *, at: int = NOW, key: bytes | None = b"k", size: int = 4, **fields: Any) -> bytes:
    """Give a batch of `count` records a millisecond apart."""
    records = [Record(i, at + i, key, bytes([65 + i % 26]) * size, [("h", b"v")]) for i in range(count)]
    return encode_batch(records, **fields)


def patched(data: bytes, at: int, value: bytes, *, crc: bool = True) -> bytes:
    """Give the batch with other bytes at a place, its checksum made good."""
    out = bytearray(data)
    out[at : at + len(value)] = value
    if crc:
        out[_CRC_AT : _CRC_AT + 4] = struct.pack(">I", crc32c(out[_ATTRIBUTES_AT:]))
    return bytes(out)


def produce(s: Side, topic: str, records: bytes | None, version: int = -1, user: str = ADMIN, **fields: Any) -> Any:
    """Send records to partition 0 (or another) and write the answer down."""
    note, partition = fields.pop("note", ""), fields.pop("partition", 0)
    version = 13 if version < 0 else version
    data: dict[str, Any] = {"partition_data": [{"index": partition, "records": records}]}
    if version >= 13:
        named = s.ask(request("Metadata", topics=[{"name": topic}], allow_auto_topic_creation=False)).topics[0]
        data["topic_id"] = fields.pop("topic_id", named.topic_id)
    else:
        data["name"] = topic
        fields.pop("topic_id", None)
    asked = request("Produce", **{"acks": -1, "timeout_ms": 60_000, "topic_data": [data], **fields})
    return s.call(asked, version, user, note=note)


def fetch(topic: str, ident: Uuid, offset: int = 0, *, version: int, **fields: Any) -> Any:
    """Give a fetch of partition 0 (or another)."""
    part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1_000_000, **fields.pop("part", {})}
    which = {"topic_id": ident} if version >= 13 else {"topic": topic}
    whole: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 10_000_000}
    return request("Fetch", **{**whole, "topics": [{**which, "partitions": [part]}], **fields})


@side_by_side
def test_produce(s: Side) -> None:
    """Left out: records that are null, which Kafka never answers."""
    s.topic("produced", 2)
    for version in PRODUCE_VERSIONS:
        for acks in (-1, 1):
            for user in (ADMIN, NOBODY):
                produce(s, "produced", batch(), version, user, acks=acks, note=f"acks {acks}")
        produce(s, "produced", batch(), version, partition=7, note="no such partition")
        produce(s, "produced", batch(), version, partition=-1, note="partition -1")
        produce(s, "produced-none", batch(), version, note="no such topic", topic_id=NO_TOPIC)
        produce(s, "produced-none", batch(), version, NOBODY, note="no such topic", topic_id=NO_TOPIC)
        produce(s, "produced", batch(), version, acks=2, note="acks 2")
        produce(s, "produced", batch(), version, acks=-2, note="acks -2")
        produce(s, "produced", b"", version, note="nothing")
        produce(s, "produced", batch() + batch(), version, note="two batches")
        produce(s, "produced", batch(transactional=True, producer_id=5, producer_epoch=0, base_sequence=0), version,
                note="transactional without an id")  # fmt: skip
        produce(s, "produced", batch(1, size=200_000), version, note="too large")
        produce(s, "produced", patched(batch(), 30, b"\xff", crc=False), version, note="bad checksum")
        produce(s, "produced", batch()[:-3], version, note="cut")
    both_parts = [{"index": 0, "records": batch()}, {"index": 1, "records": batch()}, {"index": 9, "records": batch()}]
    data = [{"name": "produced", "partition_data": both_parts}, {"name": "no", "partition_data": both_parts}]
    for version in (3, 8, 12):
        s.call(request("Produce", acks=-1, timeout_ms=60_000, topic_data=data), version)
    s.call(request("Produce", acks=-1, timeout_ms=60_000, topic_data=[]), 12)
    s.call(request("Produce", acks=-1, timeout_ms=60_000, topic_data=[{"name": "produced"}]), 12)


@side_by_side
def test_produce_without_acknowledgement(s: Side) -> None:
    ident = s.topic("quiet")
    for version in PRODUCE_VERSIONS:
        which = {"topic_id": ident} if version >= 13 else {"name": "quiet"}
        for records, partition in ((batch(), 0), (batch(), 9), (patched(batch(), 30, b"\xff", crc=False), 0)):
            data = [{**which, "partition_data": [{"index": partition, "records": records}]}]
            asked = request("Produce", acks=0, timeout_ms=60_000, topic_data=data)
            connection = s.connection(ADMIN, "quiet")
            connection.send(asked, version)
            after = connection.exchange(request("ListGroups"), 0)
            s.note(asked, version, ADMIN, after if isinstance(after, str) else SILENT, f"{partition} {len(records)}")
    s.call(fetch("quiet", ident, version=17), 17)


ODD: Final[dict[str, bytes]] = {
    "magic 0": patched(batch(), _MAGIC_AT, b"\0"),
    "magic 1": patched(batch(), _MAGIC_AT, b"\1"),
    "magic 3": patched(batch(), _MAGIC_AT, b"\3"),
    "control": batch(1, control=True),
    "count 0": patched(batch(), _COUNT_AT, struct.pack(">i", 0)),
    "count 2 of 3": patched(batch(), _COUNT_AT, struct.pack(">i", 2)),
    "count 9 of 3": patched(batch(), _COUNT_AT, struct.pack(">i", 9)),
    "count -1": patched(batch(), _COUNT_AT, struct.pack(">i", -1)),
    "last delta 9": patched(batch(), _LAST_DELTA_AT, struct.pack(">i", 9)),
    "log append time": batch(timestamp_type=TimestampType.LOG_APPEND_TIME),
    "tomorrow": batch(at=NOW + 86_400_000),
    "last year": batch(at=NOW - 365 * 86_400_000),
    "no timestamp": batch(1, at=-1),
    "base offset 5": batch(base_offset=5),
    "empty batch": encode_batch([]),
    "no key": batch(key=None),
    "unknown codec": patched(batch(), _ATTRIBUTES_AT, b"\0\5"),
    "sequence without id": batch(base_sequence=3),
    "id without sequence": batch(producer_id=77, producer_epoch=0),
    **{f"codec {c.name}": batch(20, compression=c) for c in Compression},
}  # fmt: skip


@side_by_side
def test_odd_batches(s: Side) -> None:
    topics: dict[str, dict[str, Any]] = {
        "odd": {},
        "odd-compact": {"cleanup__policy": "compact"},
        "odd-append-time": {"message__timestamp__type": "LogAppendTime"},
        "odd-gzip": {"compression__type": "gzip"},
        "odd-zstd": {"compression__type": "zstd"},
        "odd-plain": {"compression__type": "uncompressed"},
        "odd-narrow": {"message__timestamp__before__max__ms": "1000", "message__timestamp__after__max__ms": "1000"},
        "odd-small": {"max__message__bytes": "150"},
        "odd-append-gzip": {"message__timestamp__type": "LogAppendTime", "compression__type": "gzip"},
    }
    for topic, configs in topics.items():
        ident = s.topic(topic, **configs)
        for note, records in ODD.items():
            for version in (3, 6, 7, 8, 13):
                produce(s, topic, records, version, note=f"{topic} {note}")
        s.call(fetch(topic, ident, version=12), 12, note=topic)


@side_by_side
def test_idempotent_producers(s: Side) -> None:
    s.topic("idempotent")

    def init(**fields: Any) -> Any:
        return request("InitProducerId", **{"transactional_id": None, "transaction_timeout_ms": 60_000, **fields})

    s.until(init(), lambda answer: answer.error_code == 0)
    s.every_version(init())
    s.every_version(init(producer_id=5, producer_epoch=3))
    s.every_version(init(producer_id=5, producer_epoch=-1), users=(ADMIN,))
    s.every_version(init(producer_id=-1, producer_epoch=3), users=(ADMIN,))
    s.every_version(init(transactional_id=""))
    s.every_version(init(transaction_timeout_ms=-1))
    s.every_version(init(transactional_id="mine"), users=(NOBODY,))
    s.allow("alice", AclOperation.WRITE, ResourceType.TOPIC, "idempotent")
    s.call(init(), user="alice")
    ident = s.call(init(), note="to produce with").producer_id

    def send(sequence: int, count: int = 3, epoch: int = 0, note: str = "", producer: int = ident) -> None:
        records = batch(count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        produce(s, "idempotent", records, note=f"{note or sequence} epoch {epoch}")

    send(0)
    send(0, note="duplicate")
    send(3)
    for sequence in (0, 3):
        send(sequence, note=f"duplicate {sequence}")
    send(9, note="gap")
    send(4, note="overlap")
    send(0, 2, note="part of a duplicate")
    send(0, epoch=1, note="next epoch")
    send(6, epoch=0, note="old epoch")
    send(5, epoch=2, note="next epoch, not from 0")
    send(3, epoch=1)
    for i in range(6):
        send(6 + 3 * i, epoch=1)
    send(0, epoch=1, note="a duplicate too old to know")
    send(21, epoch=1, note="a duplicate still known")
    send(5, producer=987_654, note="unknown producer, not from 0")
    two = batch(2, producer_id=ident, producer_epoch=1, base_sequence=24)
    produce(s, "idempotent", two + batch(2, producer_id=ident, producer_epoch=1, base_sequence=26), note="two batches")
    send(2_147_483_646, 3, 2, note="begins near the end")
    asked = request("DescribeProducers", topics=[{"name": "idempotent", "partition_indexes": [0, 7]}])
    for user in (ADMIN, NOBODY, "alice"):
        s.call(asked, 0, user)
    s.call(request("DescribeProducers", topics=[{"name": "no", "partition_indexes": [0]}]))
    s.call(request("DescribeProducers", topics=[{"name": "bad name!", "partition_indexes": [0]}]))
    s.call(request("DescribeProducers", topics=[]))


@side_by_side
def test_fetch(s: Side) -> None:
    ident = s.topic("fetched", 2)
    for _ in range(3):
        produce(s, "fetched", batch(size=50))
    for version in FETCH_VERSIONS:
        for offset in (0, 4, 9, 10, -1, 100):
            s.call(fetch("fetched", ident, offset, version=version), version, note=f"from {offset}")
        for limit in (0, 1, 100, 300):
            s.call(fetch("fetched", ident, version=version, max_bytes=limit), version, note=f"max_bytes {limit}")
            part = {"partition_max_bytes": limit}
            s.call(fetch("fetched", ident, version=version, part=part), version, note=f"partition {limit}")
        s.call(fetch("fetched", ident, version=version), version, NOBODY)
        s.call(fetch("no-such", NO_TOPIC, version=version), version, note="no such topic")
        s.call(fetch("no-such", NO_TOPIC, version=version), version, NOBODY, note="no such topic")
        s.call(fetch("fetched", ident, version=version, part={"partition": 9}), version, note="no such partition")
        for level in (1, 2):
            s.call(fetch("fetched", ident, version=version, isolation_level=level), version, note=f"isolation {level}")
        for epoch in (-1, 0, 1, 5):
            part = {"current_leader_epoch": epoch}
            s.call(fetch("fetched", ident, version=version, part=part), version, note=f"epoch {epoch}")
        if version >= 12:
            for epoch in (0, 1):
                part = {"last_fetched_epoch": epoch}
                s.call(fetch("fetched", ident, 3, version=version, part=part), version, note=f"last epoch {epoch}")
            part = {"last_fetched_epoch": 0}
            s.call(fetch("fetched", ident, 100, version=version, part=part), version, note="last epoch, too far")
        if version >= 11:
            s.call(fetch("fetched", ident, version=version, rack_id="r"), version, note="rack")
        s.call(fetch("fetched", ident, version=version, topics=[]), version, note="no topics")
        s.call(fetch("fetched", ident, 9, version=version, max_wait_ms=20, min_bytes=1), version, note="waits")
    data = [{"partition": p, "fetch_offset": 0, "partition_max_bytes": 10_000} for p in (1, 0, 5, 0)]
    s.call(request("Fetch", max_bytes=10_000, topics=[{"topic": "fetched", "partitions": data}]), 12, note="twice")
    s.call(fetch("", Uuid(bytes(16)), version=13), 13, note="the zero id")


def _ask(
    s: Side,
    ident: Uuid,
    version: int,
    session: int,
    epoch: int,
    note: str,
    offset: int = 0,
    user: str = ADMIN,
    **fields: Any,
) -> Any:
    asked = fetch("session-a", ident, offset, version=version, session_id=session, session_epoch=epoch, **fields)
    return s.call(asked, version, user, note=note)


@side_by_side
def test_fetch_sessions(s: Side) -> None:
    ident, other = s.topic("session-a", 2), s.topic("session-b")
    produce(s, "session-a", batch())
    for version in (7, 11, 12, 13, 15, 17, 18):
        ask = partial(_ask, s, ident, version)
        first = ask(0, 0, "new")
        number = first.session_id
        ask(number, 1, "nothing changed", topics=[])
        ask(number, 2, "further", 3)
        ask(number, 3, "further, with nothing new", topics=[])
        ask(number, 3, "an old epoch", topics=[])
        ask(number, 4, "back to the begin", 0)
        which: dict[str, Any] = {"topic_id": other} if version >= 13 else {"topic": "session-b"}
        part = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
        ask(number, 5, "one more", topics=[{**which, "partitions": part}])
        ask(number, 6, "one less", topics=[], forgotten_topics_data=[{**which, "partitions": [0]}])
        ask(number, 7, "as somebody else", user=NOBODY, topics=[])
        ask(number, -1, "closed")
        ask(number, 8, "after it was closed", topics=[])
        ask(12345, 1, "never was", topics=[])
        ask(0, 5, "an epoch without a session")
        ask(0, -1, "none wanted")
        ask(0, -2, "epoch -2")
        ask(0, 0, "nothing asked", topics=[])
        ask(0, 0, "as nobody", user=NOBODY)


@side_by_side
def test_offsets(s: Side) -> None:
    s.topic("offsets", 2)
    produce(s, "offsets", batch(5, at=NOW))
    produce(s, "offsets", batch(5, at=NOW + 1000))

    def listed(topic: str, when: int, partition: int = 0, **part: Any) -> Any:
        partitions = [{"partition_index": partition, "timestamp": when, **part}]
        return request("ListOffsets", replica_id=-1, topics=[{"name": topic, "partitions": partitions}])

    for when in (-1, -2, -3, -4, -5, -6, -7, 0, NOW, NOW + 3, NOW + 4, NOW + 5, NOW + 1004, NOW + 1005):
        s.every_version(listed("offsets", when), note=f"{when - NOW if when > 0 else when}")
        s.every_version(listed("offsets", when, 1), users=(ADMIN,), note=f"empty {when - NOW if when > 0 else when}")
    s.every_version(listed("offsets", -1, 7))
    s.every_version(listed("offsets-none", -1))
    for epoch in (0, 1):
        s.every_version(listed("offsets", -1, current_leader_epoch=epoch), note=f"epoch {epoch}")
    double = listed("offsets", -1)
    double.topics[0].partitions *= 2
    s.every_version(double, note="twice")
    for level in (0, 1, 2):
        asked = listed("offsets", -1)
        asked.isolation_level = level
        s.every_version(asked, note=f"isolation {level}")
    s.every_version(request("ListOffsets", replica_id=-1, topics=[]))

    def epochs(topic: str, partition: int = 0, **part: Any) -> Any:
        data = [{"partition": partition, **part}]
        return request("OffsetForLeaderEpoch", replica_id=-1, topics=[{"topic": topic, "partitions": data}])

    for known in (-1, 0, 1, 7):
        for current in (-1, 0, 3):
            asked = epochs("offsets", leader_epoch=known, current_leader_epoch=current)
            s.every_version(asked, note=f"{known} {current}")
    s.every_version(epochs("offsets", 1, leader_epoch=0))
    s.every_version(epochs("offsets", 8, leader_epoch=0))
    s.every_version(epochs("offsets-none", leader_epoch=0))
    s.every_version(request("OffsetForLeaderEpoch", replica_id=-1, topics=[]))


@side_by_side
def test_delete_records(s: Side) -> None:
    ident = s.topic("deleted", 2)
    s.topic("deleted-compact", cleanup__policy="compact")
    for _ in range(3):
        produce(s, "deleted", batch())

    def delete(topic: str, offset: int, partition: int = 0) -> Any:
        data = [{"partition_index": partition, "offset": offset}]
        return request("DeleteRecords", topics=[{"name": topic, "partitions": data}], timeout_ms=60_000)

    for offset in (1, 1, 0, 4, 10, 100, -2, -1, 9):
        s.every_version(delete("deleted", offset), note=f"{offset}")
    s.every_version(delete("deleted", 0, 1))
    s.every_version(delete("deleted", 0, 8))
    s.every_version(delete("deleted-none", 0))
    s.every_version(delete("deleted-compact", 0))
    s.every_version(delete("__consumer_offsets", 0))
    s.every_version(request("DeleteRecords", topics=[], timeout_ms=60_000))
    s.call(fetch("deleted", ident, 0, version=12), 12)
    produce(s, "deleted", batch())
    s.call(fetch("deleted", ident, 9, version=12), 12)
    for when in (-1, -2, -3, -4, NOW):
        partitions = [{"partition_index": 0, "timestamp": when}]
        s.call(request("ListOffsets", replica_id=-1, topics=[{"name": "deleted", "partitions": partitions}]), 9)


@side_by_side
def test_requests_that_end_too_soon(s: Side) -> None:
    cut: dict[str, dict[str, Any]] = {
        "Metadata": {"topics": [{"name": "x"}]},
        "Fetch": {"topics": []},
        "CreateTopics": {"topics": [{"name": "cut"}]},
        "FindCoordinator": {},
    }
    for name, fields in cut.items():
        asked = request(name, **fields)
        for version in (asked.MIN_VERSION, asked.MAX_VERSION):
            try:
                body = encode(asked, version)
            except ProtocolError:
                continue
            connection = s.connection(NOBODY, name)
            connection.send_body(asked.API_KEY, version, body[:-2])
            s.note(asked, version, NOBODY, "closed" if connection.receive_frame() is None else "answered")
