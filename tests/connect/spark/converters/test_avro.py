"""AvroConverter against the bytes that fastavro, and Avro's specification, have for a value."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from barnabas.connect.connector import ConnectError
from barnabas.connect.spark.converters import Role, make_converter
from barnabas.connect.spark.converters.base import Converter
from barnabas.connect.spark.data.avro_records import AvroRecords
from barnabas.connect.spark.failures import FAILURE
from barnabas.model.config import ConfigError

_INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]}
_COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "GREEN"]}
_TYPES: dict[str, tuple[Any, Any, Any]] = {  # the type, what fastavro writes, what Spark has
    "boolean": ("boolean", True, True),
    "int": ("int", -(2**31), -(2**31)),
    "long": ("long", 2**63 - 1, 2**63 - 1),
    "float": ("float", 1.5, 1.5),
    "double": ("double", -0.1, -0.1),
    "bytes": ("bytes", b"\0\xff", b"\0\xff"),
    "string": ("string", "žluť", "žluť"),
    "fixed": ({"type": "fixed", "name": "Three", "size": 3}, b"abc", b"abc"),
    "enum": (_COLOUR, "GREEN", "GREEN"),
    "enum_again": ("ns.Colour", "RED", "RED"),
    "array": ({"type": "array", "items": ["null", "int"]}, [1, None], [1, None]),
    "map": ({"type": "map", "values": "double"}, {"a": 1.0}, {"a": 1.0}),
    "nested": (_INNER, {"x": 7}, {"x": 7}),
    "nested_again": ("ns.Inner", {"x": 8}, {"x": 8}),
    "records": ({"type": "array", "items": "ns.Inner"}, [{"x": 1}], [{"x": 1}]),
    "map_of_dates": (
        {"type": "map", "values": {"type": "int", "logicalType": "date"}}, {"d": 1}, {"d": date(1970, 1, 2)}
    ),
    "null_first": (["null", "string"], None, None),
    "null_last": (["string", "null"], "s", "s"),
    "several": (["null", "int", "long", "ns.Inner"], {"x": 3}, {"int": None, "long": None, "Inner": {"x": 3}}),
    "several_long": (["int", "long"], 2**40, {"int": None, "long": 2**40}),
    "date": ({"type": "int", "logicalType": "date"}, -1, date(1969, 12, 31)),
    "time_millis": ({"type": "int", "logicalType": "time-millis"}, 1234, 1234),
    "time_micros": ({"type": "long", "logicalType": "time-micros"}, 1234567, 1234567),
    "millis": (
        {"type": "long", "logicalType": "timestamp-millis"}, -1, datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)
    ),
    "micros": ({"type": "long", "logicalType": "timestamp-micros"}, 1, datetime(1970, 1, 1, 0, 0, 0, 1, UTC)),
    "local": ({"type": "long", "logicalType": "local-timestamp-millis"}, 0, datetime(1970, 1, 1, tzinfo=UTC)),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}, Decimal("-12.34"), Decimal("-12.34")
    ),
    "decimal_fixed": (
        {"type": "fixed", "name": "D", "size": 8, "logicalType": "decimal", "precision": 12, "scale": 3},
        Decimal("1.005"), Decimal("1.005"),
    ),
    "uuid": (
        {"type": "string", "logicalType": "uuid"},
        "6a2f41a3-c54c-fce8-32d2-0324e1c32e22", "6a2f41a3-c54c-fce8-32d2-0324e1c32e22",
    ),
}  # fmt: skip
_ALL = {
    "type": "record", "name": "All", "namespace": "ns",
    "fields": [{"name": name, "type": kind} for name, (kind, _, _) in _TYPES.items()],
}  # fmt: skip
_PAIR = {
    "type": "record", "name": "Pair",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": "none"}],
}  # fmt: skip


def _converter(schema: Any, role: Role = Role.VALUE) -> Converter:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return make_converter({f"{role.value}.converter": "Avro", f"{role.value}.converter.schema": text}, role)


def _bytes(schema: Any, value: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def _frame(spark: SparkSession, values: Sequence[bytes | None]) -> DataFrame:
    return spark.createDataFrame([(value,) for value in values], "value binary")


@pytest.mark.spark
def test_every_type_goes_there_and_back(spark: SparkSession) -> None:
    data = _bytes(_ALL, {name: written for name, (_, written, _) in _TYPES.items()})
    converter = _converter(_ALL)
    typed = converter.to_connect(_frame(spark, [data, None])).cache()
    back = converter.from_connect(typed).collect()
    rows = typed.selectExpr("*", "value.millis = timestamp'1969-12-31T23:59:59.999Z' AS same").collect()
    typed.unpersist()
    assert [row[FAILURE] for row in rows] == [None, None]
    assert rows[1]["value"] is None
    found = rows[0]["value"].asDict(recursive=True)
    assert {name: _utc(found[name]) for name in _TYPES} == {name: held for name, (_, _, held) in _TYPES.items()}
    assert rows[0]["same"]
    assert [row[FAILURE] for row in back] == [None, None]
    assert [row["value"] and bytes(row["value"]) for row in back] == [data, None]


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


@pytest.mark.spark
def test_broken_bytes_fail_alone(spark: SparkSession) -> None:
    good = _bytes(_PAIR, {"id": 5, "note": "x"})
    broken = [b"", good[:-1], good + b"\0", b"\x02\xfe\xff\xff\xff\x0f", b"\x02\x03a", b"\x02\x02\xff"]
    rows = _converter(_PAIR).to_connect(_frame(spark, [good, *broken, good])).collect()
    assert [row["value"] and row["value"]["id"] for row in rows] == [5, *[None] * len(broken), 5]
    assert [row[FAILURE] and row[FAILURE]["stage"] for row in rows] == [None, *["VALUE_CONVERTER"] * len(broken), None]
    assert rows[1][FAILURE]["class_name"] == "barnabas.connect.AvroConverter"


@pytest.mark.spark
def test_values_that_a_column_cannot_hold_fail_alone(spark: SparkSession) -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}
    rows = _converter(schema).to_connect(_frame(spark, [b"\x02\x01", b"\x06\x7f\xff\xff"])).collect()
    assert [row["value"] for row in rows] == [Decimal("0.1"), None]
    assert [row[FAILURE] is None for row in rows] == [True, False]


@pytest.mark.spark
def test_columns_go_by_name_and_lacking_ones_have_their_default(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT named_struct('more', true, 'id', n) AS value FROM VALUES (3), (CAST(NULL AS INT)) AS t(n)"
    )
    rows = _converter(_PAIR).from_connect(frame).collect()
    assert bytes(rows[0]["value"]) == _bytes(_PAIR, {"id": 3, "note": "none"})
    assert rows[1]["value"] is None
    assert "id is null" in rows[1][FAILURE]["message"]


@pytest.mark.spark
def test_values_without_a_schema_are_fitted(spark: SparkSession) -> None:
    frame = spark.sql("""SELECT parse_json(t) AS value FROM VALUES ('{"note": "x", "id": 4}'), ('[1]') AS v(t)""")
    rows = _converter(_PAIR).from_connect(frame).collect()
    assert bytes(rows[0]["value"]) == _bytes(_PAIR, {"id": 4, "note": "x"})
    assert [row[FAILURE] is None for row in rows] == [True, False]


@pytest.mark.spark
def test_a_column_of_another_type_is_refused(spark: SparkSession) -> None:
    frame = spark.sql("SELECT named_struct('id', 'text') AS value")
    with pytest.raises(ConnectError, match="id of the value is STRING, and its Avro schema wants INT64"):
        _converter(_PAIR).from_connect(frame)


def test_defaults_of_every_kind_are_written() -> None:
    schema = {
        "type": "record", "name": "R",
        "fields": [
            {"name": "several", "type": ["int", "string"], "default": 7},
            {"name": "octets", "type": "bytes", "default": "\u00ff"},
            {"name": "list", "type": {"type": "array", "items": "long"}, "default": []},
            {"name": "optional", "type": ["string", "null"], "default": "x"},
        ],
    }  # fmt: skip
    records = AvroRecords(json.dumps(schema))
    made = records.write(pa.array([dict.fromkeys(("several", "octets", "list", "optional"))], records.shape.arrow))
    written = {"several": 7, "octets": b"\xff", "list": [], "optional": None}
    assert made.to_pylist() == [{"v": _bytes(schema, written), "p": None}]


def test_a_schema_may_be_in_a_file_and_be_a_primitives_name(tmp_path: Path) -> None:
    path = tmp_path / "long.avsc"
    path.write_text('"long"')
    config = {"key.converter": "AvroConverter", "key.converter.schema.file": str(path)}
    made = make_converter(config, Role.KEY)
    assert made.schema == _converter("long", Role.KEY).schema  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("", "set one of schema and schema.file"),
        ("{", "no Avro schema"),
        ("nonsense", "no Avro schema"),
        ("null", "has no values|has values"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}, "R holds itself"),
        ({"type": "record", "name": "R", "fields": []}, "has no fields"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 40}, "40 digits"),
    ],
)
def test_a_schema_that_no_column_can_have_is_refused(schema: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        _converter(schema)


def test_what_else_is_in_a_file_is_not_said(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    path.write_text("sesame")
    with pytest.raises(ConfigError, match="holds no Avro schema") as refused:
        make_converter({"value.converter": "Avro", "value.converter.schema.file": str(path)}, Role.VALUE)
    assert "sesame" not in str(refused.value)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"schema\.file: .*no-such"):
        make_converter({"value.converter": "Avro", "value.converter.schema.file": "/no-such"}, Role.VALUE)
