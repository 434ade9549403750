"""What a chain makes of frames, where Kafka has only records."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from barnabas.connect.connector import ConnectError
from barnabas.connect.spark.converters import make_header_converter
from barnabas.connect.spark.failures import FAILURE
from barnabas.connect.spark.transforms.chain import Chain

pytestmark = pytest.mark.spark


def _chain(**links: str) -> Chain:
    properties = {"transforms": "a", **{f"transforms.a.{key.replace('_', '.')}": text for key, text in links.items()}}
    predicates = {"predicates": "p", "predicates.p.type": "TopicNameMatches", "predicates.p.pattern": "t1"}
    return Chain.of({**properties, **predicates})


def test_a_frame_may_have_a_value_and_nothing_else(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("x",)], "value string")
    made = _chain(type="InsertHeader", header="h", value_literal="1").apply(frame)
    assert make_header_converter({}).from_connect(made).collect()[0]["headers"] == [("h", b"1")]
    assert _chain(type="Cast$Key", spec="string").apply(frame).collect()[0]["key"] is None
    assert _chain(type="TimestampRouter").apply(frame).collect()[0][FAILURE]["message"] == "Timestamp missing on record"


def test_a_failure_says_who_failed_and_why_and_the_first_one_stands(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("7",), ("x",)], "value string")
    chain = Chain.of(
        {
            "transforms": "a,b",
            "transforms.a.type": "Cast$Value",
            "transforms.a.spec": "int8",
            "transforms.b.type": "MaskField$Value",
            "transforms.b.fields": "f",
        }
    )
    seven, x = chain.apply(frame).collect()
    cast = "org.apache.kafka.connect.transforms.Cast$Value"
    assert seven[FAILURE]["class_name"] == "org.apache.kafka.connect.transforms.MaskField$Value"
    assert (x[FAILURE]["stage"], x[FAILURE]["class_name"]) == ("TRANSFORMATION", cast)
    assert x[FAILURE]["message"] == "Value (x) was out of range for requested data type"
    assert x["value"] is None


def test_what_a_predicate_leaves_is_merged_with_what_it_picks(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("t1", (1,)), ("t2", (2,))], "topic string, value struct<a: int>")
    made = _chain(type="InsertField$Value", static_field="s", static_value="x", predicate="p").apply(frame)
    assert [tuple(row["value"]) for row in made.collect()] == [(1, "x"), (2, None)]


def test_a_predicate_that_leaves_what_no_column_holds_fails_the_task(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("t1", (1,)), ("t2", (2,))], "topic string, value struct<a: int>")
    with pytest.raises(ConnectError, match=r"transforms\.a: its predicate leaves the value of some records"):
        _chain(type="ExtractField$Value", field="a", predicate="p").apply(frame)
