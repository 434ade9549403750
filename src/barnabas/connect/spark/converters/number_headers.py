"""BooleanConverter and the converters of numbers for headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from barnabas.connect.spark.data.schema import Schema
from barnabas.connect.spark.data.spark_types import ddl
from barnabas.connect.spark.data.sql import literal

from .base import Role
from .header_base import HeaderConverter
from .header_values import kind_of
from .numbers import (
    BooleanConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    OfOneSize,
    ShortConverter,
)


class _OfOneSizeHeader(HeaderConverter):
    """Headers that are all of one primitive type."""

    OF: ClassVar[type[OfOneSize]]

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__(config)
        self._of = self.OF(config, Role.VALUE)

    def decoded(self, value: str) -> str:
        """Give the value."""
        return self._of.value_of(value)

    def unreadable(self, value: str) -> str | None:
        """Refuse other bytes than such a value's."""
        return self._of.problem_of(value)

    def encoded(self, schema: Schema | None, value: str) -> str:
        """Give the bytes; null for a value of another type."""
        if schema is None:
            read = f"try_variant_get({value}, '$', '{ddl(Schema(self.OF.TYPE))}')"
            return self._of.bytes_of(f"CASE WHEN {kind_of(value)} = '{self.OF.TYPE.name}' THEN {read} END")
        return self._of.bytes_of(value) if self._of.takes(schema) else "cast(NULL as binary)"

    def unwritable(self, schema: Schema | None, value: str) -> str | None:
        """Refuse values of another type."""
        refused = literal(f"{self._of.called} takes {self.OF.TYPE.name}, and a header is of another type")
        if schema is None:
            other = f"coalesce({kind_of(value)} <> '{self.OF.TYPE.name}', true)"
            return f"CASE WHEN {value} IS NOT NULL AND {other} THEN {refused} END"
        return None if self._of.takes(schema) else f"CASE WHEN {value} IS NOT NULL THEN {refused} END"


class BooleanHeaderConverter(_OfOneSizeHeader):
    """Headers of one byte, 0 or 1."""

    OF = BooleanConverter
    CLASS_NAME = OF.CLASS_NAME


class ShortHeaderConverter(_OfOneSizeHeader):
    """Headers of an INT16 each."""

    OF = ShortConverter
    CLASS_NAME = OF.CLASS_NAME


class IntegerHeaderConverter(_OfOneSizeHeader):
    """Headers of an INT32 each."""

    OF = IntegerConverter
    CLASS_NAME = OF.CLASS_NAME


class LongHeaderConverter(_OfOneSizeHeader):
    """Headers of an INT64 each."""

    OF = LongConverter
    CLASS_NAME = OF.CLASS_NAME


class FloatHeaderConverter(_OfOneSizeHeader):
    """Headers of a FLOAT32 each."""

    OF = FloatConverter
    CLASS_NAME = OF.CLASS_NAME


class DoubleHeaderConverter(_OfOneSizeHeader):
    """Headers of a FLOAT64 each."""

    OF = DoubleConverter
    CLASS_NAME = OF.CLASS_NAME


NUMBER_HEADERS: Final[tuple[type[HeaderConverter], ...]] = (
    BooleanHeaderConverter, ShortHeaderConverter, IntegerHeaderConverter, LongHeaderConverter, FloatHeaderConverter,
    DoubleHeaderConverter,
)  # fmt: skip
