"""A Delta table, exactly once: each commit says for every partition of the batch where it goes on.

It does so by Delta's transaction identifiers (`txn` actions of its log): the application is a partition of a topic as
this connector reads it, its version the next offset. Delta's options for writers, `txnAppId` and `txnVersion`, take a
single one and skip a batch that has it, whatever the batch holds; a task that was replaced by another, which cuts its
batches elsewhere, would come through. So the commit is put together here, by Delta's own classes in Spark's process: no
published interface, but a release of Delta fits one of Spark only, ours is pinned, and one module knows of it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from py4j.java_gateway import JavaPackage  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from barnabas.connect.connector import ConnectError, FencedError, TaskContext
from barnabas.connect.connectors.java_errors import is_caused_by
from barnabas.connect.connectors.settings import options_of
from barnabas.connect.connectors.target import Target
from barnabas.model.topic_partition import TopicPartition

FORMAT: Final = "delta"
_CONFLICT: Final = "java.util.ConcurrentModificationException"
_NOWHERE: Final = -1
"""Delta's own answer for an application that it does not know."""
_ADVICE: Final = (
    "Spark does not know Delta: have its jars in barnabas.spark.conf.spark.jars, or its name in "
    "barnabas.spark.conf.spark.jars.packages, and set spark.sql.extensions and spark.sql.catalog.spark_catalog"
)


class DeltaTarget(Target):
    """The table at `path`, made with the first batch if there is none."""

    def open(self, task: TaskContext) -> Mapping[TopicPartition, int]:
        """Read where the partitions of the assignment go on."""
        begun = self._begun()
        known = {each: int(begun.txnVersion(self._application(each))) for each in task.assignment}
        return {each: offset for each, offset in known.items() if offset != _NOWHERE}

    def write(self, rows: DataFrame, task: TaskContext) -> None:
        """Write and commit the batch, again where commits of others came between."""
        while True:
            begun = self._begun()
            self._check(begun, task)
            try:
                self._commit(begun, self._written(begun, rows), task.batch_offsets)
                return
            except Exception as error:
                if not is_caused_by(error, _CONFLICT):
                    raise

    def alter_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Commit offsets alone; a table that is not there yet begins where the group says."""
        begun = self._begun()
        if int(begun.readVersion()) != _NOWHERE:
            kept = {each: _NOWHERE if offset is None else offset for each, offset in offsets.items()}
            self._commit(begun, self._sequence([]), kept)
        return True

    def _begun(self) -> Any:
        """Begin a transaction on the newest version of the table."""
        log = self._delta.DeltaLog
        if isinstance(log, JavaPackage):
            raise ConnectError(_ADVICE)
        return log.forTable(self.spark._jsparkSession, self.config["path"]).startTransaction()

    def _check(self, begun: Any, task: TaskContext) -> None:
        """Compare where the batch begins with what the table has. What is asked here no commit may change meanwhile."""
        for each, offset in task.batch_begins.items():
            known = int(begun.txnVersion(self._application(each)))
            if known > offset:
                raise FencedError(f"{each} is at {known} by now: another task has written this batch")

    def _written(self, begun: Any, rows: DataFrame) -> Any:
        """Write the batch's files; give the actions that make them part of the table, and new columns if need be."""
        jvm, session = self._jvm, self.spark._jsparkSession
        given = options_of(self.config)
        if most := self.config["file.max.records"]:
            given["maxRecordsPerFile"] = str(most)
        options = self._delta.DeltaOptions(self._map(given), session.sessionState().conf())
        columns = self._sequence(self.config["partition.by"])
        append = jvm.org.apache.spark.sql.SaveMode.Append
        none = jvm.scala.Option.empty()
        command = self._delta.commands.WriteIntoDelta(
            begun.deltaLog(), append, options, columns, self._map({}), rows._jdf, none, none, False
        )
        return command.write(begun, session, none, False)

    def _commit(self, begun: Any, actions: Any, offsets: Mapping[TopicPartition, int]) -> None:
        jvm = self._jvm
        now = jvm.scala.Option.apply(time.time_ns() // 1_000_000)
        reached = [self._delta.actions.SetTransaction(self._application(p), n, now) for p, n in offsets.items()]
        none, append = jvm.scala.Option.empty(), jvm.org.apache.spark.sql.streaming.OutputMode.Append()
        operation = getattr(self._delta, "DeltaOperations$StreamingUpdate")(append, self._group, 0, none)
        begun.commit(actions.appendedAll(self._sequence(reached)), operation)

    def _application(self, partition: TopicPartition) -> str:
        return f"{self._group}/{partition.topic}/{partition.partition}"

    @property
    def _group(self) -> str:
        return f"connect-{self.config['name']}"

    @property
    def _jvm(self) -> Any:
        return self.spark._jvm

    @property
    def _delta(self) -> Any:
        return self._jvm.org.apache.spark.sql.delta

    def _sequence(self, items: Sequence[Any]) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(items))

    def _map(self, items: Mapping[str, str]) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(dict(items))
