"""What a leader checks of a batch before it is written, and what it changes in it.

Checks look at the header, and at records only where a setting asks for it: keys in compacted topics, timestamps
when a lower bound is set, batches of few records (as a wrong count is cheap to see there). A coordinator's batch, which
this node has just made, is taken as it is unless the topic wants it changed. Changes are made in place in the request's
buffer; only compressing anew makes a new one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from barnabas.storage.log_config import LogConfig
from barnabas.wire.compression import Compression
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError
from barnabas.wire.record_batch import (
    BATCH_HEADER_SIZE,
    BatchHeader,
    Record,
    check_crc,
    crc32c,
    decode_batch,
    encode_batch,
    read_header,
)

TIMESTAMP_TYPE_BIT: Final = 0x08
CONTROL_BIT: Final = 0x20
_FEW_RECORDS: Final = 16
_UNBOUNDED: Final = 2**63 - 1
_CRC_AT: Final = 17
_CRC_STARTS_AT: Final = 21
_MAX_TIMESTAMP_AT: Final = 35
_INT16: Final = struct.Struct(">h")
_INT64: Final = struct.Struct(">q")
_UINT32: Final = struct.Struct(">I")


class AppendOrigin(Enum):
    """Who appends; it decides what is checked and who assigns offsets."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    RAFT_LEADER = "raft-leader"
    REPLICATION = "replication"


class RecordError(NamedTuple):
    """What is wrong with one record of a batch; batch_index: its place in the batch."""

    batch_index: int
    message: str


class RecordsRefusedError(ApiError):
    """A batch refused for some of its records; Produce answers with the list (KIP-467)."""

    def __init__(self, code: ErrorCode, errors: Sequence[RecordError]) -> None:
        super().__init__(code, f"{len(errors)} records are refused, the first: {errors[0].message}")
        self.record_errors = tuple(errors)


class OutOfSequenceError(ApiError):
    """A client's batch that begins at no offset or sequence that one may begin at."""


class ValidBatch(NamedTuple):
    """A batch that may be written. log_append_time_ms: -1 when records keep their own time."""

    header: BatchHeader
    data: memoryview
    log_append_time_ms: int


def validate(records: memoryview, config: LogConfig, origin: AppendOrigin, now_ms: int, partition: str) -> ValidBatch:
    """Give the one batch in `records`, ready but for its offset and epoch; ApiError with Kafka's code when refused.

    records: a writable buffer of one v2 batch; bytes after it that are not a whole batch are ignored, as in Kafka.
    """
    made_here = origin is AppendOrigin.COORDINATOR
    if made_here and len(records) <= config.max_message_bytes and _takes_as_made(config):
        return ValidBatch(read_header(records), records, -1)
    header = _header(records, partition)
    size = header.batch_length + 12
    if origin is AppendOrigin.CLIENT and header.base_offset:
        raise OutOfSequenceError(
            ErrorCode.INVALID_RECORD,
            f"a batch for {partition} begins at offset {header.base_offset}, where 0 is wanted",
        )
    if size > config.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size} bytes for {partition} is larger than max.message.bytes={config.max_message_bytes}",
        )
    if not made_here and not check_crc(records, 0, header):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the CRC of a batch for {partition} is not {header.crc}")
    if len(records) != size:
        _refuse_second_batch(records, size, partition)
        records = records[:size]
    if origin is AppendOrigin.CLIENT:
        _check_client_header(header, partition)
        if header.record_count <= _FEW_RECORDS and not header.attributes & 7:
            _count_records(records, header, partition)
    _check_timestamps(header, records, config, now_ms, partition)
    if origin is AppendOrigin.CLIENT and config.compact:
        _check_keys(records, partition)
    codec = config.compression
    if codec is not None and codec != header.attributes & 7 and not (header.attributes & CONTROL_BIT):
        return _recompressed(header, records, config, now_ms, partition)
    return _stamped(header, records, config, now_ms)


def _takes_as_made(config: LogConfig) -> bool:
    anew = config.compression is not None or config.log_append_time
    return not anew and config.timestamp_before_max_ms == _UNBOUNDED


def _header(records: memoryview, partition: str) -> BatchHeader:
    if len(records) < BATCH_HEADER_SIZE:
        raise _invalid(f"{len(records)} bytes for {partition} hold no record batch")
    magic = records[16]
    if magic < 2:
        raise _invalid(f"a batch for {partition} has the message format {magic}, only 2 is accepted")
    try:
        header = read_header(records, 0)
    except ProtocolError as e:
        raise ApiError(_code_of_bad_header(records), f"a batch for {partition} cannot be read: {e}") from None
    if header.batch_length + 12 > len(records):
        raise _invalid(f"{len(records)} bytes for {partition} hold no whole record batch")
    return header


def _code_of_bad_header(records: memoryview) -> ErrorCode:
    """Give INVALID_RECORD for a header that says nonsense under a right CRC, else CORRUPT_MESSAGE."""
    size = 12 + int.from_bytes(records[8:12], "big", signed=True)
    if records[16] == 2 and BATCH_HEADER_SIZE <= size <= len(records):
        (crc,) = _UINT32.unpack_from(records, _CRC_AT)
        if crc32c(records[_CRC_STARTS_AT:size]) == crc:
            return ErrorCode.INVALID_RECORD
    return ErrorCode.CORRUPT_MESSAGE


