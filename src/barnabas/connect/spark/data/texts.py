"""The text of a value, as Java's `toString` has it."""

from __future__ import annotations

from .schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from .sql import literal, name, variable

_DATE_PATTERN = "EEE MMM dd HH:mm:ss 'UTC' yyyy"


def java_text(schema: Schema | None, sql: str) -> str:
    """Give the SQL of a value's text, null for null.

    Dates are those of a JVM in UTC. Data without a schema are texts as they are, and JSON if they hold others.
    """
    if schema is None:
        return variant_text(sql)
    logical = schema.logical
    if logical in (DATE, TIMESTAMP):
        return f"date_format(cast({sql} as timestamp), {literal(_DATE_PATTERN)})"
    if logical == TIME:
        return f"date_format(timestamp_millis({sql}), {literal(_DATE_PATTERN)})"
    if logical == DECIMAL:
        # The one place that spells a decimal as BigDecimal does, 0E-10 and all.
        text = f"to_json(named_struct('v', {sql}))"
        return f"CASE WHEN {sql} IS NOT NULL THEN substring({text}, 6, length({text}) - 6) END"
    match schema.type:
        case Type.STRING:
            return sql
        case Type.BYTES:
            return f"cast({sql} as string)"
        case Type.ARRAY:
            return f"concat('[', array_join({_elements(schema.value, sql)}, ', '), ']')"
        case Type.MAP:
            entry = variable()
            key = java_text(schema.key, f"{entry}.key")
            pair = f"concat({_shown(key)}, '=', {_shown(java_text(schema.value, f'{entry}.value'))})"
            return f"concat('{{', array_join(transform(map_entries({sql}), {entry} -> {pair}), ', '), '}}')"
        case Type.STRUCT:
            shown = [
                f"concat({literal(f.name + '=')}, {java_text(f.schema, f'{sql}.{name(f.name)}')})"
                for f in schema.fields
            ]
            inner = f"array_join(array({', '.join(shown)}), ',')" if shown else "''"
            return f"CASE WHEN {sql} IS NOT NULL THEN concat('Struct{{', {inner}, '}}') END"
    return f"cast({sql} as string)"


def variant_text(sql: str) -> str:
    """Give the SQL of the text of a VARIANT, null for null; a number with a fraction is spelt as a double."""
    kind = f"schema_of_variant({sql})"
    return (
        f"CASE WHEN {sql} IS NULL OR is_variant_null({sql}) THEN NULL "
        f"WHEN {kind} LIKE 'DECIMAL%' THEN cast(try_variant_get({sql}, '$', 'double') as string) "
        f"WHEN {kind} LIKE 'OBJECT%' OR {kind} LIKE 'ARRAY%' THEN to_json({sql}) "
        f"ELSE try_variant_get({sql}, '$', 'string') END"
    )


def _elements(schema: Schema | None, sql: str) -> str:
    element = variable()
    return f"transform({sql}, {element} -> {_shown(java_text(schema, element))})"


def _shown(text: str) -> str:
    return f"coalesce({text}, 'null')"
