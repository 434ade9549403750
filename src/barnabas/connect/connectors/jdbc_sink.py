"""JdbcSink: batches into a table, exactly once: rows and offsets are committed together.

A batch goes into a table of the task's own first, by as many connections as Spark likes. One transaction then copies it
and moves the offsets on, if they still stand where the batch begins: a task that was replaced moves none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import ClassVar, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from barnabas.connect.connector import FencedError, Sink, TaskContext
from barnabas.connect.connectors.jdbc import PASSWORD, TABLE, URL, USER, Database, Transaction, explained
from barnabas.model.config import REQUIRED, ConfigKey, ConfigTable, ConfigType, Importance
from barnabas.model.topic_partition import TopicPartition

OFFSETS: Final = "connect_sink_offsets"
_MAKE_OFFSETS: Final = f"""\
CREATE TABLE {OFFSETS} (connector VARCHAR(200) NOT NULL, topic VARCHAR(249) NOT NULL, topic_partition INTEGER NOT NULL,
next_offset BIGINT, PRIMARY KEY (connector, topic, topic_partition))"""
_ONE: Final = "connector = ? AND topic = ? AND topic_partition = ?"
_PLAIN: Final = "key, value, topic, partition, offset, timestamp"


class JdbcSink(Sink):
    """Writes rows to a table, which is made if there is none, exactly once."""

    VERSION: ClassVar[str] = "1.0"
    CONFIG: ClassVar[ConfigTable] = ConfigTable(
        ConfigKey("name", ConfigType.STRING, REQUIRED, "The connector's name.", Importance.HIGH),
        URL,
        USER,
        PASSWORD,
        TABLE,
        ConfigKey(
            "select",
            ConfigType.STRING,
            None,
            "What of a batch to write, as Spark's SQL has it after SELECT. Unless it is set, the fields of the value, "
            f"or, where it has none, {_PLAIN}.",
        ),
    )

    def open(self, spark: SparkSession, task: TaskContext) -> None:
        """Have a row for each partition's offset."""
        self._task = task
        self._database = Database(spark, self.config)
        with explained(), self._database.transaction() as work:
            if not work.has_table(OFFSETS):
                work.execute(_MAKE_OFFSETS)
        known = self.offsets()
        with explained(), self._database.transaction() as work:
            for each in task.assignment:
                if each not in known and not work.query(f"SELECT 1 FROM {OFFSETS} WHERE {_ONE}", *self._key(each)):
                    work.execute(f"INSERT INTO {OFFSETS} VALUES (?, ?, ?, NULL)", *self._key(each))

    def offsets(self) -> Mapping[TopicPartition, int]:
        """Give what the table of offsets says."""
        sql = f"SELECT topic, topic_partition, next_offset FROM {OFFSETS} WHERE connector = ?"
        with explained(), self._database.transaction() as work:
            rows = work.query(f"{sql} AND next_offset IS NOT NULL", self.config["name"])
        return {TopicPartition(topic, number): offset for topic, number, offset in rows}

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write the batch; FencedError when another task has written it meanwhile."""
        rows = self._selected(batch)
        with explained():
            self._database.write(rows.where("false"), self.config["table"], "append")
            self._database.write(rows, self._staging, "overwrite")
            with self._database.transaction() as work:
                self._move_on(work)
                columns = ", ".join(self._database.quoted(name) for name in rows.columns)
                source = f"SELECT {columns} FROM {self._staging}"
                work.execute(f"INSERT INTO {self.config['table']} ({columns}) {source}")

    def alter_offsets(self, spark: SparkSession, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Have the table of offsets say this."""
        with explained(), Database(spark, self.config).transaction() as work:
            for each, offset in offsets.items():
                if not work.execute(f"UPDATE {OFFSETS} SET next_offset = ? WHERE {_ONE}", offset, *self._key(each)):
                    work.execute(f"INSERT INTO {OFFSETS} VALUES (?, ?, ?, ?)", *self._key(each), offset)
        return True

    def _move_on(self, work: Transaction) -> None:
        update = f"UPDATE {OFFSETS} SET next_offset = ? WHERE {_ONE} AND (next_offset IS NULL OR next_offset <= ?)"
        for each, end in self._task.batch_offsets.items():
            if not work.execute(update, end, *self._key(each), self._task.batch_begins[each]):
                raise FencedError(f"{each} has moved on by now: another task has written this batch")

    def _key(self, partition: TopicPartition) -> tuple[str, str, int]:
        return self.config["name"], partition.topic, partition.partition

    @property
    def _staging(self) -> str:
        name = hashlib.sha256(self.config["name"].encode()).hexdigest()[:8]
        return f"{self.config['table']}_connect_{name}_{self._task.task}"

    def _selected(self, batch: DataFrame) -> DataFrame:
        what = self.config["select"]
        if what is None:
            what = "value.*" if isinstance(batch.schema["value"].dataType, StructType) else _PLAIN
        return batch.sparkSession.sql(f"SELECT {what} FROM {{batch}}", batch=batch)
