"""ByteArrayConverter: bytes as they are."""

from __future__ import annotations

from barnabas.connect.connector import ConnectError
from barnabas.connect.spark.data.records import Records
from barnabas.connect.spark.data.schema import OPTIONAL_BYTES, Schema, Type
from barnabas.connect.spark.data.sql import NULL, name

from .base import Converted, Converter


class ByteArrayConverter(Converter):
    """Leaves bytes alone, in both directions."""

    CLASS_NAME = "org.apache.kafka.connect.converters.ByteArrayConverter"

    def decoded(self, records: Records, column: str) -> Converted:
        """Give the column."""
        return Converted(name(column), OPTIONAL_BYTES)

    def encoded(self, schema: Schema | None, column: str) -> Converted:
        """Give the column if it holds bytes; ConnectError if its schema is another."""
        if schema is None:
            problem = f"CASE WHEN {name(column)} IS NOT NULL THEN 'data without a schema are not bytes' END"
            return Converted(f"cast({NULL} as binary)", OPTIONAL_BYTES, problem)
        if schema.type is not Type.BYTES or schema.logical is not None:
            raise ConnectError(f"ByteArrayConverter takes bytes, and the {column} is {schema.type.name}")
        return Converted(name(column), OPTIONAL_BYTES)
