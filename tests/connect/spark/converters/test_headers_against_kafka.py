"""Each header converter reads and writes what Kafka's own does, alone and around transformations of headers."""

from __future__ import annotations

from typing import Final

import pytest
from pyspark.sql import SparkSession

from tests.conformance.java_oracle import JavaOracle
from tests.connect.spark.kafka_side import (
    SIMPLE,
    STRING,
    TEXT,
    WITH_SCHEMAS,
    WITHOUT,
    Case,
    Format,
    Link,
    Outcome,
    java_outcomes,
    our_outcomes,
)
from tests.connect.spark.samples import TYPED, Record, envelope
from tests.peers.maven import connect_classpath

pytestmark = [pytest.mark.peer, pytest.mark.spark]

_BYTES: Final = Format("org.apache.kafka.connect.converters.ByteArrayConverter")
_LATIN: Final = Format(STRING, {"converter.encoding": "ISO-8859-1"})


def _records(*values: bytes | None) -> list[Record]:
    """Give a record for each value, with a header before it that every converter but the envelope's can read."""
    return [Record(b"v", headers=(("first", b"7"), ("h", value))) for value in values]


def _case(name: str, records: list[Record], read: Format, written: Format, *links: Link) -> Case:
    return Case(name, records, links, TEXT, TEXT, TEXT, read, written)


_TEXTS: Final = _records(
    b"text", b"", b"7", b"-300", b"70000", b"9000000000", b"true", b"FALSE", b"1.5", b"null", None, b"a b", b"\xff",
    b"[1,2]", b"x[1]",
)  # fmt: skip
_PLAIN: Final = _records(b"text", b"7", b"300", b"-70000", b"9000000000", b"true", None)
_JSONS: Final = _records(b'"x"', b"7", b"true", b"null", None, b"", b"{", b'{"a": [1, {"b": null}]}', b"[1, true]")
_ENVELOPES: Final = [
    Record(b"v", headers=(("h", value),))
    for value in (
        envelope({"type": "string"}, "x"),
        envelope({"type": "int64", "optional": True}, None),
        envelope({"type": "boolean"}, True),
        envelope(None, 5),
        b"{}",
        b"5",
        b"",
        None,
        b'{"schema":{"type":"int32"},"payload":1,"more":2}',
    )
]
_TYPED: Final = [Record(record.value, record.key) for record in TYPED[:2]]
_FIELDS: Final = {"fields": "i32,text,flag", "headers": "a,b,c", "operation": "copy"}
CASES: Final = (
    _case("simple", _TEXTS, SIMPLE, SIMPLE),
    _case("simple to text", _TEXTS[:12], SIMPLE, TEXT),
    _case("simple to JSON", _PLAIN, SIMPLE, WITHOUT),
    _case("simple to envelopes", _PLAIN, SIMPLE, WITH_SCHEMAS),
    _case("simple to bytes", _PLAIN, SIMPLE, _BYTES),
    _case("text", _TEXTS, TEXT, TEXT),
    _case("latin", _records(b"\xe4", b"x"), _LATIN, TEXT),
    _case("text to latin", _records("\u00e4".encode(), b"x"), TEXT, _LATIN),
    _case("text to JSON", _PLAIN, TEXT, WITHOUT),
    _case("bytes", _TEXTS, _BYTES, _BYTES),
    _case("JSON", _JSONS, WITHOUT, WITHOUT),
    _case("JSON to simple", _JSONS, WITHOUT, SIMPLE),
    _case("envelopes to simple", _ENVELOPES, WITH_SCHEMAS, SIMPLE),
    _case("inserted", _PLAIN[:1], SIMPLE, SIMPLE, Link("InsertHeader", {"header": "n", "value.literal": "12"})),
    _case(
        "inserted capitals", _PLAIN[:1], SIMPLE, WITHOUT, Link("InsertHeader", {"header": "n", "value.literal": "TRUE"})
    ),
    _case("inserted text", _PLAIN[:1], TEXT, TEXT, Link("InsertHeader", {"header": "n", "value.literal": "12"})),
    Case("fields", _TYPED, [Link("HeaderFrom$Value", _FIELDS)], headers_in=TEXT, headers_out=TEXT),
    Case("fields as JSON", _TYPED[:1], [Link("HeaderFrom$Value", _FIELDS)], headers_out=WITHOUT),
)


@pytest.fixture(scope="module")
def kafka() -> dict[str, list[Outcome]]:
    """Give what Kafka's classes make of each case."""
    with JavaOracle("ConnectOracle.java", connect_classpath()) as oracle:
        return {case.name: java_outcomes(oracle, case) for case in CASES}


@pytest.fixture(scope="module")
def ours(spark: SparkSession) -> dict[str, list[Outcome]]:
    """Give what ours make of each case."""
    return our_outcomes(spark, CASES)


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_it_reads_and_writes_what_kafkas_does(
    name: str, kafka: dict[str, list[Outcome]], ours: dict[str, list[Outcome]]
) -> None:
    assert ours[name] == kafka[name]
