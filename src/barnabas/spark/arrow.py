"""Record batches -> Arrow columns, a fetch response at a time.

Finding where each record starts is the only loop over records in Python, since each length says where the next one
stands. Everything after that is done for all records at once: numpy reads the varints, and Arrow copies keys and
values out of the response in one pass each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.wire.errors import ProtocolError

Ints = npt.NDArray[np.int64]

HEADERS_TYPE: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

COLUMNS: Final = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
)
SCHEMA: Final = pa.schema(COLUMNS)
SCHEMA_WITH_HEADERS: Final = pa.schema([*COLUMNS, pa.field("headers", HEADERS_TYPE)])

MAX_CHUNK_BYTES: Final = 1 << 30
"""Arrow's binary columns count bytes in 32 bits."""


class Payload(NamedTuple):
    """The records of one batch, decompressed. log_append_ms: the batch's time when the log gives it, else None."""

    records: bytes | memoryview
    record_count: int
    base_offset: int
    base_timestamp_ms: int
    log_append_ms: int | None


def decode(
    payloads: Sequence[Payload], topic: str, partition: int, start: int, end: int, *, headers: bool = False
) -> pa.RecordBatch:
    """Give the records of these batches with start <= offset < end, as the columns of Spark's Kafka source.

    Together at most `MAX_CHUNK_BYTES`. ProtocolError when a batch is not what it says.
    """
    data, bodies, ends = _scan(payloads)
    counts = [payload.record_count for payload in payloads]
    octets = np.frombuffer(data, np.uint8)
    try:
        found = _locate(octets, bodies)
        past_headers, header_parts = _headers(octets, found, headers)
    except IndexError as error:
        raise ProtocolError("a record reaches past its batch") from error
    if not np.array_equal(past_headers, ends):
        raise ProtocolError("the fields of a record do not add up to its length")
    offsets = np.repeat(_column(p.base_offset for p in payloads), counts) + found.offset_delta
    wanted = slice(int(np.searchsorted(offsets, start)), int(np.searchsorted(offsets, end)))
    times, kinds = _timestamps(payloads, counts, found.timestamp_delta)
    keys, values = _keys_and_values(data, found, wanted)
    rows = len(offsets[wanted])
    columns: list[Any] = [
        keys,
        values,
        pa.repeat(pa.scalar(topic), rows),
        pa.array(np.full(rows, partition, np.int32)),
        pa.array(offsets[wanted]),
        pa.array(times[wanted] * 1000).view(pa.timestamp("us", tz="UTC")),
        pa.array(kinds[wanted]),
    ]
    if not headers:
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    columns.append(_header_column(data, header_parts, found.header_count, wanted))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA_WITH_HEADERS)


class _Located(NamedTuple):
    """Where the parts of each record are. A null key or value has the size -1."""

    timestamp_delta: Ints
    offset_delta: Ints
    key: Ints
    key_size: Ints
    value: Ints
    value_size: Ints
    header_count: Ints
    headers: Ints


class _HeaderParts(NamedTuple):
    """All headers, records in order and the headers of each in order."""

    key: Ints
    key_size: Ints
    value: Ints
    value_size: Ints


def _column(values: Any) -> Ints:
    return np.fromiter(values, np.int64)


def _scan(payloads: Sequence[Payload]) -> tuple[bytes, Ints, Ints]:
    """Give the payloads in one piece, where each record's body starts and where it ends."""
    data = payloads[0].records if len(payloads) == 1 else b"".join([payload.records for payload in payloads])
    bodies: list[int] = []
    position = 0
    try:
        for payload in payloads:
            last = position + len(payload.records)
            if not 0 <= payload.record_count <= len(payload.records):
                raise ProtocolError(f"a batch of {len(payload.records)} bytes claims {payload.record_count} records")
            position = _record_starts(data, position, payload.record_count, bodies)
            if position != last:
                raise ProtocolError("the records of a batch do not add up to its length")
    except IndexError as error:
        raise ProtocolError("a record reaches past its batch") from error
    starts = np.array(bodies, np.int64)
    sizes = np.array(bodies[1::2], np.int64)
    return bytes(data) if not isinstance(data, bytes) else data, starts[0::2], starts[0::2] + sizes


def _record_starts(data: bytes | memoryview, position: int, count: int, found: list[int]) -> int:
    """Append (body, size) of each record, flat; give where the last one ends."""
    append = found.append
    for _ in range(count):
        octet = data[position]
        position += 1
        size = octet & 127
        shift = 7
        while octet >= 128:
            octet = data[position]
            position += 1
            size |= (octet & 127) << shift
            shift += 7
            if shift > 35:
                raise ProtocolError("the length of a record has more than five bytes")
        if size & 1:
            raise ProtocolError("the length of a record is negative")
        size >>= 1
        append(position)
        append(size)
        position += size
    return position


