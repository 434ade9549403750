"""The offsets topic: what its records come to, whoever wrote them."""

from __future__ import annotations

import pytest

from barnabas.core.connect.offset_state import (
    EMPTY_OFFSETS,
    OffsetState,
    SourceOffset,
    offset_record,
    replay_offset,
    reset_records,
)
from barnabas.core.connect.records import Record


def _replay(*records: Record, state: OffsetState = EMPTY_OFFSETS) -> OffsetState:
    for key, value in records:
        state, complaint = replay_offset(state, key, value)
        assert complaint is None
    return state


def test_offsets_are_written_as_connect_looks_them_up() -> None:
    record = offset_record("x", {"filename": "/tmp/ä"}, {"position": 7})
    assert record == ('["x",{"filename":"/tmp/ä"}]'.encode(), b'{"position":7}')


def test_a_partition_is_known_whatever_the_order_of_its_parts() -> None:
    theirs = Record(b'["x",{"b":2,"a":1}]', b'{"n":1}')
    state = _replay(theirs, offset_record("x", {"a": 1, "b": 2}, {"n": 2}))
    assert state.offset("x", {"b": 2, "a": 1}) == {"n": 2}
    assert state.offsets("x") == [SourceOffset({"a": 1, "b": 2}, {"n": 2})]
    assert state.offset("x", {"a": 1}) is None
    assert state.offsets("y") == []
    tombstones = reset_records(state, "x", {"a": 1, "b": 2})
    assert [t.key for t in tombstones] == [b'["x",{"b":2,"a":1}]', b'["x",{"a":1,"b":2}]']
    assert _replay(*tombstones, state=state).offsets("x") == []
    assert _replay(tombstones[1], state=state).offset("x", {"a": 1, "b": 2}) == {"n": 1}


def test_null_ends_an_offset_too_and_sources_without_partitions_are_passed_over() -> None:
    record = offset_record("x", {}, {"n": 1})
    assert _replay(record, Record(record.key, b"null")).offsets("x") == []
    assert _replay(Record(b'["x",null]', b'{"n":1}')) == EMPTY_OFFSETS


@pytest.mark.parametrize("key", [None, b"", b"[]", b'["x"]', b'["x",1]', b"[1,{}]", b'{"x":{}}', b"\xff"])
def test_what_cannot_be_used_is_complained_of(key: bytes | None) -> None:
    state, complaint = replay_offset(EMPTY_OFFSETS, key, b"{}")
    assert state == EMPTY_OFFSETS
    assert complaint is not None
    assert replay_offset(EMPTY_OFFSETS, b'["x",{}]', b"7").complaint is not None
