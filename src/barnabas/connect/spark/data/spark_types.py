"""Connect's schemas as Spark's types, and what a Spark type says of a schema.

Decimal is a DECIMAL of 38 digits (or what `connect.decimal.precision` says), Date a DATE, Timestamp a TIMESTAMP; Time,
for which Spark has no type that can be cast, stays what it is underneath: an INT of milliseconds since midnight.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pyspark.sql import types as spark_types

from barnabas.connect.connector import ConnectError

from .schema import DATE, DECIMAL, PRECISION, SCALE, TIMESTAMP, Field, Schema, Type, timestamp

MAX_PRECISION: Final = 38

_TYPES: Final[dict[Type, spark_types.DataType]] = {
    Type.INT8: spark_types.ByteType(),
    Type.INT16: spark_types.ShortType(),
    Type.INT32: spark_types.IntegerType(),
    Type.INT64: spark_types.LongType(),
    Type.FLOAT32: spark_types.FloatType(),
    Type.FLOAT64: spark_types.DoubleType(),
    Type.BOOLEAN: spark_types.BooleanType(),
    Type.STRING: spark_types.StringType(),
    Type.BYTES: spark_types.BinaryType(),
}
_LOGICAL: Final[dict[str, spark_types.DataType]] = {
    DATE: spark_types.DateType(),
    TIMESTAMP: spark_types.TimestampType(),
}

_PLAIN: Final[dict[type[spark_types.DataType], Schema]] = {
    **{type(spark): Schema(connect) for connect, spark in _TYPES.items()},
    spark_types.CharType: Schema(Type.STRING),
    spark_types.VarcharType: Schema(Type.STRING),
    spark_types.DateType: Schema(Type.INT32, name=DATE, version=1),
    spark_types.TimestampType: timestamp(),
    spark_types.TimestampNTZType: timestamp(),
}


class UnknownTypeError(ConnectError):
    """A column of a type that Connect has no word for; the message names it."""


def scale_of(schema: Schema) -> int:
    """Give the scale of a Decimal; ConnectError when its parameter is missing or no number that Spark can hold."""
    text = schema.parameter(SCALE)
    try:
        scale = int(text or "")
    except ValueError:
        raise ConnectError(f"the scale of a Decimal is {text!r}, want a whole number") from None
    if not 0 <= scale <= MAX_PRECISION:
        raise ConnectError(f"a Decimal has the scale {scale}; Spark's go from 0 to {MAX_PRECISION}")
    return scale


def data_type(schema: Schema) -> spark_types.DataType:
    """Give the type of a column with values of a schema."""
    logical = schema.logical
    if logical == DECIMAL:
        scale = scale_of(schema)
        precision = schema.parameter(PRECISION)
        digits = int(precision) if precision and precision.isdigit() else MAX_PRECISION
        return spark_types.DecimalType(min(max(digits, scale, 1), MAX_PRECISION), scale)
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    match schema.type:
        case Type.ARRAY:
            return spark_types.ArrayType(_inner(schema.value))
        case Type.MAP:
            return spark_types.MapType(_inner(schema.key), _inner(schema.value))
        case Type.STRUCT:
            return spark_types.StructType([spark_types.StructField(f.name, data_type(f.schema)) for f in schema.fields])
    return _TYPES[schema.type]


def ddl(schema: Schema | None) -> str:
    """Give the type as SQL has it, for casts; `variant` for None."""
    return "variant" if schema is None else type_ddl(data_type(schema))


def type_ddl(kind: spark_types.DataType) -> str:
    """Give a type as SQL has it, with every name quoted."""
    match kind:
        case spark_types.StructType():
            inner = ", ".join("`" + f.name.replace("`", "``") + "`: " + type_ddl(f.dataType) for f in kind.fields)
            return f"struct<{inner}>"
        case spark_types.ArrayType():
            return f"array<{type_ddl(kind.elementType)}>"
        case spark_types.MapType():
            return f"map<{type_ddl(kind.keyType)}, {type_ddl(kind.valueType)}>"
    return kind.simpleString()


def schema_of(kind: spark_types.DataType, optional: bool) -> Schema | None:
    """Give the schema that a type tells, None for a VARIANT; UnknownTypeError when there is none."""
    plain = _PLAIN.get(type(kind))
    if plain is not None:
        return replace(plain, optional=optional)
    match kind:
        case spark_types.VariantType():
            return None
        case spark_types.DecimalType():
            parameters = ((PRECISION, str(kind.precision)), (SCALE, str(kind.scale)))
            return Schema(Type.BYTES, optional, DECIMAL, 1, parameters=parameters)
        case spark_types.ArrayType():
            return Schema(Type.ARRAY, optional, value=_known(kind.elementType, kind.containsNull))
        case spark_types.MapType():
            value = _known(kind.valueType, kind.valueContainsNull)
            return Schema(Type.MAP, optional, key=_known(kind.keyType, optional=False), value=value)
        case spark_types.StructType():
            fields = tuple(Field(f.name, _known(f.dataType, f.nullable)) for f in kind.fields)
            return Schema(Type.STRUCT, optional, fields=fields)
    raise UnknownTypeError(f"Connect has no type for Spark's {kind.simpleString()}; cast the column")


def _known(kind: spark_types.DataType, optional: bool) -> Schema:
    schema = schema_of(kind, optional)
    if schema is None:
        raise UnknownTypeError("a VARIANT inside of a struct, an array or a map has no schema in Connect; cast it")
    return schema


def _inner(schema: Schema | None) -> spark_types.DataType:
    if schema is None:
        raise ConnectError("an array or map does not say what it holds")
    return data_type(schema)
