"""Record batches made in columns are those made record by record; and what writing them to a topic comes to."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.connect.spark.value_batches import bodies, varints
from barnabas.connect.spark.writing import RowWriter
from barnabas.wire.batch_reader import Record
from barnabas.wire.batch_writer import batch_of_body, encode_batch
from barnabas.wire.primitives import zigzag

from .conftest import Topics

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@settings(deadline=None)
@given(st.lists(st.none() | st.binary(max_size=300), min_size=1, max_size=300), st.integers(0, 3))
def test_batches_are_those_of_the_encoder(values: list[bytes | None], skipped: int) -> None:
    column = pa.array([b"x"] * skipped + values, pa.binary()).slice(skipped)
    ((piece, body),) = bodies(column, 1 << 20)
    assert piece.to_pylist() == values
    records = [Record(0, 7, None, value, ()) for value in values]
    assert batch_of_body(body, len(values), 7) == encode_batch(records)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=50), min_size=1), st.integers(1, 200))
def test_pieces_keep_the_order_and_their_size(values: list[bytes], most: int) -> None:
    pieces = list(bodies(pa.array(values, pa.binary()), most))
    assert [value for piece, _ in pieces for value in piece.to_pylist()] == values
    assert all(len(body) <= most or len(piece) == 1 for piece, body in pieces)


@settings(deadline=None)
@given(st.lists(st.integers(-(2**62), 2**62)))
def test_numbers_are_kafkas_varints(numbers: list[int]) -> None:
    assert varints(pa.array(numbers, pa.int64()).to_numpy()).to_pylist() == [zigzag(n) for n in numbers]


def test_values_reach_a_topic_in_order_and_large_ones_are_cut_to_what_it_takes(topics: Topics) -> None:
    topic = topics.create()
    values = [b"%07d" % n * 10 for n in range(20_000)] + [None]
    rows = pa.table({"value": pa.array(values, pa.binary()), "topic": [topic] * len(values)}).to_batches()
    (answer,) = RowWriter({"bootstrap.servers": topics.bootstrap, "compression.type": "lz4"})(rows)
    assert answer.column(0).to_pylist() == [len(values)]
    assert topics.values(topic, len(values)) == values
    narrow = topics.create(max__message__bytes="20000")
    (answer,) = RowWriter({"bootstrap.servers": topics.bootstrap}, narrow)(rows[:1])
    assert topics.values(narrow, len(values)) == values
