"""JdbcSink: batches into a table, exactly once: rows and offsets are committed together.

A batch goes into a table of the task's own first, by as many connections as Spark likes. One transaction then copies it
and moves the offsets on, if they still stand where the batch begins: a task that was replaced moves none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import ClassVar, Final

from pyspark.sql import DataFrame, SparkSession

from barnabas.connect.connector import FencedError, Sink, TaskContext
from barnabas.connect.connectors.jdbc import PASSWORD, TABLE, URL, USER, Database, Transaction, explained
from barnabas.connect.connectors.opening import Opening
from barnabas.connect.connectors.settings import NAME, SELECT, selected
from barnabas.model.config import ConfigTable
from barnabas.model.topic_partition import TopicPartition

OFFSETS: Final = "connect_sink_offsets"
_MAKE_OFFSETS: Final = f"""\
CREATE TABLE {OFFSETS} (connector VARCHAR(200) NOT NULL, topic VARCHAR(249) NOT NULL, topic_partition INTEGER NOT NULL,
next_offset BIGINT, PRIMARY KEY (connector, topic, topic_partition))"""
_ONE: Final = "connector = ? AND topic = ? AND topic_partition = ?"


class JdbcSink(Sink):
    """Writes rows to a table, which is made if there is none, exactly once."""

    VERSION: ClassVar[str] = "1.0"
    CONFIG: ClassVar[ConfigTable] = ConfigTable(
        NAME,
        URL,
        USER,
        PASSWORD,
        TABLE,
        SELECT,
    )

    def open(self, spark: SparkSession, task: TaskContext) -> None:
        """Have a row for each partition's offset; a database that cannot be reached now is waited for by a batch."""
        self._task = task
        self._database = Database(spark, self.config)
        self._opening = Opening(self._take_up, task)
        self._opening.try_now()

    def offsets(self) -> Mapping[TopicPartition, int] | None:
        """Give what the table of offsets said when it was opened; None while it could not be asked."""
        return self._opening.known

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write the batch; FencedError when another task has written it meanwhile."""
        self._opening.before_batch()
        rows = selected(batch, self.config)
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

    def _take_up(self) -> Mapping[TopicPartition, int]:
        with explained(), self._database.transaction() as work:
            if not work.has_table(OFFSETS):
                work.execute(_MAKE_OFFSETS)
        sql = f"SELECT topic, topic_partition, next_offset FROM {OFFSETS} WHERE connector = ?"
        with explained(), self._database.transaction() as work:
            rows = work.query(sql, self.config["name"])
            there = {TopicPartition(topic, number) for topic, number, _ in rows}
            for each in self._task.assignment:
                if each not in there:
                    work.execute(f"INSERT INTO {OFFSETS} VALUES (?, ?, ?, NULL)", *self._key(each))
        return {TopicPartition(topic, number): offset for topic, number, offset in rows if offset is not None}

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