def _varints(octets: npt.NDArray[np.uint8], position: Ints) -> tuple[Ints, Ints]:
    """Read one zigzag varint at each position; give the values and the positions after them."""
    octet = octets[position]
    value = (octet & 127).astype(np.uint64)
    position = position + 1
    more = np.flatnonzero(octet >= 128)
    shift = 7
    while more.size:
        if shift > 63:
            raise ProtocolError("a number in a record has more than ten bytes")
        octet = octets[position[more]]
        value[more] |= (octet & 127).astype(np.uint64) << np.uint64(shift)
        position[more] += 1
        more = more[octet >= 128]
        shift += 7
    return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64), position


def _sizes(octets: npt.NDArray[np.uint8], position: Ints, least: int) -> tuple[Ints, Ints]:
    size, position = _varints(octets, position)
    if size.size and not (least <= int(size.min()) and int(size.max()) <= len(octets)):
        raise ProtocolError("a length inside a record is impossible")
    return size, position


def _locate(octets: npt.NDArray[np.uint8], bodies: Ints) -> _Located:
    timestamp_delta, position = _varints(octets, bodies + 1)  # the first byte is attributes, all unused
    offset_delta, position = _varints(octets, position)
    key_size, key = _sizes(octets, position, -1)
    value_size, value = _sizes(octets, key + np.maximum(key_size, 0), -1)
    header_count, headers = _sizes(octets, value + np.maximum(value_size, 0), 0)
    return _Located(timestamp_delta, offset_delta, key, key_size, value, value_size, header_count, headers)


def _headers(octets: npt.NDArray[np.uint8], found: _Located, wanted: bool) -> tuple[Ints, _HeaderParts | None]:
    """Walk the headers, the n-th ones of all records at once; give where records end, and the parts if wanted."""
    position = found.headers.copy()
    count = found.header_count
    total = int(count.sum())
    if total > len(octets):
        raise ProtocolError(f"records of {len(octets)} bytes claim {total} headers")
    if total == 0:
        return position, _HeaderParts(*(np.empty(0, np.int64) for _ in range(4))) if wanted else None
    first = np.cumsum(count) - count
    parts = _HeaderParts(*(np.empty(total, np.int64) for _ in range(4)))
    for nth in range(int(count.max())):
        rows = np.flatnonzero(count > nth)
        key_size, key = _sizes(octets, position[rows], 0)
        value_size, value = _sizes(octets, key + key_size, -1)
        position[rows] = value + np.maximum(value_size, 0)
        at = first[rows] + nth
        parts.key[at], parts.key_size[at], parts.value[at], parts.value_size[at] = key, key_size, value, value_size
    return position, parts if wanted else None


def _timestamps(payloads: Sequence[Payload], counts: list[int], delta: Ints) -> tuple[Ints, npt.NDArray[np.int32]]:
    """Give each record's time in ms, and 0 where its creator gave it, 1 where the log did."""
    base = _column(p.base_timestamp_ms if p.log_append_ms is None else p.log_append_ms for p in payloads)
    by_log = np.array([p.log_append_ms is not None for p in payloads], np.bool_)
    kinds = np.repeat(by_log, counts)
    return np.repeat(base, counts) + np.where(kinds, 0, delta), kinds.astype(np.int32)


def _keys_and_values(data: bytes, found: _Located, wanted: slice) -> tuple[Any, Any]:
    edges = (found.key, found.key_size, found.value, found.value_size)
    return _copy_out(data, *(each[wanted] for each in edges))


def _copy_out(data: bytes, a: Ints, a_size: Ints, b: Ints, b_size: Ints) -> tuple[Any, Any]:
    """Give two binary columns of the slices (a, a_size) and (b, b_size), which alternate in `data`.

    The whole of `data` is first seen, uncopied, as a binary column whose even elements are the slices.
    """
    rows = len(a)
    slices = (a, a + np.maximum(a_size, 0), b, b + np.maximum(b_size, 0))
    edges = np.stack(slices, axis=1).astype(np.int32).ravel()
    edges = np.append(edges, edges[-1:])
    whole = pa.Array.from_buffers(pa.binary(), 4 * rows, [None, pa.py_buffer(edges), pa.py_buffer(data)])
    at = np.arange(0, 4 * rows, 4)
    return whole.take(pa.array(at, mask=a_size < 0)), whole.take(pa.array(at + 2, mask=b_size < 0))


def _header_column(data: bytes, parts: _HeaderParts | None, count: Ints, wanted: slice) -> Any:
    """Give the headers of the wanted records; null where a record has none, as Spark's source does."""
    assert parts is not None
    edges = np.concatenate(([0], np.cumsum(count)))
    rows = count[wanted]
    first = wanted.start
    low, high = int(edges[first]), int(edges[first + len(rows)])
    keys, values = _copy_out(data, *(each[low:high] for each in parts))
    try:
        names = keys.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise ProtocolError("the key of a header is not UTF-8") from error
    pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS_TYPE.value_type))
    list_edges = (edges[first : first + len(rows) + 1] - low).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(list_edges), pairs, type=HEADERS_TYPE, mask=pa.array(rows == 0))
