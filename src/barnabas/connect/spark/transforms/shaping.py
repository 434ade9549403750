"""Transformations that give a value another shape: ExtractField, Flatten, HoistField, ReplaceField, ValueToKey."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from barnabas.connect.spark.data.json_decoding import JsonDecoder
from barnabas.connect.spark.data.records import KEY, VALUE, Records
from barnabas.connect.spark.data.schema import Field, Schema, Type, struct
from barnabas.connect.spark.data.sql import literal, name, variable
from barnabas.model.config import REQUIRED, ConfigError, ConfigTable, ConfigType, Importance, not_empty, one_of

from .base import REPLACE_NULL, Change, Transformation, setting
from .fields import as_map, basics, changed_map, field_value, made_struct, not_a_map, not_a_struct
from .paths import FieldPath


def distinct_names(names: list[str]) -> str | None:
    """Allow lists of names that are not empty, each once."""
    if len(set(names)) != len(names):
        return "want each name once"
    return None if all(names) else "want names that are not empty"


def some_names(names: list[str]) -> str | None:
    """Allow such lists with at least one name."""
    return not_empty(names) or distinct_names(names)


class ExtractField(Transformation):
    """Gives one field in place of the whole."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.ExtractField"
    CONFIG = ConfigTable(
        setting("field", ConfigType.STRING, REQUIRED, "The field to extract.", None, Importance.MEDIUM),
        REPLACE_NULL,
        setting(
            "field.syntax.version", ConfigType.STRING, "V1",
            "V1: the name of a field; V2: a path of names, with dots between them and backticks around them.",
            one_of("V1", "V2", ignore_case=True),
        ),
    )  # fmt: skip

    def __init__(self, config: Mapping[str, str], part: str) -> None:
        super().__init__(config, part)
        nested = self.config["field.syntax.version"].upper() == "V2"
        self._path = FieldPath.parse(self.config["field"]) if nested else FieldPath((self.config["field"],))

    def change(self, records: Records) -> Change:
        """Give the field; a record without a value keeps it."""
        schema = records.schemas[self.part]
        column = name(self.part)
        if schema is None:
            problem = not_a_map(column, "field extraction", null_allowed=True)
            found = f"variant_get({column}, {literal(self._path.variant_path)}, 'variant')"
            return Change(
                {self.part: (f"CASE WHEN NOT is_variant_null({found}) THEN {found} END", None)}, problem=problem
            )
        inner, sql = schema, column
        for step in self._path.steps:
            held = inner.field(step) if inner.type is Type.STRUCT else None
            if held is None:
                unknown = literal(f"Unknown field: {self.config['field']}")
                refused = f"CASE WHEN {column} IS NOT NULL THEN {unknown} END"
                return Change(problem=not_a_struct(schema, column, "field extraction", null_allowed=True) or refused)
            inner, sql = held, f"{sql}.{name(step)}"
        if inner.default is not None and self.replaces_null:
            default = JsonDecoder(replace_null_with_default=True).default(inner)
            sql = f"CASE WHEN {column} IS NOT NULL THEN coalesce({sql}, {default}) END"
        return Change({self.part: (sql, inner)})


