"""Rows into topics by our own client, from inside a plan: what executors do for sources and dead letters."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from barnabas.client.cluster import Cluster
from barnabas.connect.spark.reading import UNREACHABLE
from barnabas.connect.spark.value_batches import bodies
from barnabas.model.acl import AclOperation
from barnabas.model.topic_partition import TopicPartition
from barnabas.net.client import ChannelError
from barnabas.spark.bridge import Work, borrow
from barnabas.spark.explain import RefusedError, SourceError, about, explained
from barnabas.spark.options import WriteOptions
from barnabas.spark.row_task import DEFAULTS
from barnabas.spark.writer import write_rows
from barnabas.wire.batch_writer import batch_of_body
from barnabas.wire.compression import Compression
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

NEWEST_BY_NAME: Final = 12
"""From Produce v13 on topics go by id."""
BATCH_BYTES: Final = 512 << 10
_MORE: Final = ("key", "partition", "headers")
"""Columns that the quick way does not know."""
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class RowWriter:
    """Writes rows and gives how many they were; travels to the executors. topic: for rows that name none."""

    def __init__(self, client: Mapping[str, str], topic: str | None = None) -> None:
        self._client = dict(client)
        self._topic = topic

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give one row: the count, once all are acknowledged."""
        rows = 0
        turns = itertools.count()
        for batch in batches:
            try:
                topic = self._only_topic(batch)
                if topic is None:
                    write_rows(WriteOptions(self._client, self._topic), [batch])
                else:
                    self._write_values(topic, batch.column("value"), turns)
            except SourceError as error:
                if may_pass(error.__cause__):
                    raise SourceError(f"{UNREACHABLE}: {error}") from error
                raise
            rows += batch.num_rows
        yield pa.record_batch([pa.array([rows], pa.int64())], names=["rows"])

    def _only_topic(self, batch: pa.RecordBatch) -> str | None:
        """Give the topic of all rows, if they have values of bytes and nothing else; the quick way is for those."""
        names = set(batch.schema.names)
        if (
            self._client.get("acks") == "0"
            or batch.num_rows == 0
            or not pa.types.is_binary(batch.schema.field("value").type)
        ):
            return None
        if any(name in names and batch.column(name).null_count < batch.num_rows for name in _MORE):
            return None
        if self._topic is not None or "topic" not in names:
            return self._topic
        topics = batch.column("topic").unique()
        return str(topics[0]) if len(topics) == 1 and topics[0].is_valid else None

    def _write_values(self, topic: str, values: pa.Array, turns: Iterator[int]) -> None:
        """Write values in order, a batch of records after the other, the next one made while one is under way."""
        with borrow(DEFAULTS | self._client) as bridge, explained(bridge.config, AclOperation.WRITE):
            count = bridge.call(_partition_count(topic))
            compression = Compression[bridge.config["compression.type"].upper()]
            under_way: tuple[pa.Array, Future[None]] | None = None
            for piece, body in bodies(values, BATCH_BYTES):
                data = batch_of_body(body, len(piece), int(time.time() * 1000), compression=compression)
                self._settle(topic, under_way)
                partition = TopicPartition(topic, next(turns) % count)
                under_way = piece, bridge.submit(_produce(partition, data))
            self._settle(topic, under_way)

    def _settle(self, topic: str, under_way: tuple[pa.Array, Future[None]] | None) -> None:
        """Wait for a batch; one that is too large for the topic goes the other way, which cuts it into parts."""
        if under_way is None:
            return
        values, answer = under_way
        try:
            answer.result()
        except ApiError as error:
            if error.code not in _TOO_LARGE:
                raise
            rows = pa.RecordBatch.from_arrays([values], names=["value"])
            write_rows(WriteOptions(self._client, topic), [rows])


def may_pass(why: BaseException | None) -> bool:
    """Say whether a cluster that did not take records may take them later; a topic that is not there is a mistake."""
    if isinstance(why, ApiError):
        return why.code.retriable and why.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return isinstance(why, ChannelError)


def _partition_count(topic: str) -> Work[int]:
    async def count(cluster: Cluster) -> int:
        with about(topic):
            info = await cluster.retry(lambda: cluster.topic(topic, create=True), timeout_ms=5_000)
        return len(info.partitions)

    return count


def _produce(partition: TopicPartition, data: bytes) -> Work[None]:
    async def once(cluster: Cluster) -> None:
        row = PartitionProduceData(index=partition.partition, records=data)
        request = ProduceRequest(
            acks=1 if cluster.config["acks"] == "1" else -1,
            timeout_ms=cluster.config.integer("request.timeout.ms"),
            topic_data=[TopicProduceData(name=partition.topic, partition_data=[row])],
        )
        response: ProduceResponse = await cluster.call_leader(partition, request, max_version=NEWEST_BY_NAME)
        code = ErrorCode(response.responses[0].partition_responses[0].error_code)
        if code is not ErrorCode.NONE:
            cluster.forget_topic(partition.topic)
            raise RefusedError(code, partition.topic)

    async def work(cluster: Cluster) -> None:
        await cluster.retry(lambda: once(cluster), timeout_ms=cluster.config.integer("delivery.timeout.ms"))

    return work


def written(frame: DataFrame, client: Mapping[str, str], topic: str | None = None) -> int:
    """Write a batch, at least once; give how many rows it had. Blocks."""
    counts = frame.mapInArrow(RowWriter(client, topic), "rows long").collect()
    return sum(int(row["rows"]) for row in counts)