def _refuse_second_batch(records: memoryview, size: int, partition: str) -> None:
    rest = len(records) - size
    if rest >= BATCH_HEADER_SIZE and 12 + int.from_bytes(records[size + 8 : size + 12], "big", signed=True) <= rest:
        raise _invalid(f"more than one batch came for {partition}")


def _check_client_header(header: BatchHeader, partition: str) -> None:
    delta, count = header.last_offset_delta, header.record_count
    if delta < 0 or count <= 0 or delta + 1 != count:
        raise _invalid(f"a batch for {partition} announces {count} records and a last offset delta of {delta}")
    if header.attributes & CONTROL_BIT:
        raise _invalid(f"a client sent a control batch for {partition}")
    if header.attributes & 7 > Compression.ZSTD:
        raise _invalid(f"a batch for {partition} is compressed with an unknown codec, {header.attributes & 7}")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise OutOfSequenceError(
            ErrorCode.INVALID_RECORD,
            f"a batch of producer {header.producer_id} for {partition} has the sequence {header.base_sequence}",
        )


def _count_records(batch: memoryview, header: BatchHeader, partition: str) -> None:
    at, end = BATCH_HEADER_SIZE, len(batch)
    for _ in range(header.record_count):
        length, shift = 0, 0
        while True:
            if at >= end or shift > 28:
                raise _invalid(f"a batch for {partition} ends before its {header.record_count} records")
            byte = batch[at]
            at += 1
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        if length & 1:
            raise _invalid(f"a batch for {partition} holds a record of negative length")
        at += length >> 1
    if at != end:
        raise _invalid(f"the {header.record_count} records of a batch for {partition} do not fill it")


def _check_keys(batch: memoryview, partition: str) -> None:
    message = f"a record without a key for {partition}, which is compacted"
    errors = [RecordError(i, message) for i, r in enumerate(_records(batch, partition)) if r.key is None]
    if errors:
        raise RecordsRefusedError(ErrorCode.INVALID_RECORD, errors)


def _check_timestamps(header: BatchHeader, batch: memoryview, config: LogConfig, now_ms: int, partition: str) -> None:
    create_time = not config.log_append_time
    if create_time and header.max_timestamp > now_ms + config.timestamp_after_max_ms:
        _refuse_timestamps(header, batch, config, now_ms)
    if create_time and config.timestamp_before_max_ms != _UNBOUNDED:
        _refuse_timestamps(header, batch, config, now_ms)
    if header.attributes & TIMESTAMP_TYPE_BIT and (config.log_append_time or header.max_timestamp < 0):
        message = f"a producer for {partition} set the timestamp type LogAppendTime"
        raise RecordsRefusedError(ErrorCode.INVALID_TIMESTAMP, [RecordError(0, message)])


def _refuse_timestamps(header: BatchHeader, batch: memoryview, config: LogConfig, now_ms: int) -> None:
    earliest = now_ms - config.timestamp_before_max_ms
    latest = now_ms + config.timestamp_after_max_ms
    message = "the timestamp {} is outside [" + f"{earliest}, {latest}]"
    errors = [
        RecordError(i, message.format(r.timestamp))
        for i, r in enumerate(_records(batch, "the topic"))
        if r.timestamp >= 0 and not earliest <= r.timestamp <= latest
    ]
    if not errors and header.max_timestamp > latest:
        errors = [RecordError(0, message.format(header.max_timestamp))]
    if errors:
        raise RecordsRefusedError(ErrorCode.INVALID_TIMESTAMP, errors)


def _records(batch: memoryview, partition: str) -> list[Record]:
    try:
        return list(decode_batch(batch))
    except ProtocolError as e:
        raise _invalid(f"the records of a batch for {partition} cannot be read: {e}") from None


def _stamped(header: BatchHeader, batch: memoryview, config: LogConfig, now_ms: int) -> ValidBatch:
    if config.log_append_time:
        header = header._replace(attributes=header.attributes | TIMESTAMP_TYPE_BIT, max_timestamp=now_ms)
    elif header.attributes & TIMESTAMP_TYPE_BIT:
        header = header._replace(attributes=header.attributes & ~TIMESTAMP_TYPE_BIT)
    else:
        return ValidBatch(header, batch, -1)
    _INT16.pack_into(batch, _CRC_STARTS_AT, header.attributes)
    _INT64.pack_into(batch, _MAX_TIMESTAMP_AT, header.max_timestamp)
    crc = crc32c(batch[_CRC_STARTS_AT:])
    _UINT32.pack_into(batch, _CRC_AT, crc)
    return ValidBatch(header._replace(crc=crc), batch, now_ms if config.log_append_time else -1)


def _recompressed(header: BatchHeader, batch: memoryview, config: LogConfig, now_ms: int, partition: str) -> ValidBatch:
    records = _records(batch, partition)
    if len(records) != header.record_count:
        raise _invalid(f"a batch for {partition} announces {header.record_count} records and holds {len(records)}")
    encoded = encode_batch(
        records,
        base_offset=header.base_offset,
        compression=config.compression or Compression.NONE,
        level=config.compression_level,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )
    if len(encoded) > config.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {len(encoded)} bytes for {partition}, once stored as {config.compression!r}, is larger "
            f"than max.message.bytes={config.max_message_bytes}",
        )
    data = memoryview(bytearray(encoded))
    return _stamped(read_header(data, 0), data, config, now_ms)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, message)
