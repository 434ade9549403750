"""Records as they lie in topics, for both sides."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Record:
    """A record: bytes and what Kafka knows of them. timestamp_ms: None where a source gave none."""

    value: bytes | None
    key: bytes | None = None
    topic: str = "orders"
    partition: int = 3
    offset: int = 42
    timestamp_ms: int | None = 1_600_000_000_123
    headers: Sequence[tuple[str, bytes | None]] = ()

    def question(self) -> dict[str, Any]:
        """Give it as Java is asked."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp_ms,
            "key": _encoded(self.key),
            "value": _encoded(self.value),
            "headers": [[key, _encoded(value)] for key, value in self.headers],
        }

    def row(self, number: int) -> tuple[Any, ...]:
        """Give it as a row of a batch."""
        time = None if self.timestamp_ms is None else _EPOCH + timedelta(milliseconds=self.timestamp_ms)
        return self.key, self.value, self.topic, self.partition, self.offset, time, 0, list(self.headers), number


def envelope(schema: Mapping[str, Any] | None, payload: Any) -> bytes:
    """Give JSON with its schema."""
    return json.dumps({"schema": schema, "payload": payload}).encode()


def logical(name: str, kind: str, **more: Any) -> dict[str, Any]:
    """Give the schema of one of Connect's logical types."""
    return {"type": kind, "name": f"org.apache.kafka.connect.data.{name}", "version": 1, **more}


def fields(*schemas: tuple[str, Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """Give the schema of a struct."""
    return {"type": "struct", "fields": [{**schema, "field": name} for name, schema in schemas], **more}


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


ALL_TYPES: Final = fields(
    ("i8", {"type": "int8"}),
    ("i16", {"type": "int16", "optional": True}),
    ("i32", {"type": "int32", "optional": True, "default": 7}),
    ("i64", {"type": "int64", "optional": True}),
    ("f32", {"type": "float", "optional": True}),
    ("f64", {"type": "double", "optional": True}),
    ("flag", {"type": "boolean", "optional": True}),
    ("text", {"type": "string", "optional": True, "doc": "some text"}),
    ("data", {"type": "bytes", "optional": True}),
    ("price", logical("Decimal", "bytes", parameters={"scale": "2"}, optional=True)),
    ("day", logical("Date", "int32", optional=True)),
    ("time", logical("Time", "int32", optional=True)),
    ("at", logical("Timestamp", "int64", optional=True)),
    ("list", {"type": "array", "items": {"type": "int32", "optional": True}, "optional": True}),
    ("inner", fields(("x", {"type": "boolean"}), ("s", {"type": "string", "default": "d"}), optional=True)),
    name="all.Types",
    version=3,
    doc="one of each",
)
FULL: Final = {
    "i8": -5, "i16": 300, "i32": -70000, "i64": 1 << 40, "f32": 1.5, "f64": -2.25e10, "flag": True, "text": "17",
    "data": "AAH/", "price": "MDk=", "day": 18000, "time": 3_600_123, "at": 1_600_000_000_123, "list": [1, None, 3],
    "inner": {"x": False, "s": "deep"},
}  # fmt: skip
KEY: Final = envelope({"type": "int64", "optional": False}, 5)
HEADERS: Final = (("a", b"1"), ("b", b"two"), ("a", b"true"))
TYPED: Final = (
    Record(envelope(ALL_TYPES, FULL), KEY, headers=HEADERS),
    Record(envelope(ALL_TYPES, {"i8": 1}), None),
    Record(
        envelope(ALL_TYPES, {**FULL, "text": "1.5e3", "f64": 3.7, "day": 0, "time": 0, "at": 0}),
        KEY,
        "other",
        0,
        1,
        None,
    ),
    Record(envelope(ALL_TYPES, {**FULL, "text": "true", "f64": 1e300, "flag": False, "inner": None, "at": -1}), KEY),
    Record(None, KEY),
    Record(b"{", KEY),
)
OBJECT: Final = {
    "number": 1 << 33, "real": 2.5, "text": "17", "flag": True, "none": None, "list": [1, "a", {"b": 2}],
    "inner": {"x": {"y": 1, "z": {}}, "w": [1], "n": None}, "millis": 1_600_000_000_123,
}  # fmt: skip
UNTYPED: Final = (
    Record(json.dumps(OBJECT).encode(), b'"k"', headers=HEADERS),
    Record(b"{}", None),
    Record(
        json.dumps({**OBJECT, "text": "2020-02-29", "real": -1e300, "number": -1, "flag": False}).encode(),
        b"7",
        "other",
        0,
    ),
    Record(b"[1,2]", b"null"),
    Record(b'"plain"', None),
    Record(None, b"{}"),
    Record(b"nothing", None),
)
