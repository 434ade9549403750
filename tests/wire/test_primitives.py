from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.wire.errors import ProtocolError
from barnabas.wire.primitives import ArrayFormats, read_uvarint, read_zigzag, uvarint, zigzag


@pytest.mark.parametrize(
    ("value", "data"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**31 - 1, "ffffffff07"), (2**32 - 1, "ffffffff0f")],
)
def test_unsigned_varints(value: int, data: str) -> None:
    assert uvarint(value).hex() == data
    assert read_uvarint(bytes.fromhex(data) + b"x", 0) == (value, len(data) // 2)


@pytest.mark.parametrize(
    ("value", "data"),
    [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (2**63 - 1, "feffffffffffffffff01")],
)
def test_signed_varints(value: int, data: str) -> None:
    assert zigzag(value).hex() == data
    assert read_zigzag(bytes.fromhex(data) + b"x", 0) == (value, len(data) // 2)


@settings(max_examples=200, deadline=None, database=None)
@given(st.integers(-(2**63), 2**63 - 1))
def test_signed_varints_survive(value: int) -> None:
    data = zigzag(value)
    assert read_zigzag(data, 0) == (value, len(data))


def test_endless_varints_are_refused() -> None:
    with pytest.raises(ProtocolError):
        read_uvarint(b"\xff" * 6, 0)
    with pytest.raises(ProtocolError):
        read_zigzag(b"\xff" * 11, 0)
    with pytest.raises(ProtocolError):
        uvarint(-1)


def test_only_short_array_readers_are_kept() -> None:
    readers = ArrayFormats("i", "unpack_from")
    assert readers[2](b"\0\0\0\1\0\0\0\2", 0) == (1, 2)
    assert len(readers[500](bytes(2000), 0)) == 500
    assert list(readers) == [2]
