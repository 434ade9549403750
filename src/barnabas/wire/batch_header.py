"""The 61 bytes before the records of a batch, read and changed in place."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from crc32c import crc32c as _crc32c

from barnabas.wire.compression import Compression
from barnabas.wire.errors import ProtocolError
from barnabas.wire.primitives import Buffer

BATCH_HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
"""Base offset and length: what the length itself does not count."""
CURRENT_MAGIC: Final = 2
NO_PARTITION_LEADER_EPOCH: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
CRC_AT: Final = 17
CHECKED_FROM: Final = 21
"""The checksum covers everything from here on, so offset and leader epoch may be set without touching it."""
_MAX_TIMESTAMP_AT: Final = 35
_MAGIC_AT: Final = 16
_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_OFFSET: Final = struct.Struct(">q")
_EPOCH: Final = struct.Struct(">i")

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40


class TimestampType(IntEnum):
    """Who set the timestamps: the producer, or the broker when it appended."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """A batch's header, field by field."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Give the bytes of the whole batch."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Give the offset of the last record (of a compacted batch: that it had)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Give the offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Give the sequence number of the last record, -1 when there is none; it wraps at 2^31."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def compression(self) -> Compression:
        """Give the codec; ProtocolError for a number that stands for none."""
        codec = self.attributes & COMPRESSION_MASK
        if codec > Compression.ZSTD:
            raise ProtocolError(f"a batch names the unknown compression {codec}")
        return Compression(codec)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds control records, which consumers never see."""
        return bool(self.attributes & CONTROL)

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent producer wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def timestamp_type(self) -> TimestampType:
        """Say who set the timestamps."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE else TimestampType.CREATE_TIME

    @property
    def delete_horizon_ms(self) -> int | None:
        """Give the time from which the cleaner may drop this batch's tombstones; None when not set (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Give the header at pos; ProtocolError when it is cut short, of another magic, or contradicts itself.

    The batch itself may reach past the end of buf: compare `size`.
    """
    if len(buf) - pos < BATCH_HEADER_SIZE:
        _check_magic(buf, pos)
        raise ProtocolError(f"a batch header needs {BATCH_HEADER_SIZE} bytes, {len(buf) - pos} are left")
    header = BatchHeader._make(HEADER.unpack_from(buf, pos))
    if header.magic != CURRENT_MAGIC:
        raise ProtocolError(f"batches of magic {header.magic} are not supported, only {CURRENT_MAGIC}")
    if header.batch_length < BATCH_HEADER_SIZE - LOG_OVERHEAD:
        raise ProtocolError(f"a batch cannot have {header.size} bytes")
    if header.record_count < 0 or header.last_offset_delta < 0:
        raise ProtocolError(f"a batch cannot have {header.record_count} records up to {header.last_offset_delta}")
    return header


def _check_magic(buf: Buffer, pos: int) -> None:
    if len(buf) - pos > _MAGIC_AT and buf[pos + _MAGIC_AT] != CURRENT_MAGIC:
        raise ProtocolError(f"batches of magic {buf[pos + _MAGIC_AT]} are not supported, only {CURRENT_MAGIC}")


def iter_headers(buf: Buffer, pos: int = 0, *, partial_tail: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """Give (position, header) of each batch.

    partial_tail: a batch that buf cuts off ends the iteration (a fetch response may end so), else ProtocolError.
    """
    end = len(buf)
    while pos < end:
        if partial_tail and _cut_off(buf, pos):
            return
        header = read_header(buf, pos)
        if header.size > end - pos:
            raise ProtocolError(f"a batch of {header.size} bytes is cut off after {end - pos}")
        yield pos, header
        pos += header.size


def _cut_off(buf: Buffer, pos: int) -> bool:
    left = len(buf) - pos
    if left < LOG_OVERHEAD:
        return True
    length: int = _OFFSET_AND_LENGTH.unpack_from(buf, pos)[1]
    return length + LOG_OVERHEAD > left


def crc32c(data: Buffer) -> int:
    """Give the CRC-32C of a buffer of any kind, without copying it."""
    return _crc32c(data)


def check_crc(buf: Buffer, pos: int, header: BatchHeader) -> bool:
    """Whether the checksum in the header is that of the bytes."""
    return _crc32c(memoryview(buf)[pos + CHECKED_FROM : pos + header.size]) == header.crc


def assign(buf: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch at pos its place in the log. The checksum does not cover these."""
    _OFFSET.pack_into(buf, pos, base_offset)
    _EPOCH.pack_into(buf, pos + LOG_OVERHEAD, leader_epoch)


def set_max_timestamp(buf: bytearray | memoryview, pos: int, timestamp_type: TimestampType, timestamp: int) -> None:
    """Change who set the timestamps and the greatest of them, and the checksum with it.

    With LOG_APPEND_TIME every record of the batch is read with that timestamp.
    """
    header = read_header(buf, pos)
    attributes = header.attributes & ~TIMESTAMP_TYPE | (TIMESTAMP_TYPE if timestamp_type else 0)
    if attributes == header.attributes and timestamp == header.max_timestamp:
        return
    struct.pack_into(">h", buf, pos + CHECKED_FROM, attributes)
    _OFFSET.pack_into(buf, pos + _MAX_TIMESTAMP_AT, timestamp)
    struct.pack_into(">I", buf, pos + CRC_AT, _crc32c(memoryview(buf)[pos + CHECKED_FROM : pos + header.size]))
