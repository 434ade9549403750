"""Walking over the record batches of a segment file, without decoding a record."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas.storage.fs import File
from barnabas.wire.errors import ProtocolError
from barnabas.wire.record_batch import BATCH_HEADER_SIZE, CURRENT_MAGIC, BatchHeader, read_header

LOG_OVERHEAD: Final = 12
"""Base offset and length: what precedes the counted bytes of a batch."""
_OLD_MIN_LENGTH: Final = 14
MIN_BATCH_LENGTH: Final = BATCH_HEADER_SIZE - LOG_OVERHEAD
LAST_OFFSET_DELTA_AT: Final = 23
_HOP: Final = struct.Struct(">qi11xi")
_LOOKUP_BYTES: Final = 8 * 1024
_CHUNK_BYTES: Final = 1024 * 1024


class CorruptBatchError(Exception):
    """The bytes where a batch should begin are not one."""


class UnsupportedFormatError(Exception):
    """A file holds records of a message format before 2 (Kafka 0.10 and older), which is not read here."""


class BatchPosition(NamedTuple):
    """Where a batch stands in its file, and what it spans."""

    position: int
    size: int
    base_offset: int
    last_offset: int


def refuse_old_format(file: File, position: int, end: int) -> None:
    """UnsupportedFormatError when a whole batch of an old message format begins at a position."""
    head = file.pread(17, position)
    if len(head) == 17 and head[16] < CURRENT_MAGIC:
        length = int.from_bytes(head[8:12], "big", signed=True)
        if _OLD_MIN_LENGTH <= length <= end - position - LOG_OVERHEAD:
            raise UnsupportedFormatError(f"message format {head[16]} at position {position}; only 2 is read")


def find(file: File, offset: int, position: int, end: int) -> BatchPosition | None:
    """Give the first batch from `position` on whose last offset is at least `offset`; None when there is none."""
    start, chunk = position, b""
    while position + BATCH_HEADER_SIZE <= end:
        at = position - start
        if at + BATCH_HEADER_SIZE > len(chunk):
            start, at = position, 0
            chunk = file.pread(min(_LOOKUP_BYTES, end - position), position)
            if len(chunk) < BATCH_HEADER_SIZE:
                return None
        base, length, delta = _HOP.unpack_from(chunk, at)
        if length < MIN_BATCH_LENGTH:
            raise CorruptBatchError(f"a batch of {length} bytes at position {position}")
        if base + delta >= offset:
            return BatchPosition(position, length + LOG_OVERHEAD, base, base + delta)
        position += length + LOG_OVERHEAD
    return None


def headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Give (position, header) of each batch that lies whole in [position, end); stops at the first that is not one."""
    start, chunk = position, b""
    while position + BATCH_HEADER_SIZE <= end:
        at = position - start
        if at + BATCH_HEADER_SIZE > len(chunk):
            start, at = position, 0
            chunk = file.pread(min(_LOOKUP_BYTES, end - position), position)
        try:
            header = read_header(chunk, at)
        except ProtocolError:
            return
        if position + header.size > end:
            return
        yield position, header
        position += header.size


def batches(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Give (position, header, bytes) of each batch that lies whole in [position, end); reads big chunks."""
    while position + BATCH_HEADER_SIZE <= end:
        chunk = memoryview(file.pread(min(_CHUNK_BYTES, end - position), position))
        at = 0
        while at + BATCH_HEADER_SIZE <= len(chunk):
            try:
                header = read_header(chunk, at)
            except ProtocolError:
                return
            size = header.size
            if position + at + size > end:
                return
            if at + size > len(chunk):
                if at == 0:
                    chunk = memoryview(file.pread(size, position))
                    continue
                break
            yield position + at, header, chunk[at : at + size]
            at += size
        if at == 0:
            return
        position += at
