"""What a header converter is: bytes of headers into typed values for sinks, and back for sources.

A frame's headers are one column of one type, whatever their keys. So values that differ from header to header are
VARIANTs, and a failure of any header is one of its record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr
from pyspark.sql.types import ArrayType, StructType

from barnabas.connect.connector import ConnectError
from barnabas.connect.spark.data.schema import Schema
from barnabas.connect.spark.data.spark_types import schema_of
from barnabas.connect.spark.data.sql import name, variable
from barnabas.connect.spark.failures import FAILURE, Step, failure, with_failures
from barnabas.model.config import ConfigTable

from .base import CONVERTER_TYPE

HEADERS: Final = "headers"
_STAGE: Final = "HEADER_CONVERTER"


class HeaderConverter(ABC):
    """Converts the column of headers. Nothing raises for a record: its headers are null and it has a failure.

    config: as text, without the prefix `header.converter.`; ConfigError names what is wrong.
    """

    CLASS_NAME: ClassVar[str]
    """Of the JVM's class that does the same."""
    CONFIG: ClassVar[ConfigTable] = ConfigTable(CONVERTER_TYPE)

    def __init__(self, config: Mapping[str, str]) -> None:
        self.config: Mapping[str, Any] = self.CONFIG.parse(config).values

    def to_connect(self, frame: DataFrame) -> DataFrame:
        """Give the frame with typed headers; one that has none stays as it is."""
        return self._each(frame, self.decoded("h.value"), self.unreadable("h.value"))

    def from_connect(self, frame: DataFrame) -> DataFrame:
        """Give the frame with headers as bytes; ConnectError for a type that this converter never takes."""
        if HEADERS not in frame.columns:
            return frame
        schema = _values(frame)
        return self._each(frame, self.encoded(schema, "h.value"), self.unwritable(schema, "h.value"))

    @abstractmethod
    def decoded(self, value: str) -> str:
        """Give the SQL of a typed value, from that of its bytes."""

    @abstractmethod
    def encoded(self, schema: Schema | None, value: str) -> str:
        """Give the SQL of the bytes of a value with a schema, or of a VARIANT."""

    def unreadable(self, value: str) -> str | None:
        """Give the SQL of why bytes cannot be read, null where they can; None if all can."""
        return None

    def unwritable(self, schema: Schema | None, value: str) -> str | None:
        """Give the SQL of why a value cannot be written, null where it can; None if all can."""
        return None

    def _each(self, frame: DataFrame, made: str, problem: str | None) -> DataFrame:
        if HEADERS not in frame.columns:
            return frame
        pairs = f"transform({name(HEADERS)}, h -> named_struct('key', h.key, 'value', {made}))"
        if problem is None:
            return frame.withColumn(HEADERS, expr(pairs))
        found = variable()
        why = f"get(filter(transform({name(HEADERS)}, h -> {problem}), {found} -> {found} IS NOT NULL), 0)"
        columns = {
            HEADERS: expr(f"CASE WHEN {why} IS NULL THEN {pairs} END"),
            FAILURE: expr(failure(Step(_STAGE, self.CLASS_NAME), why)),
        }
        return with_failures(frame).withColumns(columns)


def _values(frame: DataFrame) -> Schema | None:
    """Give the schema of a frame's header values, None for VARIANTs."""
    kind = frame.schema[HEADERS].dataType
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
        fields = {field.name: field.dataType for field in kind.elementType}
        if {"key", "value"} <= fields.keys():
            return schema_of(fields["value"], optional=True)
    raise ConnectError(f"the column headers is {kind.simpleString()}, want an array of structs of key and value")
