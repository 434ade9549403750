"""JsonConverter: JSON with its schema beside it, JSON of a schema that is configured, and JSON without any."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql.functions import expr
from pyspark.sql.types import DataType

from barnabas.connect.spark.data.json_decoding import JsonDecoder
from barnabas.connect.spark.data.json_encoding import JsonEncoder
from barnabas.connect.spark.data.json_parsing import JsonParser
from barnabas.connect.spark.data.json_schema import BadSchemaError, from_json_schema
from barnabas.connect.spark.data.merging import IncompatibleSchemasError, merge
from barnabas.connect.spark.data.records import Records
from barnabas.connect.spark.data.schema import OPTIONAL_BYTES, Schema
from barnabas.connect.spark.data.spark_types import ddl, schema_of
from barnabas.connect.spark.data.sql import literal, name
from barnabas.connect.spark.failures import FAILURE
from barnabas.model.config import ConfigError, ConfigKey, ConfigTable, ConfigType, Importance, one_of

from .base import CONVERTER_TYPE, Converted, Converter, Role

_CONFIG: Final = ConfigTable(
    CONVERTER_TYPE,
    ConfigKey(
        "schemas.enable", ConfigType.BOOLEAN, True,
        "Whether each value is an envelope of its schema and itself.", Importance.HIGH,
    ),
    ConfigKey(
        "schemas.cache.size", ConfigType.INT, 1000, "", Importance.HIGH,
    ),
    ConfigKey(
        "schema.content", ConfigType.STRING, None,
        "With schemas.enable, for sinks: the schema of all values, as JSON; they are then no envelopes.",
        Importance.HIGH,
    ),
    ConfigKey(
        "schema.ddl", ConfigType.STRING, None,
        "Without schemas.enable, for sinks: the type of all values as Spark's DDL has it, such as "
        "`id BIGINT, name STRING`; without it they are a VARIANT. Barnabas's own.",
        Importance.MEDIUM,
    ),
    ConfigKey(
        "decimal.format", ConfigType.STRING, "BASE64",
        "How decimals are written: BASE64 or NUMERIC. Both are read.", Importance.LOW,
        one_of("BASE64", "NUMERIC", ignore_case=True),
    ),
    ConfigKey(
        "replace.null.with.default", ConfigType.BOOLEAN, True,
        "Whether a null becomes the default of its schema, where there is one.", Importance.LOW,
    ),
)  # fmt: skip
_TEXT: Final = "connect_text"
_PARSED: Final = "connect_parsed"
_SCHEMA: Final = "connect_schema"
_WHY: Final = "connect_why"
_TAKEN: Final = "connect_taken"
_MALFORMED: Final = "the value is no JSON"
_NO_ENVELOPE: Final = (
    'with schemas.enable a value is an object of "schema" and "payload" and nothing else; '
    "for plain JSON set schemas.enable=false"
)
_NO_SCHEMA: Final = "the value has no schema, and others of its batch have"
_Given = tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Agreed:
    """schema: of the column; refused: by the text of a schema, why values of it are not in the column.

    clean: every value of the batch has a schema, and none is refused.
    """

    schema: Schema | None
    refused: Mapping[str, str]
    clean: bool


class JsonConverter(Converter):
    """JSON. With `schemas.enable` a batch's own schemas decide its type, which takes a Spark job over the batch."""

    CLASS_NAME = "org.apache.kafka.connect.json.JsonConverter"
    CONFIG = _CONFIG

    def __init__(self, config: Mapping[str, str], role: Role) -> None:
        super().__init__(config, role)
        replace_null = self.config["replace.null.with.default"]
        self._decoder = JsonDecoder(replace_null_with_default=replace_null)
        numeric = str(self.config["decimal.format"]).upper() == "NUMERIC"
        self._encoder = JsonEncoder(numeric_decimals=numeric, replace_null_with_default=replace_null)
        self._configured = configured_schema(self.config)
        self._latest: Schema | None = None

    def decoded(self, records: Records, column: str) -> Converted:
        """Give the payloads; a record whose schema does not go with the others' of its batch fails."""
        text = f"CASE WHEN length({name(column)}) > 0 THEN make_valid_utf8(cast({name(column)} as string)) END"
        given: _Given = ({_TEXT: text},)
        if self.config["schemas.enable"]:
            # Without schemas.enable no bytes at all are a null, and with it they are no value. (To a JVM worker with
            # schema.content they are 0 where it wants a number.)
            empty = f"CASE WHEN length({name(column)}) = 0 THEN {literal(_MALFORMED)} END"
            if self._configured is None:
                return self._enveloped(records, given, empty)
            return self._typed(self._configured, None, given, [empty])
        schema = self._declared()
        if schema is not None:
            return self._typed(schema, None, given)
        return _untyped(f"try_parse_json({_TEXT})", [], given)

    def encoded(self, schema: Schema | None, column: str) -> Converted:
        """Give the JSON, which is an envelope with `schemas.enable`; a null column is a tombstone."""
        value = name(column)
        text = self._encoder.text(schema, value)
        problem = None if schema is None else self._encoder.problem(schema, value)
        if problem is not None:
            problem = f"CASE WHEN {value} IS NOT NULL THEN {problem} END"
            text = f"CASE WHEN {problem} IS NULL THEN {text} END"
        if self.config["schemas.enable"]:
            envelope = f'{{"schema":{self._encoder.schema_text(schema)},"payload":'
            text = f"concat({literal(envelope)}, {text}, '}}')"
        return Converted(f"CASE WHEN {value} IS NOT NULL THEN cast({text} as binary) END", OPTIONAL_BYTES, problem)

    def _declared(self) -> Schema | None:
        ddl_text = self.config["schema.ddl"]
        return schema_of(DataType.fromDDL(ddl_text), optional=True) if ddl_text else None

    def _typed(self, schema: Schema, field: str | None, given: _Given, problems: Sequence[str] = ()) -> Converted:
        replaces = self.config["replace.null.with.default"]
        parser = JsonParser(schema, self._decoder, replace_null_with_default=replaces)
        variant = f"try_parse_json({_TEXT})"
        malformed = f"CASE WHEN {parser.corrupt(_PARSED)} AND {variant} IS NULL THEN {literal(_MALFORMED)} END"
        payload = variant if field is None else f"variant_get({variant}, {literal('$.' + field)}, 'variant')"
        why = f"cast(coalesce({', '.join([*problems, malformed])}) as string)"
        refused = f"named_struct('v', cast(NULL as {ddl(schema)}), 'p', {_WHY})"
        well = f"{_TEXT} IS NOT NULL AND {_WHY} IS NULL"
        taken = f"CASE WHEN {well} THEN {parser.taken(_PARSED, field, payload)} ELSE {refused} END"
        given = (*given, {_PARSED: parser.parsed(_TEXT, field)}, {_WHY: why}, {_TAKEN: taken})
        return Converted(f"CASE WHEN {_TAKEN}.p IS NULL THEN {_TAKEN}.v END", schema, f"{_TAKEN}.p", given)

    def _enveloped(self, records: Records, given: _Given, empty: str) -> Converted:
        envelope = f"array_sort(json_object_keys({_TEXT})) = array('payload', 'schema')"
        schema = f"from_json({_TEXT}, 'struct<schema: string>').schema"
        checked = (*given, {_SCHEMA: f"CASE WHEN {envelope} THEN coalesce({schema}, 'null') END"})
        agreed = self._agree(records, checked)
        if agreed.clean and agreed.schema is not None:
            return self._typed(agreed.schema, "payload", given, [empty])
        problems = [empty, f"CASE WHEN {_TEXT} IS NOT NULL AND {_SCHEMA} IS NULL THEN {literal(_NO_ENVELOPE)} END"]
        if agreed.refused:
            refused = "".join(f" WHEN {literal(text)} THEN {literal(why)}" for text, why in agreed.refused.items())
            problems.append(f"CASE {_SCHEMA}{refused} END")
        payload = f"variant_get(try_parse_json({_TEXT}), '$.payload', 'variant')"
        if agreed.schema is None:
            return _untyped(payload, problems, checked)
        bare = f"{_SCHEMA} = 'null' AND NOT is_variant_null({payload})"
        problems.append(f"CASE WHEN {bare} THEN {literal(_NO_SCHEMA)} END")
        made = self._typed(agreed.schema, "payload", checked, problems)
        # A null without a schema is a null of any.
        loose = f"CASE WHEN {_SCHEMA} = 'null' AND {_WHY} IS NULL THEN NULL ELSE {{sql}} END"
        return replace(made, sql=loose.format(sql=made.sql), problem=loose.format(sql=made.problem))

    def _agree(self, records: Records, given: _Given) -> _Agreed:
        """Find the schemas of a batch, the commonest first, and what they come to together."""
        frame = records.frame.where(expr(f"{name(FAILURE)} IS NULL"))
        for columns in given:
            frame = frame.withColumns({made: expr(sql) for made, sql in columns.items()})
        counted = frame.where(expr(f"{_TEXT} IS NOT NULL")).groupBy(_SCHEMA).count().collect()
        found = sorted(counted, key=lambda row: (-row["count"], row[_SCHEMA] or ""))
        if not found:
            return _Agreed(self._latest, {}, clean=True)
        agreed: Schema | None = None
        refused: dict[str, str] = {}
        clean = True
        for text in (row[_SCHEMA] for row in found):
            if text is None or text == "null":
                clean = False
                continue
            try:
                schema = from_json_schema(json.loads(text))
                agreed = schema if agreed is None else merge(agreed, schema)
            except BadSchemaError as error:
                refused[text] = str(error)
            except IncompatibleSchemasError as error:
                refused[text] = f"the schema of the value does not go with the others of its batch: {error}"
        self._latest = agreed or self._latest
        return _Agreed(agreed, refused, clean and not refused)


def _untyped(variant: str, problems: Sequence[str], given: _Given) -> Converted:
    malformed = f"CASE WHEN {_TEXT} IS NOT NULL AND {_PARSED} IS NULL THEN {literal(_MALFORMED)} END"
    plain = f"CASE WHEN NOT is_variant_null({_PARSED}) THEN {_PARSED} END"
    return Converted(plain, None, f"coalesce({', '.join([*problems, malformed])})", (*given, {_PARSED: variant}))


def configured_schema(config: Mapping[str, Any]) -> Schema | None:
    """Give the schema of `schema.content`, None where there is none; ConfigError when it is no schema."""
    content = config["schema.content"]
    if not content:
        return None
    try:
        given = json.loads(content)
        return None if given is None else from_json_schema(given)
    except (ValueError, BadSchemaError) as error:
        raise ConfigError(f"schema.content: {error}") from error
