"""Casts as Java makes them: numbers wrap or saturate, texts are read strictly, and what cannot be read is null."""

from __future__ import annotations

from typing import Final

from barnabas.connect.spark.data.schema import DATE, DECIMAL, FLOATS, INTEGERS, TIME, TIMESTAMP, Schema, Type
from barnabas.connect.spark.data.sql import let
from barnabas.connect.spark.data.texts import java_text

TARGETS: Final = (*INTEGERS, *FLOATS, Type.BOOLEAN, Type.STRING)
_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_SQL: Final = {
    Type.INT8: "tinyint",
    Type.INT16: "smallint",
    Type.INT32: "int",
    Type.INT64: "bigint",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
}
_WHOLE: Final = "'^[+-]?[0-9]+$'"
_REAL: Final = r"'^\\s*[+-]?(NaN|Infinity|([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)\\s*$'"


def cast(schema: Schema, target: Type, sql: str) -> str:
    """Give SQL of a cast; null where the value is null, or cannot be cast."""
    logical = schema.logical
    if not schema.type.primitive:
        return f"cast(NULL as {_SQL[target]})"
    if target is Type.STRING:
        return _to_text(schema, sql)
    if logical == DECIMAL:
        return _from_decimal(target, sql)
    if logical is not None:
        return cast(Schema(schema.type), target, _underneath(logical, sql))
    if schema.type in INTEGERS:
        return _from_whole(target, f"cast({sql} as bigint)")
    if schema.type in FLOATS:
        return f"cast({sql} as {_SQL[target]})" if target in FLOATS else _from_real(target, f"cast({sql} as double)")
    if schema.type is Type.BOOLEAN:
        return sql if target is Type.BOOLEAN else f"cast(cast({sql} as int) as {_SQL[target]})"
    if schema.type is Type.STRING:
        return _from_text(target, sql)
    return f"cast(NULL as {_SQL[target]})"


def cast_variant(target: Type, sql: str) -> str:
    """Give SQL of a VARIANT cast, itself a VARIANT; null where the value is null, or cannot be cast."""

    def body(value: str) -> str:
        kind = f"schema_of_variant({value})"
        cases = [
            ("= 'BIGINT'", Type.INT64, "bigint"),
            ("RLIKE '^(DECIMAL|DOUBLE|FLOAT)'", Type.FLOAT64, "double"),
            ("= 'STRING'", Type.STRING, "string"),
            ("= 'BOOLEAN'", Type.BOOLEAN, "boolean"),
        ]
        taken = [
            (test, cast(Schema(t), target, f"try_variant_get({value}, '$', '{kind_}')")) for test, t, kind_ in cases
        ]
        whens = " ".join(f"WHEN {kind} {test} THEN cast({made} as variant)" for test, made in taken)
        return f"CASE {whens} END"

    return let(sql, body)


def _to_text(schema: Schema, sql: str) -> str:
    if schema.logical in (DATE, TIME, TIMESTAMP):
        return let(f"timestamp_millis({_underneath_ms(schema, sql)})", _iso)
    if schema.type is Type.BYTES and schema.logical is None:
        return f"base64({sql})"
    return java_text(schema, sql)


def _iso(instant: str) -> str:
    ms = f"unix_millis({instant})"
    return (
        f"CASE WHEN {ms} < 86400000 AND {ms} >= -86400000 THEN date_format({instant}, 'HH:mm:ss.SSS\\'Z\\'') "
        f"WHEN {ms} % 86400000 = 0 THEN date_format({instant}, 'yyyy-MM-dd') "
        f"ELSE date_format({instant}, 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSS\\'Z\\'') END"
    )


def _underneath(logical: str, sql: str) -> str:
    if logical == DATE:
        return f"unix_date({sql})"
    return f"unix_millis(cast({sql} as timestamp))" if logical == TIMESTAMP else sql


def _underneath_ms(schema: Schema, sql: str) -> str:
    if schema.logical == DATE:
        return f"(cast(unix_date({sql}) as bigint) * 86400000)"
    return _underneath(schema.logical or "", sql)


def _narrowed(target: Type, whole: str) -> str:
    if target is Type.INT64:
        return whole
    bits = 64 - _BITS[target]
    return f"cast(shiftright(shiftleft({whole}, {bits}), {bits}) as {_SQL[target]})"


def _from_whole(target: Type, whole: str) -> str:
    if target in INTEGERS:
        return _narrowed(target, whole)
    return f"({whole} <> 0)" if target is Type.BOOLEAN else f"cast({whole} as {_SQL[target]})"


def _from_real(target: Type, real: str) -> str:
    # Java's narrowing of a real number goes by way of an INT32, but for an INT64.
    high, low = (2**63 - 1, -(2**63)) if target in (Type.INT64, Type.BOOLEAN) else (2**31 - 1, -(2**31))

    def body(value: str) -> str:
        whole = (
            f"CASE WHEN isnan({value}) THEN 0L WHEN {value} >= {high}D THEN {high}L "
            f"WHEN {value} <= {low}D THEN {_long(low)} ELSE cast({value} as bigint) END"
        )
        return _from_whole(target, f"({whole})")

    return let(real, body)


def _long(number: int) -> str:
    return f"(-{2**63 - 1}L - 1L)" if number == -(2**63) else f"{number}L"


def _from_decimal(target: Type, sql: str) -> str:
    if target in FLOATS:
        return f"cast({sql} as {_SQL[target]})"
    return _from_whole(target, f"try_cast({sql} as bigint)")


def _from_text(target: Type, sql: str) -> str:
    if target is Type.BOOLEAN:
        return f"(lower({sql}) = 'true')"
    if target in INTEGERS:
        return f"CASE WHEN {sql} RLIKE {_WHOLE} THEN try_cast({sql} as {_SQL[target]}) END"
    number = f"regexp_replace(trim({sql}), '[fFdD]$', '')"
    return f"CASE WHEN {sql} RLIKE {_REAL} THEN try_cast({number} as {_SQL[target]}) END"
