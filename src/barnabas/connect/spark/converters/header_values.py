"""Values of headers that are VARIANTs: what a text is taken for, and the type that Connect has for it."""

from __future__ import annotations

from typing import Final

from barnabas.connect.spark.data.schema import Type

_WHOLE: Final = "'^[+-]?[0-9]+$'"
_REAL: Final = r"'^[+-]?([0-9]+\\.[0-9]*|\\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]+)?$'"
_RANGES: Final = ((Type.INT8, 1 << 7), (Type.INT16, 1 << 15), (Type.INT32, 1 << 31))


def guessed(text: str) -> str:
    """Give the SQL of the VARIANT that a text stands for: a number, true or false, a list or an object, or itself."""
    whole = f"try_cast({text} as bigint)"
    return (
        f"CASE WHEN {text} IS NULL OR {text} = 'null' THEN NULL "
        f"WHEN {text} RLIKE {_WHOLE} AND {whole} IS NOT NULL THEN cast({whole} as variant) "
        f"WHEN {text} RLIKE {_REAL} THEN {_number(text)} "
        f"WHEN {text} IN ('true', 'false') THEN cast({text} = 'true' as variant) "
        f"WHEN {text} RLIKE '^[\\\\[{{]' THEN coalesce(try_parse_json({text}), cast({text} as variant)) "
        f"ELSE cast({text} as variant) END"
    )


def kind_of(value: str) -> str:
    """Give the SQL of the name of the narrowest type that holds a VARIANT's plain value; null for any other value."""
    kind, whole = f"schema_of_variant({value})", f"try_variant_get({value}, '$', 'bigint')"
    narrow = "".join(f"WHEN {whole} BETWEEN {-end} AND {end - 1} THEN '{type_.name}' " for type_, end in _RANGES)
    return (
        f"CASE WHEN {kind} = 'BIGINT' THEN CASE {narrow}ELSE 'INT64' END "
        f"WHEN {kind} = 'FLOAT' THEN 'FLOAT32' WHEN {kind} RLIKE '^(DECIMAL|DOUBLE)' THEN 'FLOAT64' "
        f"WHEN {kind} IN ('BOOLEAN', 'STRING') THEN {kind} END"
    )


def _number(text: str) -> str:
    """Give what Connect makes of a number with a point or an exponent: a whole one where it is whole, else a float."""
    exact, float_, double = f"try_cast({text} as decimal(38, 18))", f"cast({text} as float)", f"cast({text} as double)"
    whole = f"{exact} = floor({exact}) AND (abs({double}) >= 1 OR {double} = 0)"
    return (
        f"CASE WHEN {whole} AND try_cast({exact} as bigint) IS NOT NULL "
        f"THEN cast(try_cast({exact} as bigint) as variant) "
        f"WHEN abs({float_}) < float('Infinity') THEN cast({float_} as variant) ELSE cast({double} as variant) END"
    )
