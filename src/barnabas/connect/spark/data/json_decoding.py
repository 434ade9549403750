"""JSON into typed values: the SQL that takes a VARIANT apart by a schema, field by field, as JsonConverter does.

What a number is to a STRING, or a text to an INT32, follows Jackson's node accessors as JsonConverter uses them: a
number where a text is wanted is a null, a text where a number is wanted is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from .decimals import decimal_of_bytes
from .schema import DATE, DECIMAL, INTEGERS, TIME, TIMESTAMP, Schema, Type
from .spark_types import data_type, ddl, scale_of
from .sql import NULL, let, literal, variable

_BITS: Final = {Type.INT8: (8, "tinyint"), Type.INT16: (16, "smallint"), Type.INT32: (32, "int")}


@dataclass(frozen=True, slots=True)
class Taken:
    """sql: of the value; if it is fallible, of a struct of the value `v` and of a text `p`, null where all is well."""

    sql: str
    fallible: bool = False

    def value(self, name: str) -> str:
        """Give the value from a name for `sql`."""
        return f"{name}.v" if self.fallible else name

    def pair(self) -> str:
        """Give the struct of value and problem, in any case."""
        return self.sql if self.fallible else _pair(self.sql, "cast(NULL as string)")


class JsonDecoder:
    """Makes SQL that takes values out of VARIANTs. replace_null_with_default: `replace.null.with.default`."""

    def __init__(self, *, replace_null_with_default: bool) -> None:
        self._replace = replace_null_with_default

    def take(self, schema: Schema, sql: str, at: str = "") -> Taken:
        """Take a value out of a VARIANT; a missing one is a null. at: how messages call the place."""
        otherwise = self.default(schema) if schema.default is not None and self._replace else None
        required = otherwise is None and not schema.optional
        missing = literal(f"Invalid null value for required {schema.type.name} field{at}") if required else NULL
        fallible = required

        def body(here: str) -> str:
            nonlocal fallible
            taken = self._present(schema, here, at)
            fallible = fallible or taken.fallible
            absent = f"{here} IS NULL OR is_variant_null({here})"
            null = otherwise or f"cast(NULL as {ddl(schema)})"
            if not fallible:
                return f"CASE WHEN {absent} THEN {null} ELSE {taken.sql} END"
            return f"CASE WHEN {absent} THEN {_pair(null, f'cast({missing} as string)')} ELSE {taken.pair()} END"

        made = let(sql, body)
        return Taken(made, fallible)

    def default(self, schema: Schema) -> str:
        """Give the SQL of a schema's default."""
        plain = replace(schema, default=None, optional=True)
        taken = self.take(plain, f"parse_json({literal(schema.default or 'null')})")
        return taken.value(taken.sql)

    def _present(self, schema: Schema, here: str, at: str) -> Taken:
        if schema.logical is not None:
            return _LOGICAL[schema.logical](schema, here, at)
        match schema.type:
            case Type.STRUCT:
                return self._struct(schema, here, at)
            case Type.ARRAY:
                return self._array(schema, here, at)
            case Type.MAP:
                return self._map(schema, here, at)
        return _primitive(schema, here, at)

    def _struct(self, schema: Schema, here: str, at: str) -> Taken:
        taken = [
            self.take(f.schema, f"variant_get({here}, {literal(_path(f.name))}, 'variant')", f"{at} {f.name}")
            for f in schema.fields
        ]
        refused = _pair(f"cast(NULL as {ddl(schema)})", literal(f"Structs should be JSON objects{at}"))
        is_object = f"try_variant_get({here}, '$', 'map<string, variant>') IS NOT NULL"

        def body(row: str) -> str:
            values = ", ".join(
                f"{literal(f.name)}, {t.value(f'{row}.f{i}')}"
                for i, (f, t) in enumerate(zip(schema.fields, taken, strict=True))
            )
            problems = [f"{row}.f{i}.p" for i, t in enumerate(taken) if t.fallible]
            return _pair(f"named_struct({values})", f"coalesce({', '.join([*problems, 'cast(NULL as string)'])})")

        row = ", ".join(f"'f{i}', {t.sql}" for i, t in enumerate(taken))
        made = let(f"named_struct({row})", body) if row else _pair(f"cast(named_struct() as {ddl(schema)})", NULL)
        return Taken(f"CASE WHEN {is_object} THEN {made} ELSE {refused} END", fallible=True)

    def _array(self, schema: Schema, here: str, at: str) -> Taken:
        assert schema.value is not None
        # What is no array has the elements that iterating over the node gives: an object's values, or none.
        elements = (
            f"coalesce(try_variant_get({here}, '$', 'array<variant>'), "
            f"map_values(try_variant_get({here}, '$', 'map<string, variant>')), cast(array() as array<variant>))"
        )
        element = variable()
        inner = self.take(schema.value, element, f"{at}[]")
        taken = f"transform({elements}, {element} -> {inner.sql})"
        if not inner.fallible:
            return Taken(taken)
        return Taken(let(taken, lambda all_: _pair(f"{all_}.v", _first_problem(f"{all_}.p"))), fallible=True)

    def _map(self, schema: Schema, here: str, at: str) -> Taken:
        assert schema.key is not None
        assert schema.value is not None
        if schema.key.type is Type.STRING and schema.key.logical is None:
            return self._text_map(schema, schema.value, here, at)
        pair, one = variable(), variable()
        key = self.take(schema.key, f"{pair}[0]", f"{at} (key)")
        value = self.take(schema.value, f"{pair}[1]", f"{at} (value)")
        refused = _pair(
            f"cast(NULL as {ddl(schema)})", literal(f"Maps without STRING keys should be arrays of pairs{at}")
        )
        null_key = literal(f"a map has the key null{at}, which Spark's cannot have")

        def made(taken: str) -> str:
            problems = f"transform({taken}, {one} -> coalesce({one}.k.p, {one}.v.p))"
            index, later = variable(), variable()
            # A key that comes again has its last value; map_from_entries would raise, as it would for null.
            again = (
                f"exists(slice({taken}, {index} + 2, greatest(size({taken}) - {index} - 1, 0)), "
                f"{later} -> {later}.k.v = {one}.k.v)"
            )
            once = f"filter({taken}, ({one}, {index}) -> {one}.k.v IS NOT NULL AND NOT {again})"
            entries = f"transform({once}, {one} -> named_struct('key', {one}.k.v, 'value', {one}.v.v))"
            null = f"CASE WHEN exists({taken}, {one} -> {one}.k.v IS NULL) THEN {null_key} END"
            return _pair(f"map_from_entries({entries})", f"coalesce({_first_problem(problems)}, {null})")

        def body(pairs: str) -> str:
            taken = f"transform({pairs}, {pair} -> named_struct('k', {key.pair()}, 'v', {value.pair()}))"
            well = f"{pairs} IS NOT NULL AND forall({pairs}, {one} -> {one} IS NOT NULL AND size({one}) = 2)"
            return f"CASE WHEN {well} THEN {let(taken, made)} ELSE {refused} END"

        return Taken(let(f"try_variant_get({here}, '$', 'array<array<variant>>')", body), fallible=True)

    def _text_map(self, schema: Schema, values: Schema, here: str, at: str) -> Taken:
        refused = _pair(f"cast(NULL as {ddl(schema)})", literal(f"Maps with STRING keys should be JSON objects{at}"))
        key, value = variable(), variable()
        inner = self.take(values, value, f"{at} (value)")

        def made(taken: str) -> str:
            problem = _first_problem(f"map_values({taken}).p") if inner.fallible else "cast(NULL as string)"
            return _pair(f"transform_values({taken}, ({key}, {value}) -> {inner.value(value)})", problem)

        def body(held: str) -> str:
            taken = f"transform_values({held}, ({key}, {value}) -> {inner.sql})"
            return f"CASE WHEN {held} IS NULL THEN {refused} ELSE {let(taken, made)} END"

        return Taken(let(f"try_variant_get({here}, '$', 'map<string, variant>')", body), fallible=True)


