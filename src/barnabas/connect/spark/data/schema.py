"""Schemas as Connect's: what a value is, whether it may be null, and what it is called."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final


class Type(StrEnum):
    """What a value is; the texts are those of a JSON schema."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"

    @property
    def primitive(self) -> bool:
        """Say whether a value of it holds no other values."""
        return self not in (Type.ARRAY, Type.MAP, Type.STRUCT)


INTEGERS: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64)
FLOATS: Final = (Type.FLOAT32, Type.FLOAT64)

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
DATE: Final = "org.apache.kafka.connect.data.Date"
TIME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"
SCALE: Final = "scale"
PRECISION: Final = "connect.decimal.precision"


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema. default: as JSON text in the form that a payload has, decimals in base64; None when there is none.

    key, value: of a map; an array has `value` alone. fields: of a struct.
    """

    type: Type
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    default: str | None = None
    fields: tuple[Field, ...] = ()
    key: Schema | None = None
    value: Schema | None = None

    @property
    def logical(self) -> str | None:
        """Give the name of the logical type, one of Connect's four, or None."""
        return self.name if self.name in _LOGICAL and _LOGICAL[self.name] is self.type else None

    def field(self, name: str) -> Schema | None:
        """Give the schema of a field, or None."""
        return next((f.schema for f in self.fields if f.name == name), None)

    def parameter(self, name: str) -> str | None:
        """Give a parameter, or None."""
        return next((text for key, text in self.parameters if key == name), None)

    def as_optional(self, optional: bool = True) -> Schema:
        """Give the same schema for values that may be null."""
        return self if self.optional == optional else replace(self, optional=optional)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    schema: Schema


_LOGICAL: Final = {DECIMAL: Type.BYTES, DATE: Type.INT32, TIME: Type.INT32, TIMESTAMP: Type.INT64}

OPTIONAL_STRING: Final = Schema(Type.STRING, optional=True)
OPTIONAL_BYTES: Final = Schema(Type.BYTES, optional=True)


def primitive(kind: Type, optional: bool = False) -> Schema:
    """Give the plain schema of a type."""
    return Schema(kind, optional)


def struct(*fields: tuple[str, Schema], name: str | None = None, optional: bool = False) -> Schema:
    """Give the schema of a struct with these fields."""
    return Schema(Type.STRUCT, optional, name, fields=tuple(Field(n, s) for n, s in fields))


def timestamp(optional: bool = False) -> Schema:
    """Give the schema of a point in time."""
    return Schema(Type.INT64, optional, TIMESTAMP, 1)
