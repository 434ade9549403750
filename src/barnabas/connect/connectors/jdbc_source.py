"""JdbcSource: rows of a table as they come, found by columns that only grow: a number, a time, or both."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from barnabas.connect.connector import ExactlyOnceSupport, Polled, PollingSource, TaskContext
from barnabas.connect.connectors.jdbc import PASSWORD, TABLE, URL, USER, Database, explained
from barnabas.model.config import REQUIRED, ConfigKey, ConfigTable, ConfigType, Importance, at_least, not_empty

INCREMENTING: Final = "incrementing"
TIMESTAMP: Final = "timestamp"
_INCREMENTING_COLUMN: Final = "incrementing.column.name"
_TIMESTAMP_COLUMN: Final = "timestamp.column.name"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class JdbcSource(PollingSource):
    """A record a row. Rows that change are seen by a time that changes with them."""

    VERSION: ClassVar[str] = "1.0"
    CONFIG: ClassVar[ConfigTable] = ConfigTable(
        URL,
        USER,
        PASSWORD,
        TABLE,
        ConfigKey("topic", ConfigType.STRING, REQUIRED, "The topic to write to.", Importance.HIGH, validator=not_empty),
        ConfigKey(_INCREMENTING_COLUMN, ConfigType.STRING, None, "A column of numbers that only grow, all different."),
        ConfigKey(_TIMESTAMP_COLUMN, ConfigType.STRING, None, "A column of times that only grow."),
        ConfigKey(
            "timestamp.delay.interval.ms",
            ConfigType.LONG,
            0,
            "Leave rows alone that are younger, for transactions that end later than others that began after them.",
            validator=at_least(0),
        ),
        ConfigKey("poll.interval.ms", ConfigType.INT, 5000, "How often to look.", validator=at_least(0)),
        ConfigKey("batch.max.rows", ConfigType.INT, 100_000, "About how many rows to take.", validator=at_least(1)),
    )
    _next_look = 0.0

    def validate(self) -> Mapping[str, str]:
        """Say that some column must tell new rows from old ones."""
        if not self._columns:
            return {_INCREMENTING_COLUMN: f"want a column here or in {_TIMESTAMP_COLUMN}"}
        return {}

    def partitions(self) -> Sequence[Mapping[str, Any]]:
        """Give the table."""
        return [{"table": self.config["table"]}]

    def exactly_once_support(self) -> ExactlyOnceSupport:
        """Say that a table is whose rows have a number that only grows; two may have changed at the same time."""
        if self.config[_INCREMENTING_COLUMN]:
            return ExactlyOnceSupport.SUPPORTED
        return ExactlyOnceSupport.UNSUPPORTED

    def open(self, spark: SparkSession, task: TaskContext, offsets: Sequence[Mapping[str, Any] | None]) -> None:
        """Take up where the table was left."""
        self._database = Database(spark, self.config)
        self._seen: Mapping[str, Any] = offsets[0] or {}

    def poll(self, spark: SparkSession) -> Polled | None:
        """Give the rows after those seen, as `value`; a bound is looked for first, so that they stay the same rows."""
        now = time.monotonic()
        if now < self._next_look:
            return None
        with explained():
            new = self._new()
            columns = [F.col(column) for column in self._columns.values()]
            few = new.select(*columns).orderBy(*columns).limit(self.config["batch.max.rows"])
            bound = few.orderBy(*[column.desc() for column in columns]).first()
        if bound is None:
            self._next_look = now + self.config["poll.interval.ms"] / 1000
            return None
        upper = {kind: _kept(bound[place]) for place, kind in enumerate(self._columns)}
        rows = new.where(~self._after(upper))
        self._seen = upper
        return Polled(rows.select(F.struct("*").alias("value")), [(self.partitions()[0], upper)])

    @property
    def _columns(self) -> dict[str, str]:
        """Give the columns that order the rows, the time before the number."""
        named = {TIMESTAMP: self.config[_TIMESTAMP_COLUMN], INCREMENTING: self.config[_INCREMENTING_COLUMN]}
        return {kind: column for kind, column in named.items() if column}

    def _new(self) -> DataFrame:
        rows = self._database.read(self.config["table"])
        if self._seen:
            rows = rows.where(self._after(self._seen))
        if delay_ms := self.config["timestamp.delay.interval.ms"]:
            rows = rows.where(
                F.col(self.config[_TIMESTAMP_COLUMN]) <= F.expr(f"now() - INTERVAL {delay_ms / 1000} SECOND")
            )
        return rows

    def _after(self, seen: Mapping[str, Any]) -> Column:
        """Give whether a row comes after what was seen: by the first column, and where that is equal by the next."""
        later, equal = F.lit(False), F.lit(True)
        for kind, column in self._columns.items():
            value = _meant(kind, seen[kind])
            later = later | (equal & (F.col(column) > value))
            equal = equal & (F.col(column) == value)
        return later


def _kept(value: Any) -> int:
    """Give what goes to the offsets topic: a number, or microseconds since 1970."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.astimezone(UTC)
        return (aware - _EPOCH) // _MICROSECOND
    return int(value)


def _meant(kind: str, kept: int) -> Column:
    return F.timestamp_micros(F.lit(kept)) if kind == TIMESTAMP else F.lit(kept)
