"""Transformations that write fields: InsertField, MaskField, and SetSchemaMetadata, which renames the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Final

from barnabas.connect.spark.data.records import Records
from barnabas.connect.spark.data.schema import (
    DATE,
    DECIMAL,
    FLOATS,
    INTEGERS,
    TIMESTAMP,
    Field,
    Schema,
    Type,
    timestamp,
)
from barnabas.connect.spark.data.spark_types import ddl
from barnabas.connect.spark.data.sql import first, let, literal, name, variable
from barnabas.model.config import REQUIRED, ConfigError, ConfigTable, ConfigType, Importance, not_empty

from .base import REPLACE_NULL, Change, Transformation, setting
from .fields import as_map, basics, changed_map, field_value, made_struct, not_a_map, not_a_struct, put
from .shaping import some_names


@dataclass(frozen=True, slots=True)
class _Insertion:
    field: str
    schema: Schema
    typed: str
    untyped: str
    """SQL of a VARIANT, null for a field that is then left out."""


class InsertField(Transformation):
    """Adds fields from the record's topic, partition, offset and timestamp, and one of a fixed text."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.InsertField"
    CONFIG = ConfigTable(
        *(
            setting(f"{what}.field", ConfigType.STRING, None, f"The field for {of}; with ! it is required.", None,
                    Importance.MEDIUM)
            for what, of in (
                ("topic", "the topic"),
                ("partition", "the partition"),
                ("offset", "the offset, in a sink"),
                ("timestamp", "the timestamp"),
                ("static", "the text `static.value`"),
            )
        ),
        setting("static.value", ConfigType.STRING, None, "A fixed text.", None, Importance.MEDIUM),
        REPLACE_NULL,
    )  # fmt: skip
    _PURPOSE: Final = "field insertion"

    def __init__(self, config: Mapping[str, str], part: str) -> None:
        super().__init__(config, part)
        if all(
            self.config[f"{what}.field"] is None for what in ("topic", "partition", "offset", "timestamp", "static")
        ):
            raise ConfigError("No field insertion configured")
        if self.config["static.field"] is not None and self.config["static.value"] is None:
            raise ConfigError("static.value: No value specified for the static field")

    def change(self, records: Records) -> Change:
        """Give the value with the fields; a null stays one."""
        schema = records.schemas[self.part]
        column = name(self.part)
        insertions = self._insertions(records.frame.columns)
        if schema is None:
            return self._untyped(column, insertions)
        problem = not_a_struct(schema, column, self._PURPOSE, null_allowed=True)
        if schema.type is not Type.STRUCT:
            return Change(problem=problem)
        again = [i.field for i in insertions if schema.field(i.field) is not None]
        if again:
            refused = literal(f"the field {again[0]} is there already")
            return Change(problem=f"CASE WHEN {column} IS NOT NULL THEN {refused} END")
        made = basics(schema, [*schema.fields, *(Field(i.field, i.schema) for i in insertions)])
        values = [(f.name, field_value(schema, column, f.name, replace_null=self.replaces_null)) for f in schema.fields]
        values += [(i.field, i.typed) for i in insertions]
        missing = [
            f"CASE WHEN {column} IS NOT NULL AND {i.typed} IS NULL "
            f"THEN {literal(f'null for the required field {i.field}')} END"
            for i in insertions
            if not i.schema.optional
        ]
        return Change({self.part: (made_struct(column, values, made), made)}, problem=first(missing))

    def _untyped(self, column: str, insertions: list[_Insertion]) -> Change:
        held, key, value = variable(), variable(), variable()
        added = f"map({', '.join(f'{literal(i.field)}, {i.untyped}' for i in insertions)})"
        there = f"map_filter({added}, ({key}, {value}) -> {value} IS NOT NULL)"
        kept = f"map_filter({held}, ({key}, {value}) -> NOT map_contains_key({there}, {key}))"
        body = f"map_concat({kept}, {there})"
        problem = not_a_map(column, self._PURPOSE, null_allowed=True)
        return Change({self.part: (changed_map(column, body, held), None)}, problem=problem)

    def _insertions(self, columns: list[str]) -> list[_Insertion]:
        made = []
        for what, kind in (("topic", Type.STRING), ("partition", Type.INT32), ("offset", Type.INT64)):
            sql = f"cast({name(what) if what in columns else 'NULL'} as {ddl(Schema(kind))})"
            made += self._insertion(what, Schema(kind), sql, f"cast({sql} as variant)")
        instant = f"cast({name('timestamp') if 'timestamp' in columns else 'NULL'} as timestamp)"
        made += self._insertion("timestamp", timestamp(), instant, f"cast(unix_millis({instant}) as variant)")
        text = literal(self.config["static.value"] or "")
        made += self._insertion("static", Schema(Type.STRING), text, f"cast({text} as variant)")
        return made

    def _insertion(self, what: str, schema: Schema, typed: str, untyped: str) -> list[_Insertion]:
        field = self.config[f"{what}.field"]
        if field is None:
            return []
        required = field.endswith("!")
        return [
            _Insertion(
                field[:-1] if field[-1:] in ("?", "!") else field, schema.as_optional(not required), typed, untyped
            )
        ]