def _path(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'$["{escaped}"]'


def _pair(value: str, problem: str) -> str:
    return f"named_struct('v', {value}, 'p', {problem})"


def _first_problem(problems: str) -> str:
    found = variable()
    return f"get(filter({problems}, {found} -> {found} IS NOT NULL), 0)"


def _kind(here: str) -> str:
    return f"schema_of_variant({here})"


def _number(here: str, sql: str, otherwise: str) -> str:
    """Give SQL for a value that is a number, other SQL for one that is not."""
    return f"CASE WHEN {_kind(here)} RLIKE '^(BIGINT|DECIMAL|DOUBLE|FLOAT)' THEN {sql} ELSE {otherwise} END"


def _text(here: str) -> str:
    return f"CASE WHEN {_kind(here)} = 'STRING' THEN variant_get({here}, '$', 'string') END"


def _primitive(schema: Schema, here: str, at: str) -> Taken:
    if schema.type in INTEGERS:
        return _integer(schema, here, at)
    match schema.type:
        case Type.FLOAT32 | Type.FLOAT64:
            kind = ddl(schema)
            return Taken(_number(here, f"try_variant_get({here}, '$', '{kind}')", f"cast(0 as {kind})"))
        case Type.BOOLEAN:
            return Taken(f"CASE WHEN {_kind(here)} = 'BOOLEAN' THEN variant_get({here}, '$', 'boolean') ELSE false END")
        case Type.STRING:
            refused = f"Invalid value for required STRING field{at}"
            return Taken(_text(here)) if schema.optional else _wanted(_text(here), refused)

    def body(text: str) -> str:
        made = f"try_to_binary({text}, 'base64')"
        lost = f"{made} IS NULL" if not schema.optional else f"{text} IS NOT NULL AND {made} IS NULL"
        return _pair(made, f"CASE WHEN {lost} THEN {literal(f'Invalid bytes field{at}')} END")

    return Taken(let(_text(here), body), fallible=True)


def _integer(schema: Schema, here: str, at: str) -> Taken:
    kind = ddl(schema)
    refused = f"CASE WHEN {{long}} IS NULL THEN {literal(f'a number is out of the range of INT64{at}')} END"

    def body(long: str) -> str:
        value = long
        if schema.type in _BITS:
            bits, narrow = _BITS[schema.type]
            value = f"try_cast(shiftright(shiftleft({long}, {64 - bits}), {64 - bits}) as {narrow})"
        return _pair(value, refused.format(long=long))

    number = let(f"try_variant_get({here}, '$', 'bigint')", body)
    return Taken(_number(here, number, _pair(f"cast(0 as {kind})", "cast(NULL as string)")), fallible=True)


def _wanted(value: str, refused: str) -> Taken:
    return Taken(let(value, lambda v: _pair(v, f"CASE WHEN {v} IS NULL THEN {literal(refused)} END")), fallible=True)


def _decimal(schema: Schema, here: str, at: str) -> Taken:
    kind = data_type(schema).simpleString()
    encoded = decimal_of_bytes(f"try_to_binary({_text(here)}, 'base64')", scale_of(schema))
    # Digits that do not fit are refused and not rounded away.
    fits = f"coalesce(try_cast(regexp_extract({_kind(here)}, ',([0-9]+)', 1) as int), 0) <= {scale_of(schema)}"
    exact = f"CASE WHEN {fits} THEN try_variant_get({here}, '$', '{kind}') END"
    return _wanted(_number(here, exact, f"try_cast({encoded} as {kind})"), f"Invalid value for Decimal field{at}")


def _days(schema: Schema, here: str, at: str) -> Taken:
    return _wanted(f"date_from_unix_date({_int(here)})", f"Invalid type for Date{at}, want an integer")


def _time(schema: Schema, here: str, at: str) -> Taken:
    value = let(_int(here), lambda ms: f"CASE WHEN {ms} BETWEEN 0 AND 86400000 THEN {ms} END")
    return _wanted(value, f"Invalid type for Time{at}, want milliseconds of a day")


def _timestamp(schema: Schema, here: str, at: str) -> Taken:
    def body(long: str) -> str:
        # Beyond these years timestamp_millis would raise.
        return f"CASE WHEN {long} BETWEEN -9223372036854775 AND 9223372036854775 THEN timestamp_millis({long}) END"

    long = f"CASE WHEN {_kind(here)} = 'BIGINT' THEN try_variant_get({here}, '$', 'bigint') END"
    return _wanted(let(long, body), f"Invalid type for Timestamp{at}, want milliseconds")


def _int(here: str) -> str:
    return f"CASE WHEN {_kind(here)} = 'BIGINT' THEN try_variant_get({here}, '$', 'int') END"


_LOGICAL: Final[dict[str, Callable[[Schema, str, str], Taken]]] = {
    DECIMAL: _decimal,
    DATE: _days,
    TIME: _time,
    TIMESTAMP: _timestamp,
}
