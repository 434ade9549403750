"""Each converter reads and writes what Kafka's own reads and writes."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from typing import Final

import pytest
from pyspark.sql import SparkSession

from tests.conformance.java_oracle import JavaOracle
from tests.connect.spark.kafka_side import (
    JSON,
    STRING,
    TEXT,
    WITHOUT,
    Case,
    Format,
    Outcome,
    java_outcomes,
    our_outcomes,
)
from tests.connect.spark.samples import TYPED, UNTYPED, Record, envelope, fields
from tests.peers.maven import connect_classpath

from .random_records import random_records

pytestmark = [pytest.mark.peer, pytest.mark.spark]

_PACKAGE: Final = "org.apache.kafka.connect.converters."
_SEED: Final = 20260731


def _of(kind: str, values: Sequence[bytes | None]) -> Case:
    return Case(
        kind, [Record(v) for v in values], source=Format(_PACKAGE + kind), target=Format(_PACKAGE + kind), key=TEXT
    )


def _read(kind: str, values: Sequence[bytes | None]) -> Case:
    return Case(f"{kind} read", [Record(v) for v in values], source=Format(_PACKAGE + kind), key=TEXT)


_DOUBLES: Final = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    0.1,
    5e-324,
    -2.2250738585072014e-308,
    1.7976931348623157e308,
    math.inf,
    -math.inf,
]
_SHORTS: Final = [struct.pack(">h", n) for n in (0, 1, -1, 32767, -32768)]
_INTS: Final = [struct.pack(">i", n) for n in (0, 1, -1, 2**31 - 1, -(2**31))]
_LONGS: Final = [struct.pack(">q", n) for n in (0, 1, -1, 2**63 - 1, -(2**63))]
_FLOATS: Final = [struct.pack(">f", n) for n in (0.0, -0.0, 1.5, -0.1, 1e-45, 1.17549435e-38, 3.4028235e38, math.inf)]
_REALS: Final = [struct.pack(">d", n) for n in _DOUBLES]
_FINITE: Final = [struct.pack(">d", n) for n in _DOUBLES if math.isfinite(n)]
_WRONG: Final = (b"", b"123", None)
_I = {"type": "int32"}
_TEXTS: Final = [
    Record(v, k) for v, k in ((b"x", b"k"), (b"\xff\xc3", None), (b"", b""), (None, b"\xe4"), ("\u00e9".encode(), b"7"))
]
_MISFITS: Final = [
    *(Record(envelope({"type": "int8"}, number)) for number in (300, 1.9, None)),
    Record(envelope({"type": "int8"}, "text")),
    Record(envelope({"type": "int8"}, [1])),
    Record(envelope({"type": "int8", "default": 9}, None)),
    Record(envelope({"type": "int8", "optional": True}, None)),
]
_STRUCT: Final = fields(
    ("a", _I), ("b", {"type": "string", "optional": True}), ("c", {"type": "boolean", "optional": True})
)
_MISSHAPEN: Final = [
    *(Record(envelope(_STRUCT, {"a": value})) for value in (1, True, "x", 1 << 40, 2.5)),
    *(Record(envelope(_STRUCT, {"a": 1, **more})) for more in ({"c": "x"}, {"more": 1}, {"c": 1})),
    Record(envelope(_STRUCT, {"b": "x"})),
    Record(envelope(_STRUCT, [])),
    Record(envelope(_STRUCT, 5)),
]
_NOT_ENVELOPES: Final = [
    Record(v)
    for v in (
        envelope(_I, 1), b"", None, b"{}", b"7", b"null", b'{"schema":{"type":"int32"}}',
        b'{"schema":{"type":"int32"},',
        b'{"schema":{"type":"int32"},"payload":1,"more":2}', b'{"schema":null,"payload":null}',
    )
]  # fmt: skip
_NUMERIC: Final = Format(JSON, {"decimal.format": "NUMERIC"})
_NO_DEFAULT: Final = Format(JSON, {"replace.null.with.default": "false"})
_CONTENT: Final = Format(JSON, {"schema.content": json.dumps(_STRUCT)})
_BYTES: Final = Format(_PACKAGE + "ByteArrayConverter")
_LATIN: Final = Format(STRING, {"converter.encoding": "ISO-8859-1"})
CASES: Final = (
    *(Case(f"random {seed}", random_records(seed), key=TEXT) for seed in range(_SEED, _SEED + 3)),
    Case("every type", TYPED),
    Case("without schemas", UNTYPED, source=WITHOUT, target=WITHOUT, key=WITHOUT),
    Case("schemas read, none written", TYPED, target=WITHOUT),
    Case("numeric decimals", TYPED, target=_NUMERIC),
    Case("nulls instead of defaults", TYPED, source=_NO_DEFAULT, target=_NO_DEFAULT),
    Case("a configured schema", [Record(b'{"a":1}'), Record(b'{"b":"x"}'), Record(None)], source=_CONTENT, key=TEXT),
    Case(
        "a configured schema of keys",
        [Record(b"v", k) for k in (b'{"a":1}', b'{"b":"x"}', b"[1]", b"null", b"", b"{", None, envelope(_I, 1))],
        source=TEXT, target=TEXT, key=_CONTENT,
    ),
    Case(
        "a configured integer",
        [Record(v) for v in (b"7", b"null", None, b'"7"', b"{")],
        source=Format(JSON, {"schema.content": '{"type":"int32","optional":true}'}), target=WITHOUT, key=TEXT,
    ),
    Case(
        "a configured schema that does not count",
        [Record(b'{"a":1}')],
        source=Format(JSON, {**_CONTENT.config, "schemas.enable": "false"}), target=WITHOUT, key=TEXT,
    ),
    *(Case(f"misfit {i}", [record], key=TEXT, target=WITHOUT) for i, record in enumerate(_MISFITS)),
    Case("misshapen", _MISSHAPEN, key=TEXT),
    Case("no envelopes", _NOT_ENVELOPES, key=TEXT),
    Case("text", _TEXTS, source=TEXT, target=TEXT, key=TEXT),
    Case("latin", _TEXTS[:1], source=_LATIN, target=_LATIN, key=TEXT),
    Case("text of a struct", TYPED[1:2], target=TEXT, key=TEXT),
    Case("bytes", _TEXTS, source=_BYTES, target=_BYTES, key=TEXT),
    _of("BooleanConverter", [b"\0", b"\1", b"\2", *_WRONG]),
    _of("ShortConverter", [*_SHORTS, *_WRONG]),
    _of("IntegerConverter", [*_INTS, *_WRONG]),
    _of("LongConverter", [*_LONGS, *_WRONG]),
    _of("FloatConverter", [*_FLOATS, *_WRONG]),
    _of("DoubleConverter", [*_REALS, *_WRONG]),
    _read("IntegerConverter", _INTS),
    _read("LongConverter", _LONGS),
    _read("DoubleConverter", _FINITE),
    Case("an integer of no number", TYPED[:1], target=Format(_PACKAGE + "IntegerConverter")),
)  # fmt: skip


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
