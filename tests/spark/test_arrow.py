"""Decoding into Arrow, against batches that another implementation wrote."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from barnabas.spark import arrow
from barnabas.spark.arrow import Payload, decode
from barnabas.spark.schema import read_schema
from barnabas.wire.errors import ProtocolError

Row = tuple[bytes | None, bytes | None, int, Sequence[tuple[str, bytes | None]]]


def payload(rows: Sequence[Row], base_offset: int = 0, log_append_ms: int | None = None) -> Payload:
    """Give the records part of a batch that aiokafka wrote."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 24)
    for delta, (key, value, time_ms, headers) in enumerate(rows):
        assert builder.append(delta, time_ms, key, value, list(headers)) is not None
    batch = bytes(builder.build())
    (base_ms,) = struct.unpack_from(">q", batch, 27)
    return Payload(batch[61:], len(rows), base_offset, base_ms, log_append_ms)


ROWS: Sequence[Row] = [
    (b"a", b"x" * 300, 1_000, []),
    (None, b"", 1_005, [("trace", b"\x01"), ("none", None)]),
    (b"", None, 900, []),
    (b"k" * 200, b"y", 1_001, [("ü", b"")]),
]


def columns(batch: pa.RecordBatch) -> list[tuple[object, ...]]:
    return [(r["key"], r["value"], r["offset"], round(r["timestamp"].timestamp() * 1000)) for r in batch.to_pylist()]


def test_every_field_of_every_record_arrives() -> None:
    batch = decode([payload(ROWS, base_offset=40)], "flights", 3, 0, 100)
    assert columns(batch) == [(k, v, 40 + i, t) for i, (k, v, t, _) in enumerate(ROWS)]
    assert set(batch.column("topic").to_pylist()) == {"flights"}
    assert set(batch.column("partition").to_pylist()) == {3}
    assert set(batch.column("timestampType").to_pylist()) == {0}
    batch.validate(full=True)


def test_headers_are_lists_of_pairs_and_null_where_there_are_none() -> None:
    batch = decode([payload(ROWS), payload(ROWS, base_offset=4)], "t", 0, 1, 6, headers=True)
    batch.validate(full=True)
    assert batch.column("headers").to_pylist() == [
        [{"key": "trace", "value": b"\x01"}, {"key": "none", "value": None}],
        None,
        [{"key": "ü", "value": b""}],
        None,
        [{"key": "trace", "value": b"\x01"}, {"key": "none", "value": None}],
    ]


def test_only_the_wanted_offsets_are_given() -> None:
    payloads = [payload(ROWS, 10), payload(ROWS, 20)]
    assert decode(payloads, "t", 0, 12, 22).column("offset").to_pylist() == [12, 13, 20, 21]
    assert decode(payloads, "t", 0, 14, 20).num_rows == 0
    assert decode(payloads, "t", 0, 14, 20, headers=True).num_rows == 0


def test_the_logs_time_replaces_the_creators() -> None:
    batch = decode([payload(ROWS, 0, log_append_ms=7_777), payload(ROWS, 4)], "t", 0, 0, 8)
    assert [row[3] for row in columns(batch)] == [7_777] * 4 + [t for _, _, t, _ in ROWS]
    assert batch.column("timestampType").to_pylist() == [1] * 4 + [0] * 4


def test_the_columns_are_what_spark_makes_of_the_declared_schema() -> None:
    assert to_arrow_schema(read_schema(headers=False), timezone="UTC").equals(arrow.SCHEMA)
    assert to_arrow_schema(read_schema(headers=True), timezone="UTC").equals(arrow.SCHEMA_WITH_HEADERS)


rows = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=200),
        st.integers(0, 1 << 41),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
    ),
    min_size=1,
    max_size=20,
)


@given(st.lists(rows, min_size=1, max_size=4), st.integers(0, 90), st.integers(0, 90))
@settings(max_examples=40, deadline=None)
def test_it_agrees_with_the_obvious_reading(batches: list[list[Row]], start: int, end: int) -> None:
    expected = []
    payloads = []
    base = 3
    for batch in batches:
        payloads.append(payload(batch, base))
        expected += [
            (k, v, base + i, [{"key": n, "value": x} for n, x in h] or None)
            for i, (k, v, _, h) in enumerate(batch)
            if start <= base + i < end
        ]
        base += len(batch) + 2
    found = decode(payloads, "t", 0, start, end, headers=True)
    found.validate(full=True)
    assert [(r["key"], r["value"], r["offset"], r["headers"]) for r in found.to_pylist()] == expected


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_damaged_records_are_refused_and_nothing_else_escapes(data: st.DataObject) -> None:
    good = payload(ROWS)
    octets = bytearray(good.records)
    for _ in range(data.draw(st.integers(1, 3))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(octets)))
    damaged = good._replace(records=bytes(octets[:cut]), record_count=data.draw(st.integers(-1, 6)))
    try:
        decode([damaged], "t", 0, 0, 100, headers=True)
    except ProtocolError:
        pass


def test_a_false_count_is_refused() -> None:
    for count in (-1, 0, 3, 5, 1 << 30):
        with pytest.raises(ProtocolError):
            decode([payload(ROWS)._replace(record_count=count)], "t", 0, 0, 100)
