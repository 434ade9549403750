"""JsonConverter for headers: JSON with its schema beside it, JSON of a configured schema, and JSON without any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.connect.spark.data.json_decoding import JsonDecoder
from barnabas.connect.spark.data.json_encoding import JsonEncoder
from barnabas.connect.spark.data.schema import Schema, Type
from barnabas.connect.spark.data.sql import let, literal
from barnabas.model.config import ConfigTable

from .header_base import HeaderConverter
from .header_values import kind_of
from .json import JsonConverter, configured_schema

_MALFORMED: Final = "'the header is no JSON'"
_NO_ENVELOPE: Final = """'with schemas.enable a header is an object of "schema" and "payload" and nothing else'"""
_PLAIN: Final = (
    Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN, Type.STRING,
)  # fmt: skip


class JsonHeaderConverter(HeaderConverter):
    """Headers that are JSON, or, with `schemas.enable`, envelopes of a schema and JSON. They become VARIANTs.

    An envelope's payload is taken as it stands; with `schema.content` headers are no envelopes and become values of
    that schema. A VARIANT is written with a schema of its own if it is a plain value.
    """

    CLASS_NAME = JsonConverter.CLASS_NAME
    CONFIG = ConfigTable(*(key for key in JsonConverter.CONFIG if key.name != "schema.ddl"))

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__(config)
        replace_null = self.config["replace.null.with.default"]
        numeric = str(self.config["decimal.format"]).upper() == "NUMERIC"
        self._encoder = JsonEncoder(numeric_decimals=numeric, replace_null_with_default=replace_null)
        self._decoder = JsonDecoder(replace_null_with_default=replace_null)
        self._enveloped = bool(self.config["schemas.enable"])
        configured = configured_schema(self.config)
        self._configured = configured if self._enveloped else None

    def decoded(self, value: str) -> str:
        """Give a value of the configured schema, a VARIANT where there is none."""
        if self._configured is not None:
            taken = self._decoder.take(self._configured, _parsed(value))
            return f"CASE WHEN {value} IS NOT NULL THEN {taken.value(taken.sql)} END"
        parsed = _parsed(value)
        if self._enveloped:
            parsed = f"try_variant_get({parsed}, '$.payload', 'variant')"
        return let(parsed, lambda made: f"CASE WHEN NOT is_variant_null({made}) THEN {made} END")

    def unreadable(self, value: str) -> str | None:
        """Refuse what is no JSON, no envelope, or not of the configured schema."""
        if self._configured is not None:
            parsed = _parsed(value)
            taken = self._decoder.take(self._configured, parsed)
            misfit = f"{taken.sql}.p" if taken.fallible else "NULL"
            return f"CASE WHEN {value} IS NULL THEN NULL WHEN {parsed} IS NULL THEN {_MALFORMED} ELSE {misfit} END"
        if self._enveloped:
            envelope = f"coalesce(array_sort(json_object_keys({_text(value)})) = array('payload', 'schema'), false)"
            return f"CASE WHEN {value} IS NULL OR {envelope} THEN NULL ELSE {_NO_ENVELOPE} END"
        return f"CASE WHEN length({value}) > 0 AND {_parsed(value)} IS NULL THEN {_MALFORMED} END"

    def encoded(self, schema: Schema | None, value: str) -> str:
        """Give the JSON."""
        text = self._encoder.text(schema, value)
        if self._enveloped:
            own = self._own_schema(value) if schema is None else literal(self._encoder.schema_text(schema))
            text = f"concat('{{\"schema\":', {own}, ',\"payload\":', {text}, '}}')"
        return f"CASE WHEN {value} IS NOT NULL THEN cast({text} as binary) END"

    def unwritable(self, schema: Schema | None, value: str) -> str | None:
        """Refuse what lacks a field that it must have."""
        problem = None if schema is None else self._encoder.problem(schema, value)
        return None if problem is None else f"CASE WHEN {value} IS NOT NULL THEN {problem} END"

    def _own_schema(self, value: str) -> str:
        """Give the SQL of the schema that a VARIANT tells, as JSON."""
        texts = (f"WHEN '{plain.name}' THEN {literal(self._encoder.schema_text(Schema(plain)))}" for plain in _PLAIN)
        return f"CASE {kind_of(value)} {' '.join(texts)} ELSE 'null' END"


def _text(value: str) -> str:
    return f"make_valid_utf8(cast({value} as string))"


def _parsed(value: str) -> str:
    return f"try_parse_json({_text(value)})"
