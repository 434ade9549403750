"""Transformations of headers: DropHeaders, HeaderFrom and InsertHeader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructType, VariantType

from barnabas.connect.spark.data.records import Records
from barnabas.connect.spark.data.schema import DATE, OPTIONAL_STRING, TIMESTAMP, Schema, Type
from barnabas.connect.spark.data.spark_types import schema_of
from barnabas.connect.spark.data.sql import first, literal, name, variable
from barnabas.connect.spark.data.texts import java_text
from barnabas.model.config import REQUIRED, ConfigError, ConfigTable, ConfigType, one_of

from .base import REPLACE_NULL, Change, Transformation, setting
from .casting import cast
from .fields import as_map, basics, changed_map, field_value, made_struct, not_a_map, not_a_struct, put, to_variant
from .literals import header_literal
from .shaping import some_names

HEADERS: Final = "headers"


def header_values(frame: DataFrame) -> str:
    """Give the type of a frame's header values as SQL has it: what their converter made, VARIANT if there are none."""
    if HEADERS not in frame.columns:
        return "variant"
    kind = frame.schema[HEADERS].dataType
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
        value = kind.elementType["value"].dataType
        if isinstance(value, BinaryType):
            return "binary"
        return "string" if isinstance(value, StringType) else "variant"
    raise ConfigError(f"the column headers is {kind.simpleString()}, want an array of structs of key and value")


def with_open_headers(frame: DataFrame) -> DataFrame:
    """Give the frame with headers that others can be added to: a source's typed values become VARIANTs.

    Dates and timestamps are texts there, as on the wire.
    """
    if HEADERS not in frame.columns:
        return frame
    kind = frame.schema[HEADERS].dataType
    if not (isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType)):
        return frame
    value = kind.elementType["value"].dataType
    if isinstance(value, BinaryType | StringType | VariantType):
        return frame
    header = variable()
    schema, sql = schema_of(value, optional=True), f"{header}.value"
    if schema is not None and schema.logical in (DATE, TIMESTAMP):
        schema, sql = OPTIONAL_STRING, cast(schema, Type.STRING, sql)
    pair = f"named_struct('key', {header}.key, 'value', {to_variant(schema, sql)})"
    return frame.withColumn(HEADERS, expr(f"transform({name(HEADERS)}, {header} -> {pair})"))


def _added(frame: DataFrame, headers: Mapping[str, str] | list[tuple[str, str]]) -> str:
    kind = header_values(frame)
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    new = ", ".join(f"named_struct('key', {literal(key)}, 'value', cast({sql} as {kind}))" for key, sql in pairs)
    old = name(HEADERS) if HEADERS in frame.columns else "NULL"
    empty = f"cast(array() as array<struct<key: string, value: {kind}>>)"
    return f"concat(coalesce({old}, {empty}), array({new}))"


class DropHeaders(Transformation):
    """Takes headers away by their keys."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.DropHeaders"
    HAS_PARTS = False
    CONFIG = ConfigTable(setting("headers", ConfigType.LIST, REQUIRED, "The keys of the headers to drop.", some_names))

    def change(self, records: Records) -> Change:
        """Give the headers that stay."""
        if HEADERS not in records.frame.columns:
            return Change()
        header = variable()
        gone = ", ".join(map(literal, self.config["headers"]))
        return Change(others={HEADERS: f"filter({name(HEADERS)}, {header} -> {header}.key NOT IN ({gone}))"})


class InsertHeader(Transformation):
    """Adds a header with a fixed value to every record."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.InsertHeader"
    HAS_PARTS = False
    CONFIG = ConfigTable(
        setting("header", ConfigType.STRING, REQUIRED, "The header's key."),
        setting("value.literal", ConfigType.STRING, REQUIRED, "Its value."),
    )

    def change(self, records: Records) -> Change:
        """Give the headers, the new one last."""
        text, variant = header_literal(self.config["value.literal"])
        sql = variant if header_values(records.frame) == "variant" else literal(text)
        return Change(others={HEADERS: _added(records.frame, [(self.config["header"], sql)])})


class HeaderFrom(Transformation):
    """Moves or copies fields to headers."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.HeaderFrom"
    CONFIG = ConfigTable(
        setting("fields", ConfigType.LIST, REQUIRED, "The fields whose values become headers.", some_names),
        setting("headers", ConfigType.LIST, REQUIRED, "The headers' keys, in the order of `fields`.", None),
        setting("operation", ConfigType.STRING, REQUIRED, "move, or copy.", one_of("move", "copy")),
        REPLACE_NULL,
    )

    def __init__(self, config: Mapping[str, str], part: str) -> None:
        super().__init__(config, part)
        if len(self.config["fields"]) != len(self.config["headers"]):
            raise ConfigError("'fields' config must have the same number of elements as 'headers' config.")

    def change(self, records: Records) -> Change:
        """Give the headers, and the fields that stay; a null is a failure."""
        schema = records.schemas[self.part]
        column, purpose = name(self.part), f"header {self.config['operation']}"
        moves = self.config["operation"] == "move"
        kind = header_values(records.frame)
        if schema is None:
            held = variable()
            values = [f"try_element_at({as_map(column)}, {literal(f)})" for f in self.config["fields"]]
            headers = [(h, _shown(None, v, kind)) for h, v in zip(self.config["headers"], values, strict=True)]
            kept = changed_map(column, put(held, {}, without=self.config["fields"]), held)
            untyped: dict[str, tuple[str, Schema | None]] = {self.part: (kept, None)} if moves else {}
            problem = not_a_map(column, purpose, null_allowed=False)
            return Change(untyped, {HEADERS: _added(records.frame, headers)}, problem)
        problem_ = not_a_struct(schema, column, purpose, null_allowed=False)
        if schema.type is not Type.STRUCT:
            return Change(problem=problem_)
        unknown = [f for f in self.config["fields"] if schema.field(f) is None]
        if unknown:
            return Change(problem=first([problem_, literal(f"Field does not exist: {unknown[0]}")]))
        headers = []
        for field, header in zip(self.config["fields"], self.config["headers"], strict=True):
            sql = field_value(schema, column, field, replace_null=self.replaces_null)
            headers.append((header, _shown(schema.field(field), sql, kind)))
        if not moves:
            return Change({}, {HEADERS: _added(records.frame, headers)}, problem_)
        made = basics(schema, [f for f in schema.fields if f.name not in self.config["fields"]])
        stay = [(f.name, field_value(schema, column, f.name, replace_null=self.replaces_null)) for f in made.fields]
        columns = {self.part: (made_struct(column, stay, made), made)}
        return Change(columns, {HEADERS: _added(records.frame, headers)}, problem_)


def _shown(schema: Schema | None, sql: str, kind: str) -> str:
    if kind == "variant":
        return to_variant(schema, sql)
    if kind == "binary" and schema is not None and schema.type is Type.BYTES and schema.logical is None:
        return sql
    return java_text(schema, sql)
