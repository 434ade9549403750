"""What a real broker would say: its errors, its API table, its refusals, its reading and writing of batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from barnabas.wire.api_keys import API_KEYS, ApiKey, ApiRow
from barnabas.wire.control_records import ControlType, control_batch
from barnabas.wire.declaration import Message, Struct, field_specs
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import decode, encode
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from barnabas.wire.record_batch import (
    Compression,
    Record,
    TimestampType,
    check_crc,
    decode_batch,
    encode_batch,
    read_header,
    set_max_timestamp,
)
from barnabas.wire.records.end_txn_marker import EndTxnMarker
from barnabas.wire.refusals import refuse
from tests.conformance.java_oracle import JavaOracle
from tests.peers.maven import kafka_classpath
from tests.wire.instances import Maker

pytestmark = pytest.mark.peer
GONE = {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN}
"""APIs that 4.x no longer speaks."""


@pytest.fixture(scope="module")
def java() -> Iterator[JavaOracle]:
    """Give Kafka's own classes."""
    with JavaOracle("BrokerOracle.java", kafka_classpath()) as oracle:
        yield oracle


def test_error_codes_are_kafkas(java: JavaOracle) -> None:
    for code in ErrorCode:
        if code is ErrorCode.AUTHORIZER_NOT_READY:
            continue
        name, retriable = java.ask(f"error {code.value}").split()
        assert (name, retriable) == (code.name, str(code.retriable).lower())


@pytest.mark.parametrize("row", [r for r in API_KEYS.values() if r.key not in GONE], ids=lambda r: r.name)
def test_the_api_table_is_kafkas(java: JavaOracle, row: ApiRow) -> None:
    name, low, stable, high, listeners, forwardable, cluster_action, request_header, response_header = java.ask(
        f"api {row.key.value}"
    ).split(" ")
    ours_high = row.latest_version - (1 if row.key is ApiKey.ENVELOPE else 0)  # v1 of Envelope is ours
    stable_ours = row.max_version - (1 if row.key is ApiKey.ENVELOPE else 0)
    assert name == row.name
    assert (int(low), int(stable), int(high)) == (row.min_version, stable_ours, ours_high)
    assert frozenset(filter(None, listeners.split(","))) == row.listeners
    assert (forwardable, cluster_action) == (str(row.forwardable).lower(), str(row.cluster_action).lower())
    assert int(request_header) == row.request_header_version(ours_high)
    assert int(response_header) == row.response_header_version(ours_high)


def essence(value: Any) -> Any:
    """Give a response without throttle time and texts, which are ours, in a form that ignores the order of sets."""
    if isinstance(value, Struct):
        shown = {f.name: essence(getattr(value, f.name)) for f in field_specs(type(value))}
        shown.pop("error_message", None)
        shown.pop("throttle_time_ms", None)  # Kafka forgets it in some; we always say it
        return shown
    if isinstance(value, list):
        return sorted((essence(v) for v in value), key=repr)
    return value


def distinct(msg: Any, version: int, seen: list[int]) -> Any:
    """Give every text and number of a request's elements a value of its own: Java keeps some lists as sets."""
    for f in field_specs(type(msg)):
        if version not in f.on.versions:
            continue
        value = getattr(msg, f.name)
        if isinstance(value, list):
            value = [unlike(v, seen) for v in value]
            setattr(msg, f.name, value)
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Struct):
                distinct(inner, version, seen)
        if f.name in ("name", "topic", "index", "partition", "partition_index", "producer_id", "key", "group_id"):
            setattr(msg, f.name, unlike(value, seen))
    return msg


def unlike(value: Any, seen: list[int]) -> Any:
    seen[0] += 1
    if isinstance(value, str):
        return f"{value[:10]}-{seen[0]}"
    return seen[0] if type(value) is int else value


@pytest.mark.parametrize("row", [r for r in API_KEYS.values() if r.key not in GONE], ids=lambda r: r.name)
def test_refusals_are_kafkas(java: JavaOracle, row: ApiRow) -> None:
    for version in range(row.min_version, row.max_version + 1):
        if row.key is ApiKey.ENVELOPE and version == 1:
            continue
        for seed, code in ((1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED), (2, ErrorCode.UNSUPPORTED_VERSION)):
            request = distinct(valid(Maker(version, Random(seed), small_numbers=True).make(row.request)), version, [0])
            answer = java.ask(f"refuse {row.key.value} {version} {code.value} {encode(request, version).hex()}")
            ours = refuse(request, version, code, throttle_ms=77)
            if answer == "none":
                assert ours is None
                continue
            assert ours is not None
            again = decode(row.response, version, encode(ours, version))
            theirs = decode(row.response, version, bytes.fromhex(answer))
            assert essence(again) == essence(theirs), f"v{version}"


