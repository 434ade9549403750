"""Typed values into JSON: the SQL of what `to_json` writes as JsonConverter would."""

from __future__ import annotations

from typing import Final

from barnabas.connect.connector import ConnectError

from .decimals import bytes_of_decimal
from .json_decoding import JsonDecoder
from .json_schema import compact, to_json_schema
from .schema import DATE, DECIMAL, TIMESTAMP, Schema, Type
from .spark_types import scale_of
from .sql import NULL, first, literal, name, variable

_KEEP_NULLS: Final = "map('ignoreNullFields', 'false')"


class JsonEncoder:
    """Makes SQL that gives JSON for typed values.

    numeric_decimals: `decimal.format=NUMERIC`; replace_null_with_default: `replace.null.with.default`.
    """

    def __init__(self, *, numeric_decimals: bool, replace_null_with_default: bool) -> None:
        self._numeric = numeric_decimals
        self._replace = replace_null_with_default
        self._decoder = JsonDecoder(replace_null_with_default=replace_null_with_default)

    def text(self, schema: Schema | None, sql: str) -> str:
        """Give the SQL of the JSON text of a value that is not null."""
        if schema is None:
            return f"to_json({sql})"
        # to_json takes no plain values: one goes in as a field, and the text around it is cut off.
        wrapped = f"to_json(named_struct('v', {self.value(schema, sql)}), {_KEEP_NULLS})"
        return f"substring({wrapped}, 6, length({wrapped}) - 6)"

    def schema_text(self, schema: Schema | None) -> str:
        """Give the JSON of a schema, as the envelope has it."""
        return compact(None if schema is None else to_json_schema(schema, numeric_decimals=self._numeric))

    def value(self, schema: Schema, sql: str) -> str:
        """Give the SQL of what `to_json` writes as the payload of a value."""
        if schema.default is not None and self._replace:
            sql = f"coalesce({sql}, {self._decoder.default(schema)})"
        logical = schema.logical
        if logical == DECIMAL:
            return sql if self._numeric else bytes_of_decimal(sql, scale_of(schema))
        if logical == DATE:
            return f"unix_date({sql})"
        if logical == TIMESTAMP:
            return f"unix_millis(cast({sql} as timestamp))"
        match schema.type:
            case Type.STRUCT:
                fields = ", ".join(
                    f"{literal(f.name)}, {self.value(f.schema, f'{sql}.{name(f.name)}')}" for f in schema.fields
                )
                made = f"named_struct({fields})" if fields else "cast(map() as map<string, string>)"
                return f"CASE WHEN {sql} IS NOT NULL THEN {made} END"
            case Type.ARRAY:
                element = variable()
                return f"transform({sql}, {element} -> {self.value(_held(schema.value), element)})"
            case Type.MAP:
                return self._map(schema, sql)
        return sql

    def problem(self, schema: Schema, sql: str, at: str = "") -> str | None:
        """Give the SQL of why a value that is there cannot be written, null where it can; None if it always can."""
        match schema.type:
            case Type.STRUCT:
                return first(self._missing(f.schema, f"{sql}.{name(f.name)}", f"{at} {f.name}") for f in schema.fields)
            case Type.ARRAY:
                return self._within(_held(schema.value), sql, at)
            case Type.MAP:
                return self._within(_held(schema.value), f"map_values({sql})", at)
        return None

    def _missing(self, schema: Schema, sql: str, at: str) -> str | None:
        inner = self.problem(schema, sql, at)
        if schema.optional or (schema.default is not None and self._replace):
            return None if inner is None else f"CASE WHEN {sql} IS NOT NULL THEN {inner} END"
        refused = literal(f"null value for required field{at}")
        return f"CASE WHEN {sql} IS NULL THEN {refused} ELSE {inner or NULL} END"

    def _within(self, schema: Schema, elements: str, at: str) -> str | None:
        element, found = variable(), variable()
        inner = self._missing(schema, element, at)
        if inner is None:
            return None
        return f"get(filter(transform({elements}, {element} -> {inner}), {found} -> {found} IS NOT NULL), 0)"

    def _map(self, schema: Schema, sql: str) -> str:
        key, value = _held(schema.key), _held(schema.value)
        one, other = variable(), variable()
        if key.type is Type.STRING:
            return f"transform_values({sql}, ({one}, {other}) -> {self.value(value, other)})"
        entry = variable()
        pair = f"array({self._variant(key, f'{entry}.key')}, {self._variant(value, f'{entry}.value')})"
        return f"transform(map_entries({sql}), {entry} -> {pair})"

    def _variant(self, schema: Schema, sql: str) -> str:
        return f"parse_json({self.text(schema, sql)})"


def _held(schema: Schema | None) -> Schema:
    if schema is None:
        raise ConnectError("an array or map does not say what it holds")
    return schema
