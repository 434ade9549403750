from __future__ import annotations

import tracemalloc
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.wire.batch_writer import BatchBuilder
from barnabas.wire.errors import ProtocolError
from barnabas.wire.record_batch import (
    BATCH_HEADER_SIZE,
    Compression,
    ControlType,
    Record,
    TimestampType,
    assign,
    check_crc,
    control_batch,
    crc32c,
    decode_batch,
    decode_columns,
    decode_control,
    empty_batch,
    encode_batch,
    filtered_batch,
    iter_headers,
    iter_records,
    read_header,
    set_max_timestamp,
)
from barnabas.wire.records.end_txn_marker import EndTxnMarker
from barnabas.wire.records.leader_change_message import LeaderChangeMessage, Voter

RECORDS = [Record(i, 1_000_000 + i, b"k%d" % i, b"v" * i, [("h", b"1")] if i % 3 else ()) for i in range(20)]
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2)
ANY_RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(-1, 2**45),
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=9000),
        HEADERS,
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=80, deadline=None, database=None)
@given(ANY_RECORDS, st.sampled_from(Compression), st.integers(0, 2**62))
def test_records_survive(records: list[Record], codec: Compression, base: int) -> None:
    batch = encode_batch(records, base_offset=base, compression=codec)
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert (header.size, header.record_count, header.last_offset) == (len(batch), len(records), base + len(records) - 1)
    assert header.max_timestamp == max(r.timestamp for r in records)
    decoded = [r._replace(headers=list(r.headers)) for r in decode_batch(batch)]
    assert decoded == [r._replace(offset=base + i) for i, r in enumerate(records)]


@settings(max_examples=80, deadline=None, database=None)
@given(ANY_RECORDS, st.sampled_from(Compression), st.booleans())
def test_a_batch_that_grew_is_the_one_made_at_once(records: list[Record], codec: Compression, owned: bool) -> None:
    producer: Any = {"producer_id": 7, "producer_epoch": 2, "transactional": True} if owned else {}
    grown = BatchBuilder()
    for record in records:
        grown.add(record.timestamp, record.key, record.value)
    assert grown.count == len(records)
    plain = [record._replace(headers=()) for record in records]
    assert grown.batch(compression=codec, **producer) == encode_batch(plain, compression=codec, **producer)


def test_columns_are_those_of_all_batches_but_control() -> None:
    marker = control_batch([(ControlType.ABORT, EndTxnMarker())], timestamp=1, base_offset=20)
    both = encode_batch(RECORDS) + marker + encode_batch(RECORDS, base_offset=21, compression=Compression.ZSTD)
    columns = decode_columns(memoryview(bytearray(both)))
    assert columns.offsets == [*range(20), *range(21, 41)]
    assert columns.values[:20] == columns.values[20:] == [r.value for r in RECORDS]
    assert columns.keys[3] == b"k3"
    assert columns.timestamps[19] == 1_000_019
    assert columns.headers[:2] == [(), [("h", b"1")]]
    assert len(list(iter_records(both))) == 40
    assert len(list(iter_records(both, control=True))) == 41


def test_a_place_is_assigned_without_a_new_checksum() -> None:
    batch = bytearray(encode_batch(RECORDS))
    before = read_header(batch).crc
    assign(memoryview(batch), 0, 12345, 7)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch, header.crc) == (12345, 7, before)
    assert check_crc(batch, 0, header)


def test_append_time_is_the_time_of_every_record() -> None:
    batch = bytearray(encode_batch(RECORDS))
    set_max_timestamp(batch, 0, TimestampType.LOG_APPEND_TIME, 9_999_999)
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {r.timestamp for r in decode_batch(batch)} == {9_999_999}


