"""Fields of what a transformation works on, be it a struct by its schema or a VARIANT without one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from barnabas.connect.spark.data.json_decoding import JsonDecoder
from barnabas.connect.spark.data.schema import Field, Schema, Type
from barnabas.connect.spark.data.spark_types import ddl
from barnabas.connect.spark.data.sql import let, literal, name, variable


def field_value(schema: Schema, column: str, field: str, *, replace_null: bool) -> str:
    """Give SQL of a field of a struct, or of its default where it is null and that is wanted."""
    sql = f"{column}.{name(field)}"
    inner = schema.field(field)
    if inner is None or inner.default is None or not replace_null:
        return sql
    return f"coalesce({sql}, {JsonDecoder(replace_null_with_default=True).default(inner)})"


def made_struct(column: str, values: Sequence[tuple[str, str]], schema: Schema) -> str:
    """Give SQL of a struct of these fields, null where the column is."""
    fields = ", ".join(f"{literal(key)}, {sql}" for key, sql in values)
    made = f"named_struct({fields})" if values else f"cast(named_struct() as {ddl(schema)})"
    return f"CASE WHEN {column} IS NOT NULL THEN {made} END"


def basics(schema: Schema, fields: Iterable[Field]) -> Schema:
    """Give a struct's schema with other fields: name, version and documentation stay, and it is required."""
    return replace(schema, type=Type.STRUCT, optional=False, default=None, fields=tuple(fields), key=None, value=None)


def not_a_struct(schema: Schema, column: str, purpose: str, *, null_allowed: bool) -> str | None:
    """Give SQL of why a column is no struct, null where it is one; None if every value is one, or may be null."""
    refused = literal(f"Only Struct objects supported for [{purpose}], found: ")
    if schema.type is not Type.STRUCT:
        other = f"WHEN {column} IS NOT NULL THEN concat({refused}, {literal(schema.type.name)})"
        null = "" if null_allowed else f" WHEN {column} IS NULL THEN concat({refused}, 'null')"
        return f"CASE {other}{null} END"
    return None if null_allowed else f"CASE WHEN {column} IS NULL THEN concat({refused}, 'null') END"


def as_map(column: str) -> str:
    """Give SQL of the fields of a VARIANT, null where it is no object."""
    return f"try_variant_get({column}, '$', 'map<string, variant>')"


def not_a_map(column: str, purpose: str, *, null_allowed: bool) -> str:
    """Give SQL of why a VARIANT has no fields, null where it has."""
    refused = literal(f"Only Map objects supported in absence of schema for [{purpose}]")
    null = f"{column} IS NOT NULL AND " if null_allowed else ""
    return f"CASE WHEN {null}{as_map(column)} IS NULL THEN {refused} END"


def put(held: str, values: Mapping[str, str], *, without: Iterable[str] = ()) -> str:
    """Give SQL of a map with some keys set, each to SQL of a VARIANT, and others gone."""
    gone = [*values, *without]
    kept = held
    if gone:
        key, value = variable(), variable()
        kept = f"map_filter({held}, ({key}, {value}) -> {key} NOT IN ({', '.join(map(literal, gone))}))"
    if not values:
        return kept
    entries = ", ".join(f"{literal(key)}, {sql}" for key, sql in values.items())
    return f"map_concat({kept}, map({entries}))"


def changed_map(column: str, body: str, held: str) -> str:
    """Give SQL of the VARIANT of a changed map, null where the column is null or no object.

    held: the name under which `body` knows the fields that the column has now.
    """
    made = f"CASE WHEN {held} IS NOT NULL THEN to_variant_object({body}) END"
    return f"transform(array({as_map(column)}), {held} -> {made})[0]"


def of_map(held: str, field: str) -> str:
    """Give SQL of a field of a map, SQL's null for a missing one and for a null."""
    return let(
        f"try_element_at({held}, {literal(field)})", lambda v: f"CASE WHEN NOT is_variant_null({v}) THEN {v} END"
    )


def to_variant(schema: Schema | None, sql: str) -> str:
    """Give SQL of a typed value as a VARIANT; null for null."""
    if schema is None:
        return sql
    if schema.type.primitive:
        return f"cast({sql} as variant)"
    if schema.type is Type.MAP and schema.key is not None and schema.key.type is not Type.STRING:
        return f"to_variant_object(map_entries({sql}))"
    return f"to_variant_object({sql})"
