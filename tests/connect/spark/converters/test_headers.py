"""How header converters are asked for, what is refused, and what they make of frames."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession

from barnabas.connect.connector import ConnectError
from barnabas.connect.spark.converters import HEADER_CONVERTERS, make_header_converter
from barnabas.connect.spark.failures import FAILURE
from barnabas.model.config import ConfigError
from tests.connect.spark.kafka_side import JSON, STRING, WITHOUT

_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@pytest.mark.parametrize("one", HEADER_CONVERTERS, ids=lambda one: one.__name__)
def test_a_header_converter_is_found_by_its_names(one: type) -> None:
    full: str = one.CLASS_NAME  # type: ignore[attr-defined]
    last = full.rpartition(".")[2]
    for called in (full, last, last.removesuffix("Converter").removesuffix("Header")):
        assert type(make_header_converter({"header.converter": called})) is one


def test_a_connectors_header_converter_takes_nothing_from_the_workers() -> None:
    worker = {"header.converter": JSON, "header.converter.schemas.enable": "false"}
    assert make_header_converter({}, worker).config["schemas.enable"] is False
    assert make_header_converter({"header.converter": JSON}, worker).config["schemas.enable"] is True
    assert type(make_header_converter({})) is HEADER_CONVERTERS[0]


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"header.converter": "Nonsense"}, "no header converter 'Nonsense'"),
        ({"header.converter": JSON, "header.converter.schemas.enable": "maybe"}, "not true or false"),
        ({"header.converter": STRING, "header.converter.converter.encoding": "klingon"}, "want one of"),
    ],
)
def test_a_wrong_configuration_is_refused(properties: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_header_converter(properties)


@pytest.mark.spark
def test_headers_of_any_type_are_written(spark: SparkSession) -> None:
    made = "array(named_struct('key', 'h', 'value', {})) headers"
    frame = spark.sql("SELECT " + made.format("timestamp'2020-02-29 12:00:00'"))
    simple = make_header_converter({})
    assert simple.from_connect(frame).collect()[0]["headers"][0]["value"] == b"2020-02-29T12:00:00.000Z"
    frame = spark.sql("SELECT " + made.format("x'ff00'"))
    assert simple.from_connect(frame).collect()[0]["headers"][0]["value"] == b"\xff\x00"
    typed = make_header_converter({"header.converter": JSON})
    (row,) = typed.from_connect(spark.sql("SELECT " + made.format("5"))).collect()
    assert json.loads(row["headers"][0]["value"]) == {"schema": {"type": "int32", "optional": True}, "payload": 5}
    with pytest.raises(ConnectError, match="takes bytes, and the headers are INT32"):
        make_header_converter({"header.converter": _BYTES}).from_connect(spark.sql("SELECT " + made.format("5")))
    with pytest.raises(ConnectError, match="want an array of structs"):
        simple.from_connect(spark.sql("SELECT 'x' headers"))


@pytest.mark.spark
def test_a_header_that_cannot_be_read_says_whose_fault_it_is(spark: SparkSession) -> None:
    frame = spark.createDataFrame([([("h", b"{")],)], "headers array<struct<key: string, value: binary>>")
    (row,) = make_header_converter(WITHOUT.properties("header")).to_connect(frame).collect()
    assert row["headers"] is None
    assert (row[FAILURE]["stage"], row[FAILURE]["class_name"]) == ("HEADER_CONVERTER", JSON)
