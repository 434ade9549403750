"""The records of a batch, as columns or one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from barnabas.wire.batch_header import BATCH_HEADER_SIZE, BatchHeader, TimestampType, iter_headers, read_header
from barnabas.wire.compression import MAX_DECOMPRESSED_BYTES, Compression, decompress
from barnabas.wire.errors import ProtocolError
from barnabas.wire.primitives import Buffer, read_zigzag

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """A record. timestamp: ms since the epoch, -1 for none; headers may repeat a name."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


class Columns(NamedTuple):
    """Records column by column; all lists have the same length."""

    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Sequence[Header]]

    @classmethod
    def empty(cls) -> Columns:
        """Give columns without records, to be filled."""
        return cls([], [], [], [], [])


_SMALLEST_RECORD_BYTES: Final = 7
_ONE_BYTE: Final = [n >> 1 ^ -(n & 1) for n in range(128)]
"""What each varint of one byte says."""


def decode_columns(
    buf: Buffer, *, control: bool = False, partial_tail: bool = False, max_size: int = MAX_DECOMPRESSED_BYTES
) -> Columns:
    """Give the records of all batches in buf; control: those of control batches too.

    partial_tail: as in `iter_headers`; max_size: what one batch may grow to. ProtocolError when damaged; checksums
    are not looked at.
    """
    out = Columns.empty()
    for pos, header in iter_headers(buf, partial_tail=partial_tail):
        if control or not header.is_control:
            decode_body(buf, pos, header, out, max_size)
    return out


def decode_batch(buf: Buffer, pos: int = 0, *, max_size: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
    """Give the records of the batch at pos."""
    header = read_header(buf, pos)
    if header.size > len(buf) - pos:
        raise ProtocolError(f"a batch of {header.size} bytes is cut off after {len(buf) - pos}")
    out = Columns.empty()
    decode_body(buf, pos, header, out, max_size)
    return map(Record, *out)


def iter_records(buf: Buffer, *, control: bool = False, partial_tail: bool = False) -> Iterator[Record]:
    """Give the records of all batches in buf, batch after batch."""
    for pos, header in iter_headers(buf, partial_tail=partial_tail):
        if control or not header.is_control:
            yield from decode_batch(buf, pos)


def decode_body(buf: Buffer, pos: int, header: BatchHeader, out: Columns, max_size: int) -> None:
    """Append the records of the batch at pos, all of which lies in buf."""
    codec = header.compression
    body = memoryview(buf)[pos + BATCH_HEADER_SIZE : pos + header.size]
    data = bytes(body) if codec is Compression.NONE else decompress(codec, body, max_size)
    if header.record_count * _SMALLEST_RECORD_BYTES > len(data):
        raise ProtocolError(f"{len(data)} bytes cannot hold {header.record_count} records")
    try:
        end = _read_records(data, header.record_count, header.base_offset, header.base_timestamp, out)
    except IndexError:
        raise ProtocolError("a batch ends in the middle of a record") from None
    if end != len(data):
        raise ProtocolError(f"{len(data) - end} bytes follow the last record of a batch")
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        first = len(out.timestamps) - header.record_count
        out.timestamps[first:] = [header.max_timestamp] * header.record_count


def _read_records(data: bytes, count: int, base_offset: int, base_timestamp: int, out: Columns) -> int:  # noqa: C901
    """Read count records. One function, varints read in place: it runs for every record that is consumed."""
    add_offset, add_timestamp = out.offsets.append, out.timestamps.append
    add_key, add_value, add_headers = out.keys.append, out.values.append, out.headers.append
    size = len(data)
    small = _ONE_BYTE
    p = 0
    for _ in range(count):
        n = data[p]
        if n < 128:
            p += 1
            n = small[n]
        elif (m := data[p + 1]) < 128 and not n & 1:
            p += 2
            n = m << 6 | n >> 1 & 63
        else:
            n, p = read_zigzag(data, p)
        end = p + n
        if n < 0 or end > size:
            raise ProtocolError(f"a record cannot have {n} bytes")
        n = data[p + 1]  # past the attributes: none are defined
        if n < 128:
            p += 2
            add_timestamp(base_timestamp + small[n])
        else:
            n, p = read_zigzag(data, p + 1)
            add_timestamp(base_timestamp + n)
        n = data[p]
        if n < 128:
            p += 1
            add_offset(base_offset + small[n])
        elif (m := data[p + 1]) < 128 and not n & 1:
            p += 2
            add_offset(base_offset + (m << 6 | n >> 1 & 63))
        else:
            n, p = read_zigzag(data, p)
            add_offset(base_offset + n)
        n = data[p]
        if n < 128:
            p += 1
            n = small[n]
        else:
            n, p = read_zigzag(data, p)
        if n < 0:
            add_key(None)
        else:
            add_key(data[p : p + n])
            p += n
        n = data[p]
        if n < 128:
            p += 1
            n = small[n]
        elif (m := data[p + 1]) < 128 and not n & 1:
            p += 2
            n = m << 6 | n >> 1 & 63
        else:
            n, p = read_zigzag(data, p)
        if n < 0:
            add_value(None)
        else:
            add_value(data[p : p + n])
            p += n
        if data[p]:
            headers, p = _read_headers(data, p, end)
            add_headers(headers)
        else:
            p += 1
            add_headers(())
        if p != end:
            raise ProtocolError("a record does not have the size it says")
    return p


def _read_headers(data: bytes, p: int, end: int) -> tuple[list[Header], int]:
    count, p = read_zigzag(data, p)
    if not 0 <= count <= end - p:
        raise ProtocolError(f"a record cannot have {count} headers")
    headers: list[Header] = []
    for _ in range(count):
        n, p = read_zigzag(data, p)
        if not 0 <= n <= end - p:
            raise ProtocolError("a header's name is null or too long")
        name = data[p : p + n].decode("utf-8", "replace")
        n, p = read_zigzag(data, p + n)
        if n > end - p:
            raise ProtocolError("a header's value is too long")
        if n < 0:
            headers.append((name, None))
        else:
            headers.append((name, data[p : p + n]))
            p += n
    return headers, p