def test_flags_and_producer() -> None:
    batch = encode_batch(
        RECORDS, producer_id=9, producer_epoch=3, base_sequence=2**31 - 5, transactional=True, delete_horizon_ms=77
    )
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.has_producer_id) == (9, 3, True)
    assert header.last_sequence == 14  # it wraps
    assert (header.is_transactional, header.is_control, header.delete_horizon_ms) == (True, False, 77)
    assert [r.timestamp for r in decode_batch(batch)] == [r.timestamp for r in RECORDS]
    assert read_header(encode_batch(RECORDS)).last_sequence == -1


def test_filtering_keeps_offsets_and_reach() -> None:
    whole = encode_batch(RECORDS, base_offset=100, producer_id=1, producer_epoch=0, base_sequence=0, leader_epoch=4)
    header = read_header(whole)
    kept = [r for r in decode_batch(whole) if r.offset in (103, 110)]
    batch = filtered_batch(header, kept, delete_horizon_ms=5)
    after = read_header(batch)
    assert [r.offset for r in decode_batch(batch)] == [103, 110]
    assert (after.base_offset, after.last_offset, after.last_sequence, after.leader_epoch) == (100, 119, 19, 4)
    assert after.delete_horizon_ms == 5
    nothing = read_header(empty_batch(header))
    assert (nothing.size, nothing.record_count, nothing.last_offset, nothing.last_sequence) == (61, 0, 119, 19)
    assert list(decode_batch(empty_batch(header))) == []


def test_control_records_survive() -> None:
    change = LeaderChangeMessage(version=1, leader_id=3, voters=[Voter(voter_id=3)])
    (record,) = iter_records(control_batch([(ControlType.LEADER_CHANGE, change)], timestamp=1), control=True)
    assert record.key == b"\0\0\0\2"
    assert decode_control(record) == (ControlType.LEADER_CHANGE, change)
    assert decode_control(record._replace(key=b"\0\0\0\x63")) is None
    with pytest.raises(ProtocolError):
        decode_control(record._replace(key=b"\0"))


def test_the_checksum_is_castagnoli_of_any_buffer() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(memoryview(bytearray(b"x123456789"))[1:].toreadonly()) == 0xE3069283


def test_impossible_headers_are_refused() -> None:
    batch = encode_batch(RECORDS)
    for at, bad in ((8, b"\0\0\0\x10"), (8, b"\xff\xff\xff\xff"), (16, b"\x01"), (57, b"\xff"), (23, b"\x80")):
        broken = bytearray(batch)
        broken[at : at + len(bad)] = bad
        with pytest.raises(ProtocolError):
            read_header(broken)
    with pytest.raises(ProtocolError):
        read_header(batch[: BATCH_HEADER_SIZE - 1])


def test_a_batch_cut_off_ends_the_iteration_only_where_that_is_expected() -> None:
    two = encode_batch(RECORDS) + encode_batch(RECORDS)
    for cut in (1, 15, 40, 300):
        assert len(list(iter_headers(two[:-cut], partial_tail=True))) == 1
        with pytest.raises(ProtocolError):
            list(iter_headers(two[:-cut]))
    assert decode_columns(two[:-300], partial_tail=True).offsets == list(range(20))


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_damaged_batches_give_records_or_a_protocol_error(codec: Compression) -> None:
    good = encode_batch(RECORDS, compression=codec)
    random = Random(11)
    tracemalloc.start()
    try:
        for _ in range(2000):
            broken = bytearray(good)
            for _ in range(random.randint(1, 3)):
                broken[random.randrange(61 if random.random() < 0.3 else len(broken))] = random.choice((0, 0x7F, 0xFF))
            try:
                decode_columns(broken, max_size=100_000)
            except ProtocolError:
                pass
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_count_that_the_bytes_cannot_hold_is_refused() -> None:
    broken = bytearray(encode_batch(RECORDS))
    broken[57:61] = b"\x7f\xff\xff\xff"
    with pytest.raises(ProtocolError, match="cannot hold 2147483647 records"):
        list(decode_batch(broken))
    broken[57:61] = b"\0\0\0\x13"
    with pytest.raises(ProtocolError, match="follow the last record"):
        list(decode_batch(broken))
