"""Cast: fields, or the whole, of another primitive type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from barnabas.connect.spark.data.records import Records
from barnabas.connect.spark.data.schema import Field, Schema, Type
from barnabas.connect.spark.data.sql import first, literal, name, variable
from barnabas.connect.spark.data.texts import java_text, variant_text
from barnabas.model.config import REQUIRED, ConfigError, ConfigTable, ConfigType

from .base import REPLACE_NULL, Change, Transformation, setting
from .casting import TARGETS, cast, cast_variant
from .defaults import cast_default
from .fields import as_map, basics, changed_map, field_value, made_struct, not_a_map, not_a_struct, of_map, put

_PURPOSE: Final = "cast types"
_BY_NAME: Final = {kind.name: kind for kind in Type}
_WHOLE: Final = ""


def _spec(items: list[str]) -> str | None:
    try:
        _parsed(items)
    except ConfigError as error:
        return str(error)
    return None


def _parsed(items: list[str]) -> dict[str, Type]:
    if not items:
        raise ConfigError("Must specify at least one field to cast.")
    casts: dict[str, Type] = {}
    for item in items:
        parts = item.split(":")
        if len(parts) > 2:
            raise ConfigError(f"Invalid mapping: {item}")
        kind = _BY_NAME.get(parts[-1].strip().upper())
        if kind is None:
            raise ConfigError(f"Invalid type found in casting spec: {parts[-1].strip()}")
        if kind not in TARGETS:
            supported = ", ".join(t.name for t in TARGETS)
            raise ConfigError(f"Cast transformation does not support casting to {kind.name}; supported are {supported}")
        casts[parts[0].strip() if len(parts) == 2 else _WHOLE] = kind
    if _WHOLE in casts and len(items) > 1:
        raise ConfigError("a spec that casts the whole value may hold nothing else")
    return casts


class Cast(Transformation):
    """Casts as Java does: numbers wrap, texts are read strictly, bytes become base64."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.Cast"
    CONFIG = ConfigTable(
        setting("spec", ConfigType.LIST, REQUIRED, "field:type,field:type, or one type for the whole.", _spec),
        REPLACE_NULL,
    )

    def __init__(self, config: Mapping[str, str], part: str) -> None:
        super().__init__(config, part)
        self._casts = _parsed(self.config["spec"])

    def change(self, records: Records) -> Change:
        """Give the part with its new types; a null stays one."""
        schema = records.schemas[self.part]
        column = name(self.part)
        whole = self._casts.get(_WHOLE)
        if schema is None:
            return self._untyped(column) if whole is None else self._whole_untyped(column, whole)
        if whole is not None:
            made = replace(_plain(schema, whole), optional=schema.optional)
            sql = cast(schema, whole, column)
            return Change({self.part: (sql, made)}, problem=_refused(schema, column, sql))
        return self._fields(schema, column)

    def _fields(self, schema: Schema, column: str) -> Change:
        problem = not_a_struct(schema, column, _PURPOSE, null_allowed=True)
        if schema.type is not Type.STRUCT:
            return Change(problem=problem)
        fields, values, problems = [], [], []
        for field in schema.fields:
            target = self._casts.get(field.name)
            sql = field_value(schema, column, field.name, replace_null=self.replaces_null)
            if target is None:
                fields.append(field)
                values.append((field.name, sql))
                continue
            made = cast(field.schema, target, sql)
            default = cast_default(field.schema, target)
            fields.append(Field(field.name, Schema(target, field.schema.optional, default=default)))
            values.append((field.name, made))
            problems.append(_refused(field.schema, sql, made))
        whole = replace(basics(schema, fields), optional=schema.optional)
        return Change({self.part: (made_struct(column, values, whole), whole)}, problem=first(problems))

    def _untyped(self, column: str) -> Change:
        held = variable()
        made = {field: cast_variant(kind, of_map(held, field)) for field, kind in self._casts.items()}
        problems: list[str | None] = [not_a_map(column, _PURPOSE, null_allowed=True)]
        for field, kind in self._casts.items():
            value = of_map(as_map(column), field)
            cannot = f"{value} IS NOT NULL AND {cast_variant(kind, value)} IS NULL"
            problems.append(f"CASE WHEN {cannot} THEN {literal(f'{field} cannot be cast to {kind.name}')} END")
        sql = changed_map(column, put(held, made), held)
        return Change({self.part: (sql, None)}, problem=first(problems))

    def _whole_untyped(self, column: str, kind: Type) -> Change:
        sql = cast_variant(kind, column)
        cannot = f"concat('Value (', coalesce({variant_text(column)}, ''), ') cannot be cast to {kind.name}')"
        return Change(
            {self.part: (sql, None)}, problem=f"CASE WHEN {column} IS NOT NULL AND {sql} IS NULL THEN {cannot} END"
        )


def _plain(schema: Schema, kind: Type) -> Schema:
    return replace(schema, type=kind, default=cast_default(schema, kind), fields=(), key=None, value=None)


def _refused(schema: Schema, sql: str, made: str) -> str:
    if schema.type.primitive:
        why = f"concat('Value (', coalesce({java_text(schema, sql)}, ''), ') was out of range for requested data type')"
    else:
        why = literal(f"Cast transformation does not support casting from {schema.type.name}")
    return f"CASE WHEN {sql} IS NOT NULL AND {made} IS NULL THEN {why} END"
