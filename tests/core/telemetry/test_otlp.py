"""OpenTelemetry's metrics, read from bytes written here by hand; and bytes that are none."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.telemetry.otlp import ClientMetric, Point, metrics_of
from barnabas.wire.errors import ProtocolError


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def fixed(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 1) + data


def metric(name: str, kind: int, *points: bytes) -> bytes:
    return field(2, field(1, name.encode()) + field(kind, b"".join(field(1, p) for p in points)))


def pushed(*metrics: bytes) -> bytes:
    """Give MetricsData of one resource and one scope."""
    return field(1, field(1, b"") + field(2, field(1, b"") + b"".join(metrics)))


NODE = field(7, field(1, b"node_id") + field(2, field(1, b"1")))
TIMES = fixed(2, bytes(8)) + fixed(3, bytes(8))
PUSHED = pushed(
    metric("a.rate", 5, TIMES + NODE + fixed(4, struct.pack("<d", 2.5))),
    metric("a.total", 7, fixed(6, struct.pack("<q", -3)), NODE + fixed(6, struct.pack("<q", 9))),
    metric("a.times", 9, fixed(4, bytes(8))),
)


def test_names_numbers_and_attributes_are_read() -> None:
    assert metrics_of(PUSHED) == [
        ClientMetric("a.rate", "gauge", (Point({"node_id": "1"}, 2.5),)),
        ClientMetric("a.total", "sum", (Point({}, -3), Point({"node_id": "1"}, 9))),
        ClientMetric("a.times", "histogram", (Point({}, None),)),
    ]
    assert metrics_of(PUSHED + PUSHED) == metrics_of(PUSHED) * 2
    assert metrics_of(b"") == []


@pytest.mark.parametrize(
    "data",
    [PUSHED[:-1], b"\x0a", b"\x0b", b"\x0a\xff\xff", b"\xff" * 12, pushed(metric("x", 5))[:-3], field(1, b"\x12\x05")],
)
def test_what_is_cut_short_or_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="not OTLP"):
        metrics_of(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        metrics_of(data)
    except ProtocolError:
        return
