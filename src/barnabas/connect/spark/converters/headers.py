"""Header converters: bytes of headers into typed values for sinks, and back for sources.

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
from barnabas.connect.spark.data.json_encoding import JsonEncoder
from barnabas.connect.spark.data.schema import Schema, Type
from barnabas.connect.spark.data.spark_types import schema_of
from barnabas.connect.spark.data.sql import NULL, let, literal, name, variable
from barnabas.connect.spark.data.texts import java_text, variant_text
from barnabas.connect.spark.failures import FAILURE, Step, failure, with_failures
from barnabas.connect.spark.transforms.casting import cast
from barnabas.model.config import ConfigError, ConfigTable

from .base import CONVERTER_TYPE
from .byte_array import ByteArrayConverter
from .json import JsonConverter
from .string import ENCODINGS, StringConverter

HEADERS: Final = "headers"
_SETTING: Final = "header.converter"
_STAGE: Final = "HEADER_CONVERTER"
_NOT_BYTES: Final = "'data without a schema are not bytes'"
_MALFORMED: Final = "'the header is no JSON'"
_NO_ENVELOPE: Final = """'with schemas.enable a header is an object of "schema" and "payload" and nothing else'"""
_WHOLE: Final = "'^[+-]?[0-9]+$'"
_REAL: Final = r"'^[+-]?([0-9]+\\.[0-9]*|\\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]+)?$'"


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


class SimpleHeaderConverter(HeaderConverter):
    """Headers whose bytes are texts, and whose texts tell what they are: numbers, true and false, lists and objects.

    What is bytes already is written as it is.
    """

    CLASS_NAME = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    CONFIG = ConfigTable()

    def decoded(self, value: str) -> str:
        """Give a VARIANT."""
        return let(f"make_valid_utf8(cast({value} as string))", _guessed)

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


class JsonHeaderConverter(HeaderConverter):
    """Headers that are JSON, or, with `schemas.enable`, envelopes of a schema and JSON. They become VARIANTs.

    An envelope's payload is taken as it stands. A VARIANT is written with a schema of its own if it is a plain value.
    """

    CLASS_NAME = JsonConverter.CLASS_NAME
    CONFIG = ConfigTable(
        *(key for key in JsonConverter.CONFIG if key.name not in ("schema.content", "schema.ddl")),
    )

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__(config)
        self._encoder = JsonEncoder(
            numeric_decimals=str(self.config["decimal.format"]).upper() == "NUMERIC",
            replace_null_with_default=self.config["replace.null.with.default"],
        )
        self._enveloped = bool(self.config["schemas.enable"])

    def decoded(self, value: str) -> str:
        """Give a VARIANT."""
        parsed = f"try_parse_json(make_valid_utf8(cast({value} as string)))"
        if self._enveloped:
            parsed = f"try_variant_get({parsed}, '$.payload', 'variant')"
        return let(parsed, lambda made: f"CASE WHEN NOT is_variant_null({made}) THEN {made} END")

    def unreadable(self, value: str) -> str | None:
        """Refuse what is no JSON, or no envelope."""
        text = f"make_valid_utf8(cast({value} as string))"
        if self._enveloped:
            envelope = f"coalesce(array_sort(json_object_keys({text})) = array('payload', 'schema'), false)"
            return f"CASE WHEN {value} IS NULL OR {envelope} THEN NULL ELSE {_NO_ENVELOPE} END"
        return f"CASE WHEN length({value}) > 0 AND try_parse_json({text}) IS NULL THEN {_MALFORMED} END"

    def encoded(self, schema: Schema | None, value: str) -> str:
        """Give the JSON."""
        text = self._encoder.text(schema, value)
        if self._enveloped:
            own = _schema_texts(self._encoder, value) if schema is None else literal(self._encoder.schema_text(schema))
            text = f"concat('{{\"schema\":', {own}, ',\"payload\":', {text}, '}}')"
        return f"CASE WHEN {value} IS NOT NULL THEN cast({text} as binary) END"

    def unwritable(self, schema: Schema | None, value: str) -> str | None:
        """Refuse what lacks a field that it must have."""
        problem = None if schema is None else self._encoder.problem(schema, value)
        return None if problem is None else f"CASE WHEN {value} IS NOT NULL THEN {problem} END"


HEADER_CONVERTERS: Final[tuple[type[HeaderConverter], ...]] = (
    SimpleHeaderConverter, StringHeaderConverter, ByteArrayHeaderConverter, JsonHeaderConverter,
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


def _values(frame: DataFrame) -> Schema | None:
    """Give the schema of a frame's header values, None for VARIANTs."""
    kind = frame.schema[HEADERS].dataType
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
        fields = {field.name: field.dataType for field in kind.elementType}
        if {"key", "value"} <= fields.keys():
            return schema_of(fields["value"], optional=True)
    raise ConnectError(f"the column headers is {kind.simpleString()}, want an array of structs of key and value")


def _plain_bytes(schema: Schema) -> bool:
    return schema.type is Type.BYTES and schema.logical is None


def _schema_texts(encoder: JsonEncoder, value: str) -> str:
    """Give the SQL of the schema that a VARIANT tells, as JSON: of the narrowest type that holds its value."""
    kind = f"schema_of_variant({value})"
    whole = f"try_variant_get({value}, '$', 'bigint')"

    def text(type_: Type) -> str:
        return literal(encoder.schema_text(Schema(type_)))

    return (
        f"CASE WHEN {kind} = 'BIGINT' AND {whole} BETWEEN -128 AND 127 THEN {text(Type.INT8)} "
        f"WHEN {kind} = 'BIGINT' AND {whole} BETWEEN -32768 AND 32767 THEN {text(Type.INT16)} "
        f"WHEN {kind} = 'BIGINT' AND {whole} BETWEEN -2147483648 AND 2147483647 THEN {text(Type.INT32)} "
        f"WHEN {kind} = 'BIGINT' THEN {text(Type.INT64)} "
        f"WHEN {kind} RLIKE '^(DECIMAL|DOUBLE|FLOAT)' THEN {text(Type.FLOAT64)} "
        f"WHEN {kind} = 'BOOLEAN' THEN {text(Type.BOOLEAN)} "
        f"WHEN {kind} = 'STRING' THEN {text(Type.STRING)} ELSE 'null' END"
    )


def _guessed(text: str) -> str:
    whole = f"try_cast({text} as bigint)"
    return (
        f"CASE WHEN {text} IS NULL OR {text} = 'null' THEN NULL "
        f"WHEN {text} RLIKE {_WHOLE} AND {whole} IS NOT NULL THEN cast({whole} as variant) "
        f"WHEN {text} RLIKE {_REAL} THEN cast(try_cast({text} as double) as variant) "
        f"WHEN {text} IN ('true', 'false') THEN cast({text} = 'true' as variant) "
        f"WHEN {text} RLIKE '^[\\\\[{{]' THEN coalesce(try_parse_json({text}), cast({text} as variant)) "
        f"ELSE cast({text} as variant) END"
    )