def valid(request: Any) -> Message:
    """Repair what Java's constructors refuse."""
    if hasattr(request, "topic_data"):
        batch = encode_batch([Record(0, 0, None, b"v")])
        request.acks = 1
        for topic in request.topic_data:
            for partition in topic.partition_data:
                partition.records = batch
    if hasattr(request, "key_type"):
        request.key_type = 0
    if isinstance(request, DescribeUserScramCredentialsRequest):
        request.users = request.users or []
    return request  # type: ignore[no-any-return]


RECORDS = [
    Record(
        5 + i, 1_700_000_000_000 - 3 * i, None if i % 4 == 0 else b"key%d" % i, None if i % 7 == 3 else b"v" * 50 * i
    )
    for i in range(40)
] + [Record(45, 1_700_000_000_000, b"", b"", [("h", b"x"), ("h", None), ("ü", b"")])]


def shown(data: bytes | None) -> str:
    """Give bytes as the oracle prints them."""
    return "null" if data is None else "0x" + data.hex()


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("size", [1, 40, 200_000])
def test_java_reads_our_batches(java: JavaOracle, codec: Compression, size: int) -> None:
    big = [Record(46, 1_700_000_000_001, b"big", Random(1).randbytes(size) + b"z" * size)]
    batch = encode_batch(
        RECORDS + big,
        base_offset=5,
        leader_epoch=9,
        compression=codec,
        producer_id=4000,
        producer_epoch=2,
        base_sequence=2**31 - 10,
        transactional=True,
    )
    head, *lines = java.ask(f"read {batch.hex()}").rstrip(";").split(";")
    assert head == f"batch 5 46 1700000000001 4000 2 31 true false 9 {codec.name.lower()}"
    assert len(lines) == len(RECORDS) + 1
    for line, record in zip(lines, RECORDS + big, strict=True):
        headers = "".join(f" {name}={shown(value)}" for name, value in record.headers)
        assert line == f"{record.offset} {record.timestamp} {shown(record.key)} {shown(record.value)}{headers}"


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("size", [0, 30, 100_000])
@pytest.mark.parametrize("hard", [False, True])
def test_we_read_javas_batches(java: JavaOracle, codec: Compression, size: int, hard: bool) -> None:
    value = b"abcdefg" * (size // 7)
    levels = {Compression.GZIP: 9, Compression.LZ4: 17, Compression.ZSTD: 19} if hard else {}
    default = {Compression.GZIP: -1, Compression.LZ4: 9, Compression.ZSTD: 3}.get(codec, 0)
    batch = bytes.fromhex(java.ask(f"write {codec.name.lower()} {levels.get(codec, default)} {value.hex()}"))
    header = read_header(batch)
    assert header.size == len(batch)
    assert check_crc(batch, 0, header)
    assert (header.base_offset, header.last_offset, header.leader_epoch, header.compression) == (42, 51, 5, codec)
    records = [dataclasses.astuple(r) if dataclasses.is_dataclass(r) else tuple(r) for r in decode_batch(batch)]
    wanted = [
        (42 + i, 1000 + 7 * i, None if i % 3 == 0 else b"k%d" % i, value, [("h", b"\x01"), ("n", None)])
        for i in range(10)
    ]
    assert records == wanted


def test_java_reads_what_was_patched_in_place(java: JavaOracle) -> None:
    batch = bytearray(encode_batch(RECORDS, base_offset=5))
    set_max_timestamp(batch, 0, TimestampType.LOG_APPEND_TIME, 1_800_000_000_000)
    head, *lines = java.ask(f"read {batch.hex()}").rstrip(";").split(";")
    assert head.split()[3] == "1800000000000"
    assert {line.split()[1] for line in lines} == {"1800000000000"}
    assert {r.timestamp for r in decode_batch(batch)} == {1_800_000_000_000}


def test_java_reads_our_control_batches(java: JavaOracle) -> None:
    batch = control_batch(
        [(ControlType.COMMIT, EndTxnMarker(coordinator_epoch=3))],
        timestamp=7,
        base_offset=10,
        producer_id=5,
        producer_epoch=1,
        transactional=True,
    )
    assert java.ask(f"read {batch.hex()}") == ("batch 10 10 7 5 1 -1 true true -1 none;10 7 0x00000001 0x000000000003;")