class HoistField(Transformation):
    """Wraps the whole into a struct, or an object, with one field."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.HoistField"
    CONFIG = ConfigTable(
        setting("field", ConfigType.STRING, REQUIRED, "The name of the one field.", None, Importance.MEDIUM)
    )

    def change(self, records: Records) -> Change:
        """Give the wrapped value; a typed null stays one."""
        schema = records.schemas[self.part]
        field, column = self.config["field"], name(self.part)
        if schema is None:
            return Change({self.part: (f"to_variant_object(map({literal(field)}, {column}))", None)})
        made = f"CASE WHEN {column} IS NOT NULL THEN named_struct({literal(field)}, {column}) END"
        return Change({self.part: (made, struct((field, schema)))})


class ValueToKey(Transformation):
    """Makes a key of fields of the value."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.ValueToKey"
    HAS_PARTS = False
    CONFIG = ConfigTable(
        setting("fields", ConfigType.LIST, REQUIRED, "The fields that make the key.", some_names), REPLACE_NULL
    )

    def change(self, records: Records) -> Change:
        """Give the key."""
        purpose = "copying fields from value to key"
        schema, column, fields = records.schemas[VALUE], name(VALUE), self.config["fields"]
        if schema is None:
            held = variable()
            entries = ", ".join(f"{literal(f)}, try_element_at({held}, {literal(f)})" for f in fields)
            problem = not_a_map(column, purpose, null_allowed=False)
            return Change({KEY: (changed_map(column, f"map({entries})", held), None)}, problem=problem)
        problem_ = not_a_struct(schema, column, purpose, null_allowed=False)
        missing = [f for f in fields if schema.field(f) is None]
        if schema.type is not Type.STRUCT or missing:
            unknown = f"coalesce({problem_}, {literal(f'Field does not exist: {missing[0]}')})"
            return Change(problem=unknown if schema.type is Type.STRUCT else problem_)
        made = struct(*((f, inner) for f in fields if (inner := schema.field(f)) is not None))
        values = [(f, field_value(schema, column, f, replace_null=self.replaces_null)) for f in fields]
        return Change({KEY: (made_struct(column, values, made), made)}, problem=problem_)


def _renames(items: list[str]) -> str | None:
    wrong = [item for item in items if len(item.split(":")) != 2 or not all(item.split(":"))]
    return f"Invalid rename mapping: {wrong[0]}" if wrong else None


