"""Header converters, and the one that a connector's or a worker's properties ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.connect.connector import ConnectError
from barnabas.connect.spark.data.schema import Schema, Type
from barnabas.connect.spark.data.sql import NULL, let, literal
from barnabas.connect.spark.data.texts import java_text, variant_text
from barnabas.connect.spark.transforms.casting import cast
from barnabas.model.config import ConfigError, ConfigTable

from .byte_array import ByteArrayConverter
from .header_base import HeaderConverter
from .header_values import guessed
from .json_headers import JsonHeaderConverter
from .number_headers import NUMBER_HEADERS
from .string import ENCODINGS, StringConverter

_SETTING: Final = "header.converter"
_NOT_BYTES: Final = "'data without a schema are not bytes'"


class SimpleHeaderConverter(HeaderConverter):
    """Headers whose bytes are texts, and whose texts tell what they are: numbers, true and false, lists and objects.

    What is bytes already is written as it is.
    """

    CLASS_NAME = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    CONFIG = ConfigTable()

    def decoded(self, value: str) -> str:
        """Give a VARIANT."""
        return let(f"make_valid_utf8(cast({value} as string))", guessed)

    def encoded(self, schema: Schema | None, value: str) -> str:
        """Give the bytes of a value's text."""
        if schema is None:
            return f"cast({variant_text(value)} as binary)"
        if _plain_bytes(schema):
            return value
        if schema.type.primitive:
            return f"cast({cast(schema, Type.STRING, value)} as binary)"
        return f"cast(to_json({value}) as binary)"


class StringHeaderConverter(HeaderConverter):
    """Headers that are texts."""

    CLASS_NAME = StringConverter.CLASS_NAME
    CONFIG = StringConverter.CONFIG

    def decoded(self, value: str) -> str:
        """Give the text."""
        if self._encoding == "UTF-8":
            return f"make_valid_utf8(cast({value} as string))"
        return f"decode({value}, {literal(self._encoding)})"

    def encoded(self, schema: Schema | None, value: str) -> str:
        """Give the bytes of a value's text, which is what Java's `toString` says of it."""
        text = java_text(schema, value)
        return f"cast({text} as binary)" if self._encoding == "UTF-8" else f"encode({text}, {literal(self._encoding)})"

    @property
    def _encoding(self) -> str:
        return ENCODINGS[str(self.config["converter.encoding"]).upper()]


class ByteArrayHeaderConverter(HeaderConverter):
    """Leaves headers alone, in both directions."""

    CLASS_NAME = ByteArrayConverter.CLASS_NAME

    def decoded(self, value: str) -> str:
        """Give the bytes."""
        return value

    def encoded(self, schema: Schema | None, value: str) -> str:
        """Give the value if it is bytes; ConnectError if its schema is another."""
        if schema is None:
            return f"cast({NULL} as binary)"
        if not _plain_bytes(schema):
            raise ConnectError(f"ByteArrayConverter takes bytes, and the headers are {schema.type.name}")
        return value

    def unwritable(self, schema: Schema | None, value: str) -> str | None:
        """Refuse data without a schema."""
        return f"CASE WHEN {value} IS NOT NULL THEN {_NOT_BYTES} END" if schema is None else None


HEADER_CONVERTERS: Final[tuple[type[HeaderConverter], ...]] = (
    SimpleHeaderConverter, StringHeaderConverter, ByteArrayHeaderConverter, JsonHeaderConverter,
    *NUMBER_HEADERS,
)  # fmt: skip
"""All that there are."""


def header_converters() -> tuple[type[HeaderConverter], ...]:
    """Give all that there are."""
    return HEADER_CONVERTERS


def make_header_converter(properties: Mapping[str, str], worker: Mapping[str, str] | None = None) -> HeaderConverter:
    """Give the header converter of a connector's properties, else the worker's, else SimpleHeaderConverter.

    As in Kafka: a connector that names its own takes nothing from the worker's settings of another.
    """
    source = properties if _SETTING in properties else (worker or {})
    named = source.get(_SETTING, SimpleHeaderConverter.CLASS_NAME).strip()
    own = {key[len(_SETTING) + 1 :]: text for key, text in source.items() if key.startswith(_SETTING + ".")}
    for one in HEADER_CONVERTERS:
        last = one.CLASS_NAME.rpartition(".")[2]
        if named in (one.CLASS_NAME, last, last.removesuffix("HeaderConverter")):
            try:
                return one(own)
            except ConfigError as error:
                raise ConfigError(f"{_SETTING}: {error}") from error
    known = ", ".join(one.CLASS_NAME for one in HEADER_CONVERTERS)
    raise ConfigError(f"{_SETTING}: there is no header converter {named!r}; there are {known}")


def _plain_bytes(schema: Schema) -> bool:
    return schema.type is Type.BYTES and schema.logical is None
