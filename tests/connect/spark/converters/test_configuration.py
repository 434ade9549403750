"""How converters are asked for, and what is refused."""

from __future__ import annotations

import pytest

from barnabas.connect.spark.converters import CONVERTERS, Role, converter_class, make_converter
from barnabas.connect.spark.converters.json import configured_schema
from barnabas.connect.spark.data.json_schema import BadSchemaError, from_json_schema, to_json_schema
from barnabas.connect.spark.data.merging import IncompatibleSchemasError, merge
from barnabas.connect.spark.data.schema import Schema, Type, struct, timestamp
from barnabas.model.config import ConfigError

_JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.mark.parametrize("one", CONVERTERS, ids=lambda one: one.__name__)
def test_a_converter_is_found_by_its_names(one: type) -> None:
    full = converter_class(one.CLASS_NAME)  # type: ignore[attr-defined]
    assert full is one
    assert converter_class(one.__name__) is one
    assert converter_class(one.__name__.removesuffix("Converter")) is one


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({}, "value.converter is not set"),
        ({"value.converter": "Nonsense"}, "no converter 'Nonsense'"),
        ({"value.converter": _JSON, "value.converter.schemas.enable": "maybe"}, "not true or false"),
        ({"value.converter": _JSON, "value.converter.decimal.format": "ROMAN"}, "want one of BASE64, NUMERIC"),
        ({"value.converter": _JSON, "value.converter.schema.content": "{"}, "schema.content"),
        ({"value.converter": _JSON, "value.converter.schema.content": '{"type":"int7"}'}, "unknown type int7"),
        ({"value.converter": "String", "value.converter.converter.encoding": "klingon"}, "want one of"),
    ],
)
def test_a_wrong_configuration_is_refused(properties: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_converter(properties, Role.VALUE)


@pytest.mark.parametrize("content", ["", "null"])
def test_no_schema_may_be_configured(content: str) -> None:
    properties = {"value.converter": _JSON, "value.converter.schema.content": content}
    assert configured_schema(make_converter(properties, Role.VALUE).config) is None


def test_a_connectors_converter_takes_nothing_from_the_workers() -> None:
    worker = {"value.converter": _JSON, "value.converter.schemas.enable": "false"}
    assert make_converter({}, Role.VALUE, worker).config["schemas.enable"] is False
    assert make_converter({"value.converter": _JSON}, Role.VALUE, worker).config["schemas.enable"] is True


_SCHEMA = {
    "type": "struct",
    "fields": [
        {"type": "int32", "optional": True, "default": 5, "field": "a"},
        {"type": "array", "items": {"type": "string", "optional": False}, "optional": False, "field": "b"},
        {
            "type": "map",
            "keys": {"type": "string", "optional": False},
            "values": {"type": "double", "optional": True},
            "optional": False,
            "field": "c",
        },
    ],
    "optional": False,
    "name": "n",
    "version": 2,
    "doc": "d",
    "parameters": {"p": "q"},
}


def test_a_schema_is_read_and_written() -> None:
    assert to_json_schema(from_json_schema(_SCHEMA)) == _SCHEMA


@pytest.mark.parametrize(
    "given",
    [
        5,
        {},
        {"type": "int7"},
        {"type": "array"},
        {"type": "map", "keys": {"type": "string"}},
        {"type": "struct"},
        {"type": "struct", "fields": [{"type": "int8"}]},
        {"type": "struct", "fields": [{"type": "int8", "field": "a"}, {"type": "int8", "field": "a"}]},
        {"type": "int8", "parameters": {"p": 1}},
    ],
)
def test_what_is_no_schema_is_refused(given: object) -> None:
    with pytest.raises(BadSchemaError):
        from_json_schema(given)


_INT32, _INT64, _TEXT = Schema(Type.INT32), Schema(Type.INT64), Schema(Type.STRING)


def test_schemas_merge_to_what_holds_both() -> None:
    merged = merge(struct(("a", _INT32), ("b", _TEXT)), struct(("a", _INT64), ("c", _TEXT)))
    assert merged == struct(("a", _INT64), ("b", _TEXT.as_optional()), ("c", _TEXT.as_optional()))


@pytest.mark.parametrize(
    ("one", "other"),
    [(_INT32, _TEXT), (_INT64, timestamp()), (_INT64, Schema(Type.FLOAT64)), (struct(("a", _INT32)), _INT32)],
)
def test_schemas_that_no_column_holds_do_not_merge(one: Schema, other: Schema) -> None:
    with pytest.raises(IncompatibleSchemasError):
        merge(one, other)