class ReplaceField(Transformation):
    """Leaves fields out, and gives fields other names."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.ReplaceField"
    CONFIG = ConfigTable(
        setting("exclude", ConfigType.LIST, [], "Fields to leave out, whatever `include` says.", distinct_names,
                Importance.MEDIUM),
        setting("include", ConfigType.LIST, [], "The only fields to keep; empty: all.", distinct_names,
                Importance.MEDIUM),
        setting("renames", ConfigType.LIST, [], "old:new,old:new.", _renames, Importance.MEDIUM),
        REPLACE_NULL,
    )  # fmt: skip

    def __init__(self, config: Mapping[str, str], part: str) -> None:
        super().__init__(config, part)
        self._renames = dict(item.split(":") for item in self.config["renames"])

    def change(self, records: Records) -> Change:
        """Give the fields that stay; a null stays one."""
        schema = records.schemas[self.part]
        column = name(self.part)
        if schema is None:
            return self._untyped(column)
        problem = not_a_struct(schema, column, "field replacement", null_allowed=True)
        if schema.type is not Type.STRUCT:
            return Change(problem=problem)
        fields, values = [], []
        for field in schema.fields:
            if self._stays(field.name):
                renamed = self._renames.get(field.name, field.name)
                fields.append(Field(renamed, field.schema))
                values.append((renamed, field_value(schema, column, field.name, replace_null=self.replaces_null)))
        made = basics(schema, fields)
        return Change({self.part: (made_struct(column, values, made), made)})

    def _stays(self, field: str) -> bool:
        return field not in self.config["exclude"] and (not self.config["include"] or field in self.config["include"])

    def _untyped(self, column: str) -> Change:
        held, key, value = variable(), variable(), variable()
        tests = []
        if self.config["exclude"]:
            tests.append(f"{key} NOT IN ({', '.join(map(literal, self.config['exclude']))})")
        if self.config["include"]:
            tests.append(f"{key} IN ({', '.join(map(literal, self.config['include']))})")
        # What is renamed takes the place of a field that has the new name already.
        tests += [
            f"NOT ({key} = {literal(new)} AND map_contains_key({held}, {literal(old)}))"
            for old, new in self._renames.items()
            if self._stays(old) and new not in self._renames
        ]
        body = f"map_filter({held}, ({key}, {value}) -> {' AND '.join(tests)})" if tests else held
        if self._renames:
            whens = " ".join(f"WHEN {literal(old)} THEN {literal(new)}" for old, new in self._renames.items())
            body = f"transform_keys({body}, ({key}, {value}) -> CASE {key} {whens} ELSE {key} END)"
        problem = not_a_map(column, "field replacement", null_allowed=True)
        return Change({self.part: (changed_map(column, body, held), None)}, problem=problem)


_DEEP: Final = "flattening"


class Flatten(Transformation):
    """Brings fields of structs within structs up to the top, under the names of the way to them."""

    CLASS_NAME = "org.apache.kafka.connect.transforms.Flatten"
    CONFIG = ConfigTable(
        setting("delimiter", ConfigType.STRING, ".", "What stands between names.", None, Importance.MEDIUM)
    )

    def change(self, records: Records) -> Change:
        """Give the flat value; a null stays one."""
        schema = records.schemas[self.part]
        column = name(self.part)
        if schema is None:
            return self._untyped(column)
        problem = not_a_struct(schema, column, _DEEP, null_allowed=True)
        if schema.type is not Type.STRUCT:
            return Change(problem=problem)
        try:
            flat = self._flat(schema, "", column, schema.optional)
        except ConfigError as error:
            return Change(problem=f"CASE WHEN {column} IS NOT NULL THEN {literal(str(error))} END")
        made = basics(schema, [field for field, _ in flat])
        return Change({self.part: (made_struct(column, [(f.name, sql) for f, sql in flat], made), made)})

    def _flat(self, schema: Schema, prefix: str, sql: str, optional: bool) -> list[tuple[Field, str]]:
        found: list[tuple[Field, str]] = []
        for field in schema.fields:
            named = prefix + field.name
            inner = f"{sql}.{name(field.name)}"
            may_be_null = optional or field.schema.optional
            if field.schema.type is Type.MAP:
                raise ConfigError(
                    f"Flatten transformation does not support MAP for record with schemas (for field {named})"
                )
            if field.schema.type is Type.STRUCT:
                found += self._flat(field.schema, named + self.config["delimiter"], inner, may_be_null)
                continue
            if field.schema.default is not None:
                default = JsonDecoder(replace_null_with_default=True).default(field.schema)
                there = f"CASE WHEN {sql} IS NOT NULL THEN {default} END"
                inner = f"coalesce({inner}, {there})"
            found.append((Field(named, replace(field.schema, optional=may_be_null)), inner))
        return found

    def _untyped(self, column: str) -> Change:
        entry, inner, all_, round_, index, later = (variable() for _ in range(6))
        held = variable()
        joined = f"concat({entry}.key, {literal(self.config['delimiter'])}, {inner}.key)"
        moved = f"named_struct('key', {joined}, 'value', {inner}.value)"
        opened = f"transform(map_entries({as_map(f'{entry}.value')}), {inner} -> {moved})"
        one = f"CASE WHEN {as_map(f'{entry}.value')} IS NOT NULL THEN {opened} ELSE array({entry}) END"
        step = f"flatten(transform({all_}, {entry} -> {one}))"
        # As many rounds as there are objects within: no way is longer.
        text = f"to_json({column})"
        objects = f"(length({text}) - length(replace({text}, '{{', '')))"
        rounds = f"slice(sequence(0, {objects}), 2, greatest({objects} - 1, 0))"
        flat = f"aggregate({rounds}, map_entries({held}), ({all_}, {round_}) -> {step})"
        after = f"slice({all_}, {index} + 2, greatest(size({all_}) - {index} - 1, 0))"
        kept = f"NOT exists({after}, {later} -> {later}.key = {entry}.key)"
        unique = f"transform(array({flat}), {all_} -> filter({all_}, ({entry}, {index}) -> {kept}))[0]"
        problem = not_a_map(column, _DEEP, null_allowed=True)
        return Change({self.part: (changed_map(column, f"map_from_entries({unique})", held), None)}, problem=problem)
