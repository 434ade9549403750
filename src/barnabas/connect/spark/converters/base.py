"""What a converter is: bytes of a topic into a typed column for sinks, and back for sources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Final

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from barnabas.connect.spark.data.records import Records
from barnabas.connect.spark.data.schema import Schema
from barnabas.connect.spark.failures import Step
from barnabas.model.config import ConfigKey, ConfigTable, ConfigType, Importance


class Role(StrEnum):
    """Which part of a record a converter is for."""

    KEY = "key"
    VALUE = "value"


CONVERTER_TYPE: Final = ConfigKey(
    "converter.type", ConfigType.STRING, None, "Key or value; set by the worker.", Importance.LOW, internal=True
)


@dataclass(frozen=True, slots=True)
class Converted:
    """sql: what gives the new column; schema: of it; problem: what gives why not, null where all is well.

    given: columns that these two make use of and that are made first, step by step, for what is used more than once.
    """

    sql: str
    schema: Schema | None
    problem: str | None = None
    given: tuple[Mapping[str, str], ...] = ()


class Converter(ABC):
    """Converts a column of a frame. Nothing raises for a record: it gets a null and a failure (`failures.FAILURE`).

    config: as text, without the prefix `key.converter.` or `value.converter.`; ConfigError names what is wrong.
    """

    CLASS_NAME: ClassVar[str]
    """Of the JVM's class that does the same."""
    CONFIG: ClassVar[ConfigTable] = ConfigTable(CONVERTER_TYPE)

    def __init__(self, config: Mapping[str, str], role: Role) -> None:
        self.config: Mapping[str, Any] = self.CONFIG.parse(config).values
        self.role = role

    def to_connect(self, frame: DataFrame) -> DataFrame:
        """Give the frame with the bytes of the role's column turned into typed values; may run a Spark job."""
        records = Records.of(frame)
        return self._applied(records, self.decoded(records, self.role.value))

    def from_connect(self, frame: DataFrame) -> DataFrame:
        """Give the frame with typed values turned into bytes; works on a streaming frame.

        ConnectError when the column is of a type that this converter never takes.
        """
        records = Records.of(frame)
        return self._applied(records, self.encoded(records.schemas[self.role.value], self.role.value))

    @abstractmethod
    def decoded(self, records: Records, column: str) -> Converted:
        """Give what makes typed values of a BINARY column."""

    @abstractmethod
    def encoded(self, schema: Schema | None, column: str) -> Converted:
        """Give what makes bytes of a column with a schema, or of a VARIANT."""

    def _applied(self, records: Records, made: Converted) -> DataFrame:
        step = Step(f"{self.role.name}_CONVERTER", self.CLASS_NAME)
        column = self.role.value
        for given in made.given:
            columns = {name: expr(sql) for name, sql in given.items()}
            records = replace(records, frame=records.frame.withColumns(columns))
        done = records.with_column(column, made.sql, made.schema, step=step, problem=made.problem)
        return done.frame.drop(*(name for given in made.given for name in given))
