"""What clients push: metrics as OpenTelemetry writes them (OTLP, a protocol buffer `MetricsData`), as far as needed.

Names, attributes and numbers of gauges and sums are read, which is all that Kafka's clients send; of other kinds
the name and how many points there are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.wire.errors import ProtocolError

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_FIXED32: Final = 5
_KINDS: Final = {5: "gauge", 7: "sum", 9: "histogram", 10: "exponential_histogram", 11: "summary"}
_NUMERIC: Final = ("gauge", "sum")
_Value = int | memoryview


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement. value: None where it is not a single number."""

    attributes: Mapping[str, str]
    value: float | None


@dataclass(frozen=True, slots=True)
class ClientMetric:
    """A metric of a client. kind: as OpenTelemetry calls it."""

    name: str
    kind: str
    points: tuple[Point, ...]


def metrics_of(data: bytes) -> list[ClientMetric]:
    """Give the metrics in a push, decompressed; ProtocolError when it is none."""
    found = []
    for resource in _messages(memoryview(data), 1):
        for scope in _messages(resource, 2):
            found += [_metric(metric) for metric in _messages(scope, 2)]
    return found


def _metric(data: memoryview) -> ClientMetric:
    name, kind, points = "", "", []
    for number, value in _fields(data):
        if number == 1 and isinstance(value, memoryview):
            name = _text(value)
        elif number in _KINDS and isinstance(value, memoryview):
            kind = _KINDS[number]
            points += [_point(point, numeric=kind in _NUMERIC) for point in _messages(value, 1)]
    return ClientMetric(name, kind, tuple(points))


def _point(data: memoryview, *, numeric: bool) -> Point:
    attributes, value = {}, None
    for number, field in _fields(data):
        if not numeric:
            continue
        if number == 7 and isinstance(field, memoryview):
            key, text = _attribute(field)
            attributes[key] = text
        elif number in (4, 6) and isinstance(field, int):
            raw = field.to_bytes(8, "little")
            value = struct.unpack("<d" if number == 4 else "<q", raw)[0]
    return Point(attributes, value)


def _attribute(data: memoryview) -> tuple[str, str]:
    key, text = "", ""
    for number, value in _fields(data):
        if isinstance(value, memoryview):
            if number == 1:
                key = _text(value)
            elif number == 2:
                text = "".join(_text(v) if isinstance(v, memoryview) else str(v) for _, v in _fields(value))
    return key, text


def _messages(data: memoryview, wanted: int) -> Iterator[memoryview]:
    return (value for number, value in _fields(data) if number == wanted and isinstance(value, memoryview))


def _fields(data: memoryview) -> Iterator[tuple[int, _Value]]:
    """Give (number, value) of each field of a message: integers for numbers of any kind, else the bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise ProtocolError("not OTLP: no field has the number 0")
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ProtocolError(f"not OTLP: a field of the kind {kind}")
        if at + size > len(data):
            raise ProtocolError("not OTLP: it ends in the middle of a field")
        part = data[at : at + size]
        yield number, part if kind == _BYTES else int.from_bytes(part, "little")
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ProtocolError("not OTLP: it ends in the middle of a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ProtocolError("not OTLP: a number is too long")


def _text(data: memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        raise ProtocolError("not OTLP: a name is not UTF-8") from None
