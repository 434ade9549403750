"""JSON text into typed values in one pass, for what is as its schema says; anything else is taken apart with care.

Spark's `from_json` is some ten times as fast as `JsonDecoder`, and says when a value was not as it should be. Only then
does the decoder look again, and gives JsonConverter's answer. One thing alone passes unnoticed: where the schema says
STRING, a number or an object becomes its JSON text.
"""

from __future__ import annotations

from typing import Final

from .json_decoding import JsonDecoder
from .schema import DATE, DECIMAL, TIMESTAMP, Schema, Type
from .spark_types import ddl
from .sql import NULL, literal, name, variable

_CORRUPT: Final = "connect_corrupt"
_OPTIONS: Final = (
    f"map('columnNameOfCorruptRecord', '{_CORRUPT}', 'mode', 'PERMISSIVE', 'allowNonNumericNumbers', 'false')"
)


class JsonParser:
    """Makes SQL for values of one schema. decoder: for values that are not as they should be."""

    def __init__(self, schema: Schema, decoder: JsonDecoder, *, replace_null_with_default: bool) -> None:
        self._schema = schema
        self._decoder = decoder
        self._replace = replace_null_with_default

    def parsed(self, text: str, field: str | None) -> str:
        """Give SQL that parses a text; the value is all of it, or a field of the object that it is."""
        if field is None:
            text, field = f"concat('{{\"v\":', {text}, '}}')", "v"
        kind = f"struct<{name(field)}: {_parsed_ddl(self._schema)}, {_CORRUPT}: string>"
        return f"from_json({text}, {literal(kind)}, {_OPTIONS})"

    def corrupt(self, parsed: str) -> str:
        """Give SQL that is true where the text was not as it should be."""
        return f"{parsed}.{_CORRUPT} IS NOT NULL"

    def taken(self, parsed: str, field: str | None, variant: str) -> str:
        """Give SQL of a struct of the value `v` and the problem `p`.

        parsed: the name of what `parsed` made; variant: SQL of the value as a VARIANT.
        """
        value = f"{parsed}.{name(field or 'v')}"
        plain = f"named_struct('v', {self._typed(self._schema, value)}, 'p', cast(NULL as string))"
        doubtful = f"{self.corrupt(parsed)} OR {self._doubtful(self._schema, value)}"
        with_care = self._decoder.take(self._schema, variant)
        return f"CASE WHEN {doubtful} THEN {with_care.pair()} ELSE {plain} END"

    def _typed(self, schema: Schema, sql: str) -> str:
        if schema.default is not None and self._replace:
            return f"coalesce({self._valued(schema, sql)}, {self._decoder.default(schema)})"
        return self._valued(schema, sql)

    def _valued(self, schema: Schema, sql: str) -> str:
        if _as_variant(schema):
            return self._decoder.take(_optional(schema), sql).value(self._decoder.take(_optional(schema), sql).sql)
        if schema.logical == DATE:
            return f"date_from_unix_date({sql})"
        if schema.logical == TIMESTAMP:
            return f"timestamp_millis({sql})"
        if _same(schema, self._replace):
            return sql
        match schema.type:
            case Type.STRUCT:
                fields = ", ".join(
                    f"{literal(f.name)}, {self._typed(f.schema, f'{sql}.{name(f.name)}')}" for f in schema.fields
                )
                return f"CASE WHEN {sql} IS NOT NULL THEN named_struct({fields}) END"
            case Type.ARRAY if schema.value is not None:
                element = variable()
                return f"transform({sql}, {element} -> {self._typed(schema.value, element)})"
            case Type.MAP if schema.value is not None:
                key, value = variable(), variable()
                return f"transform_values({sql}, ({key}, {value}) -> {self._typed(schema.value, value)})"
        return sql

    def _doubtful(self, schema: Schema, sql: str) -> str:
        """Give SQL that is true of a value that the decoder has to see; never null."""
        found = []
        if not schema.optional and (schema.default is None or not self._replace):
            found.append(f"{sql} IS NULL")
        inside = self._inside(schema, sql)
        if inside is not None:
            found.append(f"coalesce({inside}, false)")
        return f"({' OR '.join(found)})" if found else "false"

    def _inside(self, schema: Schema, sql: str) -> str | None:
        if _as_variant(schema):
            taken = self._decoder.take(_optional(schema), sql)
            return f"{taken.sql}.p IS NOT NULL" if taken.fallible else None
        if schema.logical == TIMESTAMP:
            return f"abs({sql}) > 9223372036854775"
        if schema.logical is not None:
            return None if schema.logical == DATE else f"{sql} NOT BETWEEN 0 AND 86400000"
        match schema.type:
            case Type.STRUCT:
                inner = [self._doubtful(f.schema, f"{sql}.{name(f.name)}") for f in schema.fields]
                real = [i for i in inner if i != "false"]
                return f"{sql} IS NOT NULL AND ({' OR '.join(real)})" if real else None
            case Type.ARRAY if schema.value is not None:
                return self._among(schema.value, sql)
            case Type.MAP if schema.value is not None:
                return self._among(schema.value, f"map_values({sql})")
        return None

    def _among(self, schema: Schema, elements: str) -> str | None:
        element = variable()
        inner = self._doubtful(schema, element)
        return None if inner == "false" else f"exists({elements}, {element} -> {inner})"


def _optional(schema: Schema) -> Schema:
    return schema.as_optional()


def _as_variant(schema: Schema) -> bool:
    """Say whether a value has more than one spelling: a decimal, and a map that is an array of pairs."""
    if schema.logical == DECIMAL:
        return True
    return schema.type is Type.MAP and schema.key is not None and schema.key.type is not Type.STRING


def _same(schema: Schema | None, replaced: bool) -> bool:
    """Say whether values are parsed into their column's type already, all the way down."""
    if schema is None:
        return True
    if _as_variant(schema) or schema.logical in (DATE, TIMESTAMP):
        return False
    parts = [f.schema for f in schema.fields] + [s for s in (schema.value,) if s is not None]
    return all(_same(part, replaced) and (part.default is None or not replaced) for part in parts)


def _parsed_ddl(schema: Schema | None) -> str:
    if schema is None:
        return NULL
    if _as_variant(schema):
        return "variant"
    if schema.logical == DATE:
        return "int"
    if schema.logical == TIMESTAMP:
        return "bigint"
    match schema.type:
        case Type.STRUCT:
            return f"struct<{', '.join(f'{name(f.name)}: {_parsed_ddl(f.schema)}' for f in schema.fields)}>"
        case Type.ARRAY:
            return f"array<{_parsed_ddl(schema.value)}>"
        case Type.MAP:
            return f"map<string, {_parsed_ddl(schema.value)}>"
    return ddl(schema)
