"""The header converters of numbers, and JsonConverter with a configured schema: as Kafka's own."""

from __future__ import annotations

import json
from struct import pack
from typing import Final

import pytest
from pyspark.sql import SparkSession

from tests.conformance.java_oracle import JavaOracle
from tests.connect.spark.kafka_side import (
    JSON,
    SIMPLE,
    TEXT,
    WITH_SCHEMAS,
    WITHOUT,
    Case,
    Format,
    Outcome,
    java_outcomes,
    our_outcomes,
)
from tests.connect.spark.samples import Record, envelope, fields
from tests.peers.maven import connect_classpath

pytestmark = [pytest.mark.peer, pytest.mark.spark]

_PACKAGE: Final = "org.apache.kafka.connect.converters."


def _records(*values: bytes | None) -> list[Record]:
    """Give a record for each value, with it for its only header."""
    return [Record(b"v", headers=(("h", value),)) for value in values]


def _case(name: str, records: list[Record], read: Format, written: Format) -> Case:
    return Case(name, records, (), TEXT, TEXT, TEXT, read, written)


_OF_ONE_SIZE: Final = {
    "BooleanConverter": (b"\0", b"\1", b"\2"),
    "ShortConverter": tuple(pack(">h", n) for n in (0, -1, 127, 128, -32768)),
    "IntegerConverter": tuple(pack(">i", n) for n in (0, -1, 32767, 32768, -(2**31))),
    "LongConverter": tuple(pack(">q", n) for n in (0, -1, 2**31, -(2**63))),
    "FloatConverter": tuple(pack(">f", n) for n in (0.0, -0.0, 1.5, -0.1, 1e-45)),
    "DoubleConverter": tuple(pack(">d", n) for n in (0.0, -0.0, 1.5, -0.1, 5e-324)),
}
_INTEGERS: Final = Format(_PACKAGE + "IntegerConverter")
_GUESSED: Final = _records(
    b"7", b"-128", b"128", b"-32769", b"70000", b"2147483648", b"1.5", b"0.1", b"1.0", b"-0.0", b"1e3", b"1e300",
    b"true", b"text", None,
)  # fmt: skip
_SCHEMA: Final = fields(
    ("a", {"type": "int32"}), ("b", {"type": "string", "optional": True, "default": "x"}), optional=True
)
_OF_SCHEMA: Final = Format(JSON, {"schema.content": json.dumps(_SCHEMA)})
_OF_INT: Final = Format(JSON, {"schema.content": '{"type": "int32", "default": 5}'})
_FITTING: Final = _records(
    b'{"a": 1, "b": "y"}', b'{"a": 1}', b'{"b": "y"}', b'{"a": "text"}', b'{"a": 1, "c": 2}', b"null", None, b"", b"{",
    b"[1]", b"7", envelope({"type": "int32"}, 1),
)  # fmt: skip
CASES: Final = (
    *(
        _case(kind, _records(*values, b"123", b"", None), Format(_PACKAGE + kind), Format(_PACKAGE + kind))
        for kind, values in _OF_ONE_SIZE.items()
    ),
    _case("floats in envelopes", _records(pack(">f", 0.1), None), Format(_PACKAGE + "FloatConverter"), WITH_SCHEMAS),
    _case("guessed to integers", _GUESSED, SIMPLE, _INTEGERS),
    _case("guessed to floats", _GUESSED, SIMPLE, Format(_PACKAGE + "FloatConverter")),
    _case("guessed to envelopes", _GUESSED, SIMPLE, WITH_SCHEMAS),
    _case("a configured schema", _FITTING, _OF_SCHEMA, WITHOUT),
    _case("a configured integer", _records(b"7", b"null", b"300", b'"x"', b"1.5", None), _OF_INT, WITHOUT),
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
