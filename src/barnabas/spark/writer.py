"""`df.write.format("barnabas")` and `writeStream`: rows become records, at least once.

A task answers when every one of its records is acknowledged. A task that Spark runs again writes its records again.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from barnabas.client.cluster import Cluster
from barnabas.client.partitioner import partition_for_key
from barnabas.client.producer import Producer
from barnabas.model.acl import AclOperation
from barnabas.model.topic_partition import TopicPartition
from barnabas.spark.bridge import Bridge, borrow
from barnabas.spark.explain import SourceError, about, explained
from barnabas.spark.options import WriteOptions
from barnabas.wire.record_batch import Record

DEFAULTS: Final = {"batch.size": str(256 << 10)}
ROWS_AT_A_TIME: Final = 1_000
"""Rows without a key and partition go to the same partition by the thousand, so that batches fill up."""


@dataclass
class RowsWritten(WriterCommitMessage):
    """What one task did."""

    rows: int


class BatchWriter(DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows."""
        return write_rows(self.options, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """A streaming write."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows of a micro-batch."""
        return write_rows(self.options, iterator)


def write_rows(options: WriteOptions, batches: Iterable[pa.RecordBatch]) -> RowsWritten:
    """Write rows and wait until all are acknowledged; SourceError when one is not."""
    with borrow(DEFAULTS | dict(options.client)) as bridge, explained(bridge.config, AclOperation.WRITE):
        task = _WriteTask(bridge, options.topic)
        try:
            for batch in batches:
                task.take(batch)
        except BaseException:
            task.close(flush=False)
            raise
        task.close(flush=True)
        return RowsWritten(task.rows)


@dataclass
class _WriteTask:
    """One producer for one task. Rows are grouped here, batches are built and sent on the bridge's thread."""

    bridge: Bridge
    topic: str | None
    rows: int = 0
    _producer: Producer | None = None
    _failures: list[tuple[TopicPartition, Exception]] = field(default_factory=list)
    _next_keyless: Iterator[int] = field(default_factory=itertools.count)
    _partition_counts: dict[str, int] = field(default_factory=dict)

    def take(self, batch: pa.RecordBatch) -> None:
        """Hand over the rows of one Arrow batch; waits while too much is unacknowledged."""
        for part in range(0, batch.num_rows, ROWS_AT_A_TIME):
            grouped = self._grouped(records_of(batch.slice(part, ROWS_AT_A_TIME), self.topic))
            self.bridge.call(lambda cluster, grouped=grouped: self._send(cluster, grouped))  # type: ignore[misc]
            self._raise_failure()
        self.rows += batch.num_rows

    def close(self, *, flush: bool) -> None:
        """Wait for the acknowledgements, or give up what is under way."""
        producer = self._producer
        if producer is not None:
            self.bridge.call(lambda _: producer.close(flush=flush))
        if flush:
            self._raise_failure()

    def _grouped(self, rows: Iterable[tuple[str, int | None, Record]]) -> dict[TopicPartition, list[Record]]:
        grouped: dict[TopicPartition, list[Record]] = {}
        keyless = next(self._next_keyless)
        for topic, partition, record in rows:
            if partition is None:
                count = self._partition_counts.get(topic) or self._count_partitions(topic)
                partition = keyless % count if record.key is None else partition_for_key(record.key, count)
            grouped.setdefault(TopicPartition(topic, partition), []).append(record)
        return grouped

    def _count_partitions(self, topic: str) -> int:
        async def count(cluster: Cluster) -> int:
            with about(topic):
                info = await cluster.retry(lambda: cluster.topic(topic, create=True), timeout_ms=5_000)
            return len(info.partitions)

        self._partition_counts[topic] = counted = self.bridge.call(count)
        return counted

    async def _send(self, cluster: Cluster, grouped: dict[TopicPartition, list[Record]]) -> None:
        if self._producer is None:
            self._producer = Producer(
                cluster.config,
                cluster=cluster,
                on_failure=lambda partition, _, error: self._failures.append((partition, error)),
            )
        for partition, records in grouped.items():
            with about(partition.topic):
                deliveries = await self._producer.send_many(partition, records)
            for delivery in deliveries:
                delivery.batch.done.add_done_callback(_retrieve)

    def _raise_failure(self) -> None:
        if self._failures:
            partition, error = self._failures[0]
            with about(partition.topic):
                raise error


def _retrieve(done: Any) -> None:
    """Look at a failure, so that asyncio does not report it as unseen: the task raises it itself."""
    if not done.cancelled():
        done.exception()


def records_of(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, int | None, Record]]:
    """Give topic, partition if the row names one, and record of each row."""
    names = set(batch.schema.names)
    absent = [None] * batch.num_rows
    keys, values, topics, partitions, headers = (
        _column(batch, name) if name in names else absent for name in ("key", "value", "topic", "partition", "headers")
    )
    if topic is not None:
        topics = [topic] * batch.num_rows
    now_ms = int(time.time() * 1000)
    for key, value, where, partition, pairs in zip(keys, values, topics, partitions, headers, strict=True):
        if where is None:
            raise SourceError("a row has no topic; set the option `topic`, or fill the column")
        yield where, partition, Record(0, now_ms, key, value, [(p["key"], p["value"]) for p in pairs or ()])


def _column(batch: pa.RecordBatch, name: str) -> Sequence[Any]:
    column = batch.column(name)
    if name in ("key", "value") and pa.types.is_string(column.type):
        column = column.cast(pa.binary())  # the same bytes: Spark's strings are UTF-8
    elif name in ("key", "value") and pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    values: Sequence[Any] = column.to_pylist()
    return values
