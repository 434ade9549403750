"""What converters make of batches, where Kafka's see one record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from barnabas.connect.connector import ConnectError
from barnabas.connect.spark.converters import Role, make_converter
from barnabas.connect.spark.failures import FAILURE
from tests.connect.spark.samples import envelope, fields

pytestmark = pytest.mark.spark

_INT, _LONG, _TEXT = {"type": "int32"}, {"type": "int64"}, {"type": "string"}


def _taken(spark: SparkSession, values: Sequence[bytes | None], **config: str) -> DataFrame:
    properties = {"value.converter": "Json", **{f"value.converter.{k.replace('_', '.')}": v for k, v in config.items()}}
    frame = spark.createDataFrame([(value,) for value in values], "value binary")
    return make_converter(properties, Role.VALUE).to_connect(frame)


def _values(frame: DataFrame) -> list[Any]:
    return [row["value"] and row["value"].asDict() for row in frame.collect()]


def test_schemas_of_a_batch_are_merged(spark: SparkSession) -> None:
    old = envelope(fields(("a", _INT)), {"a": 1})
    new = envelope(fields(("a", _LONG), ("b", _TEXT)), {"a": 2, "b": "x"})
    assert _values(_taken(spark, [old, new, None])) == [{"a": 1, "b": None}, {"a": 2, "b": "x"}, None]


def test_a_value_that_does_not_go_with_its_batch_fails_alone(spark: SparkSession) -> None:
    rows = _taken(spark, [envelope(_INT, 1), envelope(_INT, 2), envelope(_TEXT, "x")]).collect()
    assert [row["value"] for row in rows] == [1, 2, None]
    assert rows[2][FAILURE]["stage"] == "VALUE_CONVERTER"
    assert "does not go with the others of its batch: INT32 and STRING" in rows[2][FAILURE]["message"]


def test_a_batch_of_tombstones_has_the_type_of_the_one_before(spark: SparkSession) -> None:
    converter = make_converter({"value.converter": "Json"}, Role.VALUE)
    for value in (envelope(_INT, 1), None):
        made = converter.to_connect(spark.createDataFrame([(value,)], "value binary"))
        assert made.schema["value"].dataType.simpleString() == "int"


def test_a_ddl_gives_values_without_schemas_columns(spark: SparkSession) -> None:
    made = _taken(spark, [b'{"id": 7, "more": 1}', b"[]"], schemas_enable="false", schema_ddl="id BIGINT, name STRING")
    assert _values(made) == [{"id": 7, "name": None}, None]
    assert [row[FAILURE] is None for row in made.collect()] == [True, False]


def test_a_type_that_connect_has_no_word_for_is_refused(spark: SparkSession) -> None:
    frame = spark.sql("SELECT INTERVAL '1' DAY AS value")
    with pytest.raises(ConnectError, match="cast the column"):
        make_converter({"value.converter": "Json"}, Role.VALUE).from_connect(frame)
