"""A batch on its way: a DataFrame, and the schemas of its keys and values.

Schemas travel in the metadata of the two columns, so that a DataFrame says by itself what Connect would know of it
beyond Spark's types: names, versions, defaults. A column that was made anew has no such note, and its schema is what
its type tells. None stands for data without a schema: a VARIANT.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import expr

from barnabas.connect.spark.failures import FAILURE, Step, failure, with_failures

from .json_schema import from_json_schema, to_json_schema
from .schema import Schema
from .spark_types import data_type, schema_of

KEY: Final = "key"
VALUE: Final = "value"
_NOTE: Final = "connect.schema"


@dataclass(frozen=True, slots=True)
class Records:
    """frame: with the columns key and value; schemas: of these two, None for a VARIANT."""

    frame: DataFrame
    schemas: Mapping[str, Schema | None]

    @classmethod
    def of(cls, frame: DataFrame) -> Records:
        """Take up a frame; DataException for a column of a type that Connect has no word for."""
        return cls(with_failures(frame), {n: column_schema(frame, n) for n in (KEY, VALUE) if n in frame.columns})

    def with_column(self, name: str, sql: str, schema: Schema | None, *, step: Step, problem: str | None) -> Records:
        """Give the records with key or value replaced, where nothing had failed before.

        sql: what gives the new value; problem: what gives the text of why it cannot be given, null where it can.
        """
        return self.with_columns({name: (sql, schema)}, step=step, problem=problem)

    def with_columns(
        self,
        columns: Mapping[str, tuple[str, Schema | None]],
        others: Mapping[str, str] | None = None,
        *,
        step: Step,
        problem: str | None = None,
    ) -> Records:
        """Give the records with several columns replaced at once: key or value in `columns`, any others in `others`."""
        made: dict[str, Column] = {}
        for name, (sql, schema) in columns.items():
            made[name] = noted(expr(sql), name, schema)
        for name, sql in (others or {}).items():
            made[name] = expr(sql)
        if problem is not None:
            made[FAILURE] = expr(failure(step, problem))
        schemas = {**self.schemas, **{name: schema for name, (_, schema) in columns.items()}}
        return Records(self.frame.withColumns(made), schemas)

    def where(self, sql: str) -> Records:
        """Give those records of which a condition is true."""
        return replace(self, frame=self.frame.where(expr(sql)))


def noted(column: Column, name: str, schema: Schema | None) -> Column:
    """Give the column under its name, with a note of its schema."""
    note: dict[str, Any] = {} if schema is None else {_NOTE: json.dumps(to_json_schema(schema))}
    return column.alias(name, metadata=note)


def column_schema(frame: DataFrame, name: str) -> Schema | None:
    """Give the schema of a column: the noted one if it is still true, else what the type tells."""
    field = frame.schema[name]
    note = field.metadata.get(_NOTE)
    if note is not None:
        schema = from_json_schema(json.loads(note))
        if data_type(schema).simpleString() == field.dataType.simpleString():
            return schema
    return schema_of(field.dataType, optional=True)
