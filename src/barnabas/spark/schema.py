"""The columns of a read and those that a write takes: Spark's own Kafka source's and sink's."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barnabas.spark.offsets import OptionError

HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

_READ: Final = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
)
_TEXT_OR_BYTES: Final = (StringType, BinaryType)


def read_schema(*, headers: bool) -> StructType:
    """Give the columns of a read, `headers` last when they are asked for."""
    return StructType([*_READ, StructField("headers", HEADERS)] if headers else list(_READ))


def check_write_schema(schema: StructType, topic: str | None) -> None:
    """Check the columns of a write as Spark's sink does; OptionError names the column and what it may be.

    topic: the `topic` option, which stands in for a `topic` column.
    """
    columns = {field.name: field.dataType for field in schema.fields}
    if "value" not in columns:
        raise OptionError(f"a write needs a column `value`; there are {', '.join(columns) or 'none'}")
    if topic is None and "topic" not in columns:
        raise OptionError("say where rows go: give the option `topic`, or a column `topic`")
    _check(columns, "key", _TEXT_OR_BYTES, "string or binary")
    _check(columns, "value", _TEXT_OR_BYTES, "string or binary")
    _check(columns, "topic", (StringType,), "string")
    _check(columns, "partition", (IntegerType,), "int")
    if "headers" in columns and columns["headers"].simpleString() != HEADERS.simpleString():
        raise OptionError(f"the column `headers` is {columns['headers'].simpleString()}, want {HEADERS.simpleString()}")


def _check(columns: dict[str, DataType], name: str, allowed: tuple[type[DataType], ...], want: str) -> None:
    if name in columns and not isinstance(columns[name], allowed):
        raise OptionError(f"the column `{name}` is {columns[name].simpleString()}, want {want}")
