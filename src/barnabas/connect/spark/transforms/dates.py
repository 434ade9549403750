"""SimpleDateFormat's patterns, as far as Spark writes and reads them alike; and TimestampConverter, which has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from barnabas.connect.spark.data.records import Records
from barnabas.connect.spark.data.schema import DATE, TIME, TIMESTAMP, Field, Schema, Type, timestamp
from barnabas.connect.spark.data.sql import first, let, literal, name, variable
from barnabas.model.config import REQUIRED, ConfigError, ConfigTable, ConfigType, Importance, one_of

from .base import REPLACE_NULL, Change, Transformation, setting
from .fields import as_map, basics, changed_map, field_value, made_struct, not_a_map, not_a_struct, of_map, put

_LETTERS: Final = "GyMdHhkKmsSEaDzZX"
_DAY_MS: Final = 86_400_000
_LAST_MS: Final = 9_223_372_036_854_775
_PURPOSE: Final = "converting timestamp formats"
_PER_MS: Final = {"nanoseconds": 1_000_000, "microseconds": 1000, "milliseconds": 1}
_TARGETS: Final = {
    "string": Schema(Type.STRING),
    "unix": Schema(Type.INT64),
    "Date": Schema(Type.INT32, name=DATE, version=1),
    "Time": Schema(Type.INT32, name=TIME, version=1),
    "Timestamp": timestamp(),
}


def java_pattern(pattern: str) -> str | None:
    """Allow the patterns that mean the same to SimpleDateFormat and to Spark."""
    bare = re.sub(r"'[^']*'", "", pattern)
    if "'" in bare:
        return "want a SimpleDateFormat pattern; a quote is never closed"
    wrong = sorted({c for c in bare if c.isalpha() and c.isascii() and c not in _LETTERS})
    if wrong:
        return f"want a SimpleDateFormat pattern of {_LETTERS}, which mean the same to Spark; not {wrong[0]!r}"
    return (
        "want S three times, for milliseconds"
        if re.search(r"S+", bare) and "SSS" not in re.findall(r"S+", bare)
        else None
    )


class TimestampConverter(Transformation):
    """Turns times into another type: texts, Unix times, and Connect's Date, Time and Timestamp."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.TimestampConverter"
    CONFIG = ConfigTable(
        setting("field", ConfigType.STRING, "", "The field with the time; empty: the whole is one."),
        setting("target.type", ConfigType.STRING, REQUIRED, "What to give: string, unix, Date, Time or Timestamp.",
                one_of(*_TARGETS)),
        setting("format", ConfigType.STRING, "", "How texts look, as SimpleDateFormat has it.", java_pattern,
                Importance.MEDIUM),
        setting("unix.precision", ConfigType.STRING, "milliseconds", "What a Unix time counts.",
                one_of("nanoseconds", "microseconds", "milliseconds", "seconds"), Importance.LOW),
        REPLACE_NULL,
    )  # fmt: skip

    def __init__(self, config: Mapping[str, str], part: str) -> None:
        super().__init__(config, part)
        self._target = _TARGETS[self.config["target.type"]]
        if self.config["target.type"] == "string" and not self.config["format"]:
            raise ConfigError("format: TimestampConverter requires it to be set for string timestamps")

    def change(self, records: Records) -> Change:
        """Give the part with the time as the other type; a null stays one."""
        schema = records.schemas[self.part]
        column, field = name(self.part), self.config["field"]
        if schema is None:
            return self._untyped(column, field)
        if not field:
            sql, problem = self._converted(schema, column)
            return Change({self.part: (sql, self._target.as_optional(schema.optional))}, problem=problem)
        why = not_a_struct(schema, column, _PURPOSE, null_allowed=True)
        if schema.type is not Type.STRUCT:
            return Change(problem=why)
        fields, values = [], []
        for one in schema.fields:
            sql = field_value(schema, column, one.name, replace_null=self.replaces_null)
            if one.name == field:
                sql, why = self._converted(one.schema, sql)
                one = Field(field, self._target.as_optional(one.schema.optional))
            fields.append(one)
            values.append((one.name, sql))
        made = replace(basics(schema, fields), optional=schema.optional)
        return Change({self.part: (made_struct(column, values, made), made)}, problem=why)

    def _converted(self, schema: Schema, sql: str) -> tuple[str, str]:
        """Give SQL of the converted value, and of why it cannot be."""
        ms = self._milliseconds(schema, sql)
        if ms is None:
            refused = literal(f"{schema.name or schema.type.name} does not correspond to a known timestamp type format")
            return self._given("cast(NULL as bigint)"), f"CASE WHEN {name(self.part)} IS NOT NULL THEN {refused} END"
        made = let(ms, self._given)
        refused = f"concat('Could not parse timestamp: value (', cast({sql} as string), ')')"
        return made, f"CASE WHEN {sql} IS NOT NULL AND {made} IS NULL THEN {refused} END"

    def _milliseconds(self, schema: Schema, sql: str) -> str | None:
        if schema.logical == TIMESTAMP:
            return f"unix_millis(cast({sql} as timestamp))"
        if schema.logical == DATE:
            return f"cast(unix_date({sql}) as bigint) * {_DAY_MS}"
        if schema.logical == TIME:
            return f"cast({sql} as bigint)"
        if schema.type is Type.STRING:
            if not self.config["format"]:
                return "cast(NULL as bigint)"
            return f"unix_millis(try_to_timestamp({sql}, {literal(self.config['format'])}))"
        if schema.type is not Type.INT64:
            return None
        unit = self.config["unix.precision"]
        return f"try_multiply({sql}, 1000L)" if unit == "seconds" else f"({sql} div {_PER_MS[unit]}L)"

    def _given(self, ms: str) -> str:
        """Give SQL of the target's value of milliseconds; null for null and beyond what Spark's times reach."""
        target = self.config["target.type"]
        instant = f"CASE WHEN {ms} BETWEEN -{_LAST_MS} AND {_LAST_MS} THEN timestamp_millis({ms}) END"
        if target == "string":
            return f"date_format({instant}, {literal(self.config['format'])})"
        if target == "unix":
            unit = self.config["unix.precision"]
            return f"({ms} div 1000L)" if unit == "seconds" else f"try_multiply({ms}, {_PER_MS[unit]}L)"
        if target == "Date":
            return f"date_from_unix_date(try_cast(({ms} - pmod({ms}, {_DAY_MS}L)) div {_DAY_MS}L as int))"
        return f"cast(pmod({ms}, {_DAY_MS}L) as int)" if target == "Time" else instant

    def _untyped(self, column: str, field: str) -> Change:
        if not field:
            sql = let(column, self._variant)
            lost = f"CASE WHEN {column} IS NOT NULL AND {sql} IS NULL THEN 'the value is no readable timestamp' END"
            return Change({self.part: (sql, None)}, problem=lost)
        held = variable()
        sql = changed_map(column, put(held, {field: let(of_map(held, field), self._variant)}), held)
        value = of_map(as_map(column), field)
        lost = let(value, lambda v: f"({v} IS NOT NULL AND {self._variant(v)} IS NULL)")
        unread = f"CASE WHEN {lost} THEN {literal(f'{field} is no timestamp that could be read')} END"
        return Change({self.part: (sql, None)}, problem=first([not_a_map(column, _PURPOSE, null_allowed=True), unread]))

    def _variant(self, value: str) -> str:
        kind = f"schema_of_variant({value})"
        whens = []
        for test, schema, spark in (
            ("= 'BIGINT'", Schema(Type.INT64), "bigint"),
            ("= 'STRING'", Schema(Type.STRING), "string"),
            ("IN ('TIMESTAMP', 'DATE')", timestamp(), "timestamp"),
        ):
            ms = self._milliseconds(schema, f"try_variant_get({value}, '$', '{spark}')") or "NULL"
            whens.append(f"WHEN {kind} {test} THEN cast({let(ms, self._given)} as variant)")
        return f"CASE {' '.join(whens)} END"
