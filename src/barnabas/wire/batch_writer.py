"""Records -> a batch of message format 2."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from crc32c import crc32c

from barnabas.wire.batch_header import (
    BATCH_HEADER_SIZE,
    CHECKED_FROM,
    CONTROL,
    CRC_AT,
    CURRENT_MAGIC,
    DELETE_HORIZON,
    HEADER,
    LOG_OVERHEAD,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE,
    TRANSACTIONAL,
    BatchHeader,
    TimestampType,
)
from barnabas.wire.batch_reader import Header, Record
from barnabas.wire.compression import Compression, compress
from barnabas.wire.errors import ProtocolError
from barnabas.wire.primitives import zigzag

_CRC: Final = struct.Struct(">I")


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    delete_horizon_ms: int | None = None,
    max_timestamp: int | None = None,
    keep_offsets: bool = False,
    last_offset: int | None = None,
) -> bytes:
    """Give the batch.

    Offsets run from base_offset, whatever the records say; with keep_offsets the records' own are kept, gaps and
    all. last_offset: what the batch claims to reach to, by default its last record. max_timestamp: by default the
    records' greatest; with LOG_APPEND_TIME it is the time that all of them have.
    """
    count = len(records)
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
    deltas = [r.offset - base_offset for r in records] if keep_offsets else range(count)
    body = _body(records, base_timestamp, deltas)
    if compression is not Compression.NONE and records:
        body = compress(compression, body, level)
    if max_timestamp is None:
        max_timestamp = max((r.timestamp for r in records), default=NO_TIMESTAMP)
    attributes = (
        compression
        | (TIMESTAMP_TYPE if timestamp_type else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
        | (DELETE_HORIZON if delete_horizon_ms is not None else 0)
    )
    last_delta = deltas[-1] if deltas else 0
    if last_offset is not None:
        last_delta = last_offset - base_offset
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=BATCH_HEADER_SIZE - LOG_OVERHEAD + len(body),
        leader_epoch=leader_epoch,
        magic=CURRENT_MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=count,
    )
    return _sealed(header, body)


class BatchBuilder:
    """A batch that grows record by record, in one buffer: offsets from 0 on, no headers. What a node itself writes."""

    __slots__ = ("_base_timestamp", "_data", "_max_timestamp", "count")

    def __init__(self) -> None:
        self.count = 0
        self._data = bytearray(BATCH_HEADER_SIZE)
        self._base_timestamp = self._max_timestamp = NO_TIMESTAMP

    def add(self, timestamp: int, key: bytes | None, value: bytes | None) -> None:
        """Add a record."""
        if self.count:
            head = b"\0" + zigzag(timestamp - self._base_timestamp) + zigzag(self.count)
            self._max_timestamp = max(self._max_timestamp, timestamp)
        else:
            head = b"\0\0\0"
            self._base_timestamp = self._max_timestamp = timestamp
        record = b"".join((
            head,
            b"\1" if key is None else zigzag(len(key)), key or b"",
            b"\1" if value is None else zigzag(len(value)), value or b"",
            b"\0",
        ))  # fmt: skip
        self._data += zigzag(len(record))
        self._data += record
        self.count += 1

    def batch(
        self,
        *,
        compression: Compression = Compression.NONE,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        transactional: bool = False,
    ) -> bytearray:
        """Give the batch; nothing may be added afterwards."""
        data = self._data
        if compression is not Compression.NONE:
            data[BATCH_HEADER_SIZE:] = compress(compression, bytes(data[BATCH_HEADER_SIZE:]))
        HEADER.pack_into(
            data, 0,
            0, len(data) - LOG_OVERHEAD, NO_PARTITION_LEADER_EPOCH, CURRENT_MAGIC, 0,
            compression | (TRANSACTIONAL if transactional else 0), self.count - 1,
            self._base_timestamp, self._max_timestamp, producer_id, producer_epoch, NO_SEQUENCE, self.count,
        )  # fmt: skip
        _CRC.pack_into(data, CRC_AT, crc32c(memoryview(data)[CHECKED_FROM:]))
        return data


def batch_of_body(
    body: bytes | memoryview,
    record_count: int,
    timestamp_ms: int,
    *,
    compression: Compression = Compression.NONE,
    level: int | None = None,
) -> bytes:
    """Give the batch of records that are encoded already, offsets from 0 on, all of one timestamp and no producer's."""
    data = bytes(body) if compression is Compression.NONE else compress(compression, bytes(body), level)
    header = BatchHeader(
        base_offset=0,
        batch_length=BATCH_HEADER_SIZE - LOG_OVERHEAD + len(data),
        leader_epoch=NO_PARTITION_LEADER_EPOCH,
        magic=CURRENT_MAGIC,
        crc=0,
        attributes=int(compression),
        last_offset_delta=record_count - 1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=record_count,
    )
    return _sealed(header, data)


def filtered_batch(
    header: BatchHeader,
    kept: Sequence[Record],
    *,
    delete_horizon_ms: int | None = None,
    compression: Compression | None = None,
    level: int | None = None,
) -> bytes:
    """Give a batch with only some of its records, as the cleaner writes it: offsets, producer and reach stay.

    delete_horizon_ms: newly set; one that the batch has already is kept. compression: None keeps the batch's.
    """
    append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    return encode_batch(
        kept,
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        compression=header.compression if compression is None else compression,
        level=level,
        timestamp_type=header.timestamp_type,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        delete_horizon_ms=header.delete_horizon_ms if delete_horizon_ms is None else delete_horizon_ms,
        max_timestamp=header.max_timestamp if append_time else None,
        keep_offsets=True,
        last_offset=header.last_offset,
    )


def empty_batch(header: BatchHeader) -> bytes:
    """Give a batch without records that keeps its producer's last sequence alive after compaction.

    As Kafka writes it: offsets, producer and flags stay, timestamps are left out but for the greatest.
    """
    attributes = header.attributes & (TIMESTAMP_TYPE | TRANSACTIONAL | CONTROL)
    length = BATCH_HEADER_SIZE - LOG_OVERHEAD
    kept = header._replace(batch_length=length, attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0)
    return _sealed(kept, b"")


def _sealed(header: BatchHeader, body: bytes) -> bytes:
    try:
        out = bytearray(HEADER.pack(*header))
    except struct.error as e:
        raise ProtocolError(f"a batch cannot be encoded: {e}") from None
    out += body
    _CRC.pack_into(out, CRC_AT, crc32c(memoryview(out)[CHECKED_FROM:]))
    return bytes(out)


def _body(records: Iterable[Record], base_timestamp: int, deltas: Iterable[int]) -> bytes:
    out: list[bytes] = []
    add = out.append
    for (_, timestamp, key, value, headers), delta in zip(records, deltas, strict=True):
        head = b"\0" + zigzag(timestamp - base_timestamp) + zigzag(delta)
        head += b"\1" if key is None else zigzag(len(key)) + key
        # The value is joined last, uncopied until then: it is the large part.
        tail = _headers(headers) if headers else b"\0"
        if value is None:
            add(zigzag(len(head) + 1 + len(tail)))
            add(head)
            add(b"\1")
        else:
            prefix = zigzag(len(value))
            add(zigzag(len(head) + len(prefix) + len(value) + len(tail)))
            add(head)
            add(prefix)
            add(value)
        add(tail)
    return b"".join(out)


def _headers(headers: Sequence[Header]) -> bytes:
    out = zigzag(len(headers))
    for name, value in headers:
        encoded = name.encode()
        out += zigzag(len(encoded)) + encoded
        out += b"\1" if value is None else zigzag(len(value)) + value
    return out
