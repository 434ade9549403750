"""Rows become records, and records are handed to a producer: what every way of writing shares."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from barnabas.client.cluster import Cluster
from barnabas.client.partitioner import partition_for_key
from barnabas.client.producer import Producer
from barnabas.model.topic_partition import TopicPartition
from barnabas.spark.bridge import Bridge
from barnabas.spark.explain import SourceError, about
from barnabas.wire.record_batch import Record

DEFAULTS: Final = {"batch.size": str(256 << 10)}
ROWS_AT_A_TIME: Final = 1_000
"""Rows without a key and partition go to the same partition by the thousand, so that batches fill up."""


class Failures:
    """What a producer could not deliver, found out after the rows were taken."""

    def __init__(self) -> None:
        self._first: tuple[TopicPartition, Exception] | None = None

    def note(self, partition: TopicPartition, _: Sequence[Record], error: Exception) -> None:
        """Take note; a producer's `on_failure`."""
        self._first = self._first or (partition, error)

    def check(self) -> None:
        """Raise the first failure, if there was any."""
        if self._first is not None:
            partition, error = self._first
            with about(partition.topic):
                raise error


@dataclass
class RowTask:
    """One producer for one task. Rows are grouped here, batches are built and sent on the bridge's thread.

    topic: where every row goes; None when rows say. failures: where the producer notes them.
    last_topic: where the last rows went.
    """

    bridge: Bridge
    topic: str | None
    producer: Producer
    failures: Failures
    rows: int = 0
    last_topic: str | None = None
    _next_keyless: Iterator[int] = field(default_factory=itertools.count)
    _partition_counts: dict[str, int] = field(default_factory=dict)

    def take(self, batch: pa.RecordBatch) -> None:
        """Hand over the rows of one Arrow batch; waits while too much is unacknowledged."""
        for part in range(0, batch.num_rows, ROWS_AT_A_TIME):
            grouped = self._grouped(records_of(batch.slice(part, ROWS_AT_A_TIME), self.topic))
            self.bridge.call(lambda cluster, grouped=grouped: self._send(cluster, grouped))  # type: ignore[misc]
            self.failures.check()
        self.rows += batch.num_rows

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

    async def _send(self, _: Cluster, grouped: dict[TopicPartition, list[Record]]) -> None:
        for partition, records in grouped.items():
            with about(partition.topic):
                deliveries = await self.producer.send_many(partition, records)
            self.last_topic = partition.topic
            for delivery in deliveries:
                delivery.batch.done.add_done_callback(_retrieve)


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
