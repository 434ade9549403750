"""What a leader refuses, with Kafka's codes, and what it changes in a batch."""

from __future__ import annotations

import struct

import pytest

from barnabas.storage.log_validator import AppendOrigin, RecordsRefusedError, ValidBatch, validate
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.record_batch import Compression, TimestampType, check_crc, crc32c, decode_batch, read_header

from .logs import NOW_MS, batch, log_config, marker


def check(
    data: memoryview, *, origin: AppendOrigin = AppendOrigin.CLIENT, now_ms: int = NOW_MS, **config: str
) -> ValidBatch:
    named = {key.replace("_", "."): value for key, value in config.items()}
    return validate(data, log_config(named), origin, now_ms, "t-0")


def patched(data: memoryview, at: int, layout: str, value: int) -> memoryview:
    struct.pack_into(layout, data, at, value)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    return data


def refusal(data: memoryview, *, origin: AppendOrigin = AppendOrigin.CLIENT, **config: str) -> ErrorCode:
    named = {key.replace("_", "."): value for key, value in config.items()}
    with pytest.raises(ApiError) as refused:
        validate(data, log_config(named), origin, NOW_MS, "t-0")
    return refused.value.code


def test_a_good_batch_passes_untouched() -> None:
    data = batch(b"a", b"b")
    before = bytes(data)
    valid = check(data)
    assert (valid.header.record_count, valid.log_append_time_ms) == (2, -1)
    assert bytes(valid.data) == before


@pytest.mark.parametrize(
    ("at", "layout", "value"),
    [
        pytest.param(23, ">i", 5, id="last offset delta"),
        pytest.param(23, ">i", -1, id="negative delta"),
        pytest.param(57, ">i", 3, id="count"),
        pytest.param(57, ">i", 0, id="no records"),
        pytest.param(57, ">i", -2, id="negative count"),
        pytest.param(21, ">h", 0x20, id="control"),
        pytest.param(21, ">h", 0x07, id="unknown codec"),
        pytest.param(43, ">q", 9, id="producer without sequence"),
    ],
)
def test_headers_that_contradict_themselves_are_invalid(at: int, layout: str, value: int) -> None:
    assert refusal(patched(batch(b"a", b"b"), at, layout, value)) is ErrorCode.INVALID_RECORD


def test_counts_are_checked_against_the_records() -> None:
    data = patched(patched(batch(b"a", b"b"), 57, ">i", 3), 23, ">i", 2)
    assert refusal(data) is ErrorCode.INVALID_RECORD
    data = patched(patched(batch(b"a", b"b"), 57, ">i", 1), 23, ">i", 0)
    assert refusal(data) is ErrorCode.INVALID_RECORD


def test_a_wrong_crc_is_corrupt() -> None:
    data = batch(b"a", b"b")
    data[-1] ^= 1
    assert refusal(data) is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_with_an_offset_is_invalid_from_a_client() -> None:
    data = batch(b"a")
    struct.pack_into(">q", data, 0, 5)
    assert refusal(data) is ErrorCode.INVALID_RECORD
    assert check(data, origin=AppendOrigin.COORDINATOR).header.record_count == 1


def test_two_batches_are_invalid_and_a_torn_second_is_ignored() -> None:
    one = bytes(batch(b"a"))
    assert refusal(memoryview(bytearray(one + one))) is ErrorCode.INVALID_RECORD
    valid = check(memoryview(bytearray(one + one[:-1])))
    assert bytes(valid.data) == one


@pytest.mark.parametrize("length", [0, 10, 60, 65])
def test_less_than_a_batch_is_invalid(length: int) -> None:
    assert refusal(batch(b"abcdef")[:length]) is ErrorCode.INVALID_RECORD


def test_old_formats_are_invalid() -> None:
    data = batch(b"a")
    data[16] = 1
    assert refusal(data) is ErrorCode.INVALID_RECORD


def test_too_large() -> None:
    assert refusal(batch(b"x" * 500), max_message_bytes="400") is ErrorCode.MESSAGE_TOO_LARGE


def test_future_timestamps_are_refused_record_by_record() -> None:
    data = batch(b"a", b"b", timestamp=NOW_MS + 3_600_000)
    with pytest.raises(RecordsRefusedError) as refused:
        check(data)
    assert refused.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [e.batch_index for e in refused.value.record_errors] == [1]


def test_old_timestamps_are_refused_where_the_topic_says_so() -> None:
    data = batch(b"a", timestamp=NOW_MS - 10_000)
    assert check(data).header.record_count == 1
    assert refusal(data, message_timestamp_before_max_ms="9999") is ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_is_stamped_under_a_right_crc() -> None:
    valid = check(batch(b"a", b"b", timestamp=5), message_timestamp_type="LogAppendTime")
    header = read_header(valid.data, 0)
    assert check_crc(valid.data, 0, header)
    assert (header, valid.log_append_time_ms) == (valid.header, NOW_MS)
    assert (header.timestamp_type, header.max_timestamp) == (TimestampType.LOG_APPEND_TIME, NOW_MS)
    assert {r.timestamp for r in decode_batch(valid.data)} == {NOW_MS}


def test_clients_may_not_claim_log_append_time() -> None:
    data = patched(batch(b"a"), 21, ">h", 0x08)
    assert refusal(data, message_timestamp_type="LogAppendTime") is ErrorCode.INVALID_TIMESTAMP


def test_compacted_topics_want_keys() -> None:
    data = batch((b"k", b"v"), (None, b"v"), (None, b"w"))
    with pytest.raises(RecordsRefusedError) as refused:
        check(data, cleanup_policy="compact,delete")
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert [e.batch_index for e in refused.value.record_errors] == [1, 2]


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
def test_batches_are_stored_in_the_topics_codec(codec: Compression, wanted: str) -> None:
    data = batch(*[b"value %d" % n for n in range(50)], compression=codec, producer=(3, 1, 9))
    before = list(decode_batch(data))
    valid = check(data, compression_type=wanted)
    expected = codec if wanted == "producer" else Compression["NONE" if wanted == "uncompressed" else wanted.upper()]
    assert read_header(valid.data, 0).compression == expected
    assert check_crc(valid.data, 0, valid.header)
    assert list(decode_batch(valid.data)) == before
    assert (valid.header.producer_id, valid.header.producer_epoch, valid.header.base_sequence) == (3, 1, 9)


def test_a_coordinators_batch_is_taken_as_made_unless_the_topic_wants_it_changed() -> None:
    made = batch(b"a", b"b")
    assert bytes(check(made, origin=AppendOrigin.COORDINATOR).data) == bytes(made)
    assert refusal(batch(b"x" * 500), origin=AppendOrigin.COORDINATOR, max_message_bytes="400") is (
        ErrorCode.MESSAGE_TOO_LARGE
    )
    compressed = check(batch(b"a", b"b"), origin=AppendOrigin.COORDINATOR, compression_type="zstd")
    assert compressed.header.compression is Compression.ZSTD
    stamped = check(batch(b"a"), origin=AppendOrigin.COORDINATOR, message_timestamp_type="LogAppendTime")
    assert stamped.header.timestamp_type is TimestampType.LOG_APPEND_TIME


def test_markers_are_not_compressed() -> None:
    valid = check(marker(1, 0, commit=True), origin=AppendOrigin.COORDINATOR, compression_type="zstd")
    assert valid.header.compression is Compression.NONE
