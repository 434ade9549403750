"""StringConverter: text in an encoding, and the text of anything."""

from __future__ import annotations

from typing import Final

from barnabas.connect.spark.data.records import Records
from barnabas.connect.spark.data.schema import OPTIONAL_BYTES, OPTIONAL_STRING, Schema
from barnabas.connect.spark.data.sql import literal, name
from barnabas.connect.spark.data.texts import java_text
from barnabas.model.config import ConfigKey, ConfigTable, ConfigType, Importance

from .base import CONVERTER_TYPE, Converted, Converter

ENCODINGS: Final = {
    "UTF-8": "UTF-8",
    "UTF8": "UTF-8",
    "US-ASCII": "US-ASCII",
    "ASCII": "US-ASCII",
    "ISO-8859-1": "ISO-8859-1",
    "ISO8859_1": "ISO-8859-1",
    "LATIN1": "ISO-8859-1",
    "UTF-16": "UTF-16",
    "UTF-16BE": "UTF-16BE",
    "UTF-16LE": "UTF-16LE",
    "UTF-32": "UTF-32",
}
"""What Spark's `encode` and `decode` know, by the names that Java has for it."""


def _known(encoding: str) -> str | None:
    return None if encoding.upper() in ENCODINGS else f"want one of {', '.join(sorted(set(ENCODINGS.values())))}"


class StringConverter(Converter):
    """Bytes that are text. Bytes that are none become U+FFFD in UTF-8, as in Java, and fail in other encodings."""

    CLASS_NAME = "org.apache.kafka.connect.storage.StringConverter"
    CONFIG = ConfigTable(
        CONVERTER_TYPE,
        ConfigKey(
            "converter.encoding", ConfigType.STRING, "UTF-8", "The encoding of the text.", Importance.HIGH, _known
        ),
    )

    def decoded(self, records: Records, column: str) -> Converted:
        """Give the text."""
        encoding = self._encoding
        column = name(column)
        if encoding == "UTF-8":
            return Converted(f"make_valid_utf8(cast({column} as string))", OPTIONAL_STRING)
        return Converted(f"decode({column}, {literal(encoding)})", OPTIONAL_STRING)

    def encoded(self, schema: Schema | None, column: str) -> Converted:
        """Give the bytes of a value's text, which is what Java's `toString` says of it."""
        text = java_text(schema, name(column))
        if self._encoding == "UTF-8":
            return Converted(f"cast({text} as binary)", OPTIONAL_BYTES)
        return Converted(f"encode({text}, {literal(self._encoding)})", OPTIONAL_BYTES)

    @property
    def _encoding(self) -> str:
        return ENCODINGS[str(self.config["converter.encoding"]).upper()]
