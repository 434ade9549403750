"""`df.write.format("barnabas")` and `writeStream`: at least once, or exactly once when that is asked for.

At least once: a task answers when every one of its records is acknowledged; a task that Spark runs again writes its
records again. Exactly once: each task leaves a transaction open, and the driver commits them all (`exactly_once`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from barnabas.client.cluster import Cluster
from barnabas.client.producer import Producer
from barnabas.model.acl import AclOperation
from barnabas.spark import exactly_once
from barnabas.spark.bridge import borrow
from barnabas.spark.explain import SourceError, explained
from barnabas.spark.options import WriteOptions
from barnabas.spark.part import Part, RowsWritten
from barnabas.spark.row_task import DEFAULTS, Failures, RowTask

QUERY_ID: Final = "sql.streaming.queryId"
SPECULATION: Final = "spark.speculation"
BATCH_ID: Final = "streaming.sql.batchId"
"""Local properties that Spark sets on the jobs of a micro-batch; the query's id stays the same with its checkpoint."""


class BatchWriter(DataSourceArrowWriter):
    """A batch write. The id goes with the object, from the planner to the tasks and to the commit.

    One that was given a name and a version is a batch like those of a query: run again, it is completed.
    """

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        self.write_id = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows."""
        prefix = self.options.transactional_id_prefix
        if prefix is None:
            return write_rows(self.options, iterator)
        task = _task()
        part = self._part(prefix, task.partitionId())
        if part.batch is None and task.getLocalProperty(SPECULATION) != "true":
            part = replace(part, rivals=False)  # its group would be left behind, mostly for nothing
        return exactly_once.write(self.options, part, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make everything visible."""
        prefix = self.options.transactional_id_prefix
        if prefix is not None:
            exactly_once.commit(self.options, _written(messages), self._part(prefix, 0).batch)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make sure that nothing is ever seen, also of tasks that died without a word."""
        prefix = self.options.transactional_id_prefix
        if prefix is not None:
            # Nobody else has the names of a write without one of its own: all are shut out, also who came too late to
            # learn that another attempt was done.
            nobody_elses = self.options.write_id is None
            running = [self._part(prefix, n) for n, each in enumerate(messages) if nobody_elses or each is None]
            exactly_once.abort(self.options, _written(messages), running)

    def _part(self, prefix: str, number: int) -> Part:
        run, batch = self.options.write_id or (self.write_id, None)
        return Part(prefix, run, number, batch, self.write_id)


class StreamWriter(DataSourceStreamArrowWriter):
    """A streaming write. The id goes from the planner to the tasks of one execution of a micro-batch, and to the driver
    with what they say: Spark makes another writer for the commit."""

    def __init__(self, options: WriteOptions) -> None:
        if options.write_id is not None:
            raise SourceError(
                "txnAppId and txnVersion are for batch writes: a query has its checkpoint's id and batches"
            )
        self.options = options
        self.execution = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows of a micro-batch."""
        prefix = self.options.transactional_id_prefix
        if prefix is None:
            return write_rows(self.options, iterator)
        task = _task()
        query, batch = task.getLocalProperty(QUERY_ID), task.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise SourceError(
                f"this Spark does not tell its tasks which batch they are of ({BATCH_ID}), without which exactlyOnce "
                "cannot know what was written before: use Spark 4.2, or set exactlyOnce to false"
            )
        part = Part(prefix, query, task.partitionId(), int(batch), self.execution)
        return exactly_once.write(self.options, part, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make the micro-batch visible."""
        if self.options.transactional_id_prefix is not None:
            exactly_once.commit(self.options, _written(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make sure that nothing of the micro-batch is seen which was not committed yet."""
        if self.options.transactional_id_prefix is not None:
            exactly_once.abort(self.options, _written(messages), _silent(messages))


def write_rows(options: WriteOptions, batches: Iterable[pa.RecordBatch]) -> RowsWritten:
    """Write rows and wait until all are acknowledged; SourceError when one is not."""
    with borrow(DEFAULTS | dict(options.client)) as bridge, explained(bridge.config, AclOperation.WRITE):
        failures = Failures()

        async def make(cluster: Cluster) -> Producer:
            return Producer(cluster.config, cluster=cluster, on_failure=failures.note)

        producer = bridge.call(make)
        task = RowTask(bridge, options.topic, producer, failures)
        try:
            for batch in batches:
                task.take(batch)
        except BaseException:
            bridge.call(lambda _: producer.close(flush=False))
            raise
        bridge.call(lambda _: producer.close(flush=True))
        failures.check()
        return RowsWritten(task.rows)


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "called in a task"
    return task


def _silent(messages: Sequence[WriterCommitMessage | None]) -> list[Part]:
    """Give the parts of a micro-batch that said nothing; their names are known when another said its own."""
    known = next((part for each in _written(messages) if (part := each.part) is not None), None)
    if known is None:
        return []
    return [replace(known, number=n) for n, message in enumerate(messages) if message is None]


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[RowsWritten]:
    return [message for message in messages if isinstance(message, RowsWritten)]
