"""Arrow's columns -> record batches, without a look at each record: for rows that have a value and nothing else.

What stands around the values, lengths and offsets, is made for all records at once by numpy; Arrow joins it with the
values in one pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]

_AROUND: Final = 24
"""More than what stands around a value can take."""
_NULL: Final = -1
_LONGEST: Final = 10


def bodies(values: pa.Array, most_bytes: int) -> Iterator[tuple[pa.Array, memoryview]]:
    """Give the values in pieces, each with the records that it comes to; offsets begin at 0 in each.

    values: BINARY, nulls for tombstones; most_bytes: of a piece, unless a single record is larger.
    """
    sizes = _sizes(values)
    reach = np.cumsum(np.maximum(sizes, 0) + _AROUND)
    first, before = 0, 0
    while first < len(values):
        end = max(int(np.searchsorted(reach, before + most_bytes, "right")), first + 1)
        piece = values.slice(first, end - first)
        yield piece, _records(piece, sizes[first:end])
        first, before = end, int(reach[end - 1])


def _records(values: pa.Array, sizes: Ints) -> memoryview:
    deltas = varints(np.arange(len(values)))
    value_sizes = varints(sizes)
    around = _sizes(deltas) + _sizes(value_sizes) + 4  # attributes, timestamp delta, null key, number of headers
    lengths = varints(around + np.maximum(sizes, 0))
    joined = pc.binary_join_element_wise(
        lengths, b"\0\0", deltas, b"\1", value_sizes, pc.fill_null(values, b""), b"\0", b""
    )
    first, end = (int(edge) for edge in _edges(joined)[[0, -1]])
    return memoryview(joined.buffers()[2])[first:end]


def varints(numbers: Ints) -> pa.Array:
    """Give numbers as Kafka's varints, zigzagged, each an element of a BINARY column."""
    zigzagged = ((numbers << 1) ^ (numbers >> 63)).astype(np.uint64)
    counts = np.ones(len(numbers), np.int64)
    for group in range(1, _LONGEST):
        counts += zigzagged >> np.uint64(7 * group) != 0
    edges = np.concatenate(([0], np.cumsum(counts)))
    octets = np.empty(int(edges[-1]), np.uint8)
    for group in range(int(counts.max(initial=0))):
        rows = np.flatnonzero(counts > group)
        part = (zigzagged[rows] >> np.uint64(7 * group)) & np.uint64(127)
        octets[edges[rows] + group] = part | np.where(counts[rows] > group + 1, 128, 0).astype(np.uint64)
    buffers = [None, pa.py_buffer(edges.astype(np.int32)), pa.py_buffer(octets)]
    return pa.Array.from_buffers(pa.binary(), len(numbers), buffers)


def _sizes(column: pa.Array) -> Ints:
    sizes: Ints = np.diff(_edges(column)).astype(np.int64)
    if column.null_count:
        sizes[np.asarray(pc.is_null(column))] = _NULL
    return sizes


def _edges(column: pa.Array) -> npt.NDArray[np.int32]:
    whole = np.frombuffer(column.buffers()[1], np.int32)
    return whole[column.offset : column.offset + len(column) + 1]