class MaskField(Transformation):
    """Puts nothing, or a fixed text or number, where a field's value was."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.MaskField"
    CONFIG = ConfigTable(
        setting("fields", ConfigType.LIST, REQUIRED, "The fields to mask.", some_names),
        setting("replacement", ConfigType.STRING, None, "What stands in their place.", not_empty, Importance.LOW),
        REPLACE_NULL,
    )
    _PURPOSE: Final = "mask fields"

    def change(self, records: Records) -> Change:
        """Give the masked value; a null stays a null within, and is a failure as the whole."""
        schema = records.schemas[self.part]
        column = name(self.part)
        if schema is None:
            return self._untyped(column)
        problems = [not_a_struct(schema, column, self._PURPOSE, null_allowed=False)]
        if schema.type is not Type.STRUCT:
            return Change(problem=problems[0])
        values = []
        for field in schema.fields:
            sql = field_value(schema, column, field.name, replace_null=self.replaces_null)
            if field.name in self.config["fields"]:
                masked = self._masked(field.schema)
                if masked is None:
                    refused = literal(f"Cannot mask the field {field.name} of type {field.schema.type.name}")
                    problems.append(f"CASE WHEN {sql} IS NOT NULL THEN {refused} END")
                else:
                    sql = f"CASE WHEN {sql} IS NOT NULL THEN cast({masked} as {ddl(field.schema)}) END"
            values.append((field.name, sql))
        return Change({self.part: (made_struct(column, values, schema), schema)}, problem=first(problems))

    def _masked(self, schema: Schema) -> str | None:
        """Give SQL of the mask of a value of a schema; None where there is none."""
        replacement = self.config["replacement"]
        logical = schema.logical
        if logical == DECIMAL:
            return "0BD" if replacement is None else _number(replacement)
        if logical is not None:
            masks = {DATE: "DATE'1970-01-01'", TIMESTAMP: "timestamp_millis(0)"}
            return masks.get(logical, "0") if replacement is None else None
        if schema.type is Type.STRING:
            return literal(replacement or "")
        if schema.type in INTEGERS or schema.type in FLOATS:
            return "0" if replacement is None else _fitting(schema.type, replacement)
        if replacement is not None:
            return None
        return {Type.BOOLEAN: "false", Type.ARRAY: "array()", Type.MAP: "map()"}.get(schema.type)

    def _untyped(self, column: str) -> Change:
        held = variable()
        masked = {f: let(f"try_element_at({held}, {literal(f)})", self._masked_variant) for f in self.config["fields"]}
        problems: list[str | None] = [not_a_map(column, self._PURPOSE, null_allowed=False)]
        for field in self.config["fields"]:
            value = f"try_element_at({as_map(column)}, {literal(field)})"
            lost = let(
                value, lambda v: f"({v} IS NOT NULL AND NOT is_variant_null({v}) AND {self._masked_variant(v)} IS NULL)"
            )
            problems.append(f"CASE WHEN {lost} THEN {literal(f'Cannot mask the field {field}')} END")
        return Change({self.part: (changed_map(column, put(held, masked), held), None)}, problem=first(problems))

    def _masked_variant(self, value: str) -> str:
        replacement = self.config["replacement"]
        masks = {
            "= 'STRING'": literal(replacement or ""),
            "= 'BIGINT'": "0L" if replacement is None else _fitting(Type.INT64, replacement, "bigint"),
            "RLIKE '^(DECIMAL|DOUBLE|FLOAT)'": "0D"
            if replacement is None
            else _fitting(Type.FLOAT64, replacement, "double"),
        }
        if replacement is None:
            masks["= 'BOOLEAN'"] = "false"
        whens = " ".join(
            f"WHEN {kind_test} THEN cast({sql} as variant)"
            for test, sql in masks.items()
            if sql is not None
            for kind_test in (f"schema_of_variant({value}) {test}",)
        )
        if replacement is None:
            whens += f" WHEN schema_of_variant({value}) LIKE 'ARRAY%' THEN parse_json('[]')"
            whens += f" WHEN schema_of_variant({value}) LIKE 'OBJECT%' THEN parse_json('{{}}')"
        return f"CASE {whens} END"


def _number(text: str) -> str | None:
    try:
        return f"{Decimal(text):f}BD"
    except InvalidOperation:
        return None


def _fitting(kind: Type, text: str, sql: str | None = None) -> str | None:
    bits = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}.get(kind)
    try:
        if bits is not None:
            number = int(text)
            if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
                return None
            return f"cast('{number}' as {sql or ddl(Schema(kind))})"
        return f"cast('{float(text)!r}' as {sql or ddl(Schema(kind))})"
    except ValueError:
        return None


class SetSchemaMetadata(Transformation):
    """Gives a schema another name, or version."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.SetSchemaMetadata"
    CONFIG = ConfigTable(
        setting("schema.name", ConfigType.STRING, None, "The name to set."),
        setting("schema.version", ConfigType.INT, None, "The version to set."),
        REPLACE_NULL,
    )

    def change(self, records: Records) -> Change:
        """Give the part with the new note; a value without a schema is a failure, a null stays one."""
        schema = records.schemas[self.part]
        column = name(self.part)
        if schema is None:
            refused = literal("Schema required for [updating schema metadata]")
            return Change(problem=f"CASE WHEN {column} IS NOT NULL THEN {refused} END")
        version = self.config["schema.version"]
        made = replace(
            schema,
            name=self.config["schema.name"] or schema.name,
            version=schema.version if version is None else version,
        )
        if made.logical != schema.logical:
            # A logical type's values have a column type of their own; under another name they are what they were.
            made = replace(made, name=schema.name)
        return Change({self.part: (column, made)})
