"""The producer's records while they wait: batches, the queue of each partition, and what a sender is told."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Generator
from typing import Any, Final, NamedTuple

from barnabas.client.encoded_batch import EncodedBatch
from barnabas.client.producer_id import NO_PRODUCER, ProducerId
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.compression import Compression
from barnabas.wire.record_batch import BATCH_HEADER_SIZE, Record, encode_batch

_RECORD_OVERHEAD: Final = 21
"""The most that a record without headers takes besides key and value."""


class RecordMetadata(NamedTuple):
    """Where a record was written. offset: -1 when the node did not say (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class DeliveryError(Exception):
    """A record was not written, or nobody can say whether it was."""


class Batch:
    """Records of one partition that travel together."""

    __slots__ = ("born", "done", "encoded", "identity", "partition", "records", "sequence", "size", "tried", "whole")

    def __init__(self, partition: TopicPartition, now: float) -> None:
        self.partition = partition
        self.records: list[Record] = []
        self.size = BATCH_HEADER_SIZE
        self.born = now
        self.done: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        self.done.add_done_callback(_seen)
        self.encoded: bytes | None = None
        self.whole: EncodedBatch | None = None
        self.identity: ProducerId | None = None
        self.sequence = -1
        self.tried = False

    @property
    def closed(self) -> bool:
        """Say whether it takes no more records: its sequence numbers are given out."""
        return self.tried or self.encoded is not None or self.whole is not None

    @property
    def count(self) -> int:
        """Give how many records it has."""
        return len(self.records) if self.whole is None else self.whole.count

    def encode(self, compression: Compression, *, transactional: bool) -> bytes:
        """Give its bytes, under its identity and sequence."""
        identity = self.identity or NO_PRODUCER
        if self.whole is not None:
            return self.whole.stamped(identity, self.sequence, transactional=transactional)
        return encode_batch(
            self.records,
            compression=compression,
            producer_id=identity.id,
            producer_epoch=identity.epoch,
            base_sequence=self.sequence,
            transactional=transactional,
        )


class Delivery:
    """What `send` gives: await it to learn where the record is, or why it is nowhere."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        return self._wait().__await__()

    @property
    def batch(self) -> Batch:
        """Give the batch that the record travels in."""
        return self._batch

    async def _wait(self) -> RecordMetadata:
        batch = self._batch
        base_offset, append_time = await asyncio.shield(batch.done)
        if append_time < 0:
            whole = batch.whole
            append_time = batch.records[self._index].timestamp if whole is None else whole.header.base_timestamp
        return RecordMetadata(*batch.partition, -1 if base_offset < 0 else base_offset + self._index, append_time)


class Queue:
    """The batches of one partition, oldest first."""

    __slots__ = ("batches", "busy", "identity", "next_sequence")

    def __init__(self) -> None:
        self.batches: deque[Batch] = deque()
        self.busy = False
        self.identity: ProducerId | None = None
        self.next_sequence = 0


async def both(first: Awaitable[tuple[int, int]], second: Awaitable[tuple[int, int]]) -> tuple[int, int]:
    """Give where the first half of a batch is, once both are written."""
    base = await first
    await second
    return base


def pass_on(task: asyncio.Future[tuple[int, int]], done: asyncio.Future[tuple[int, int]]) -> None:
    """Settle `done` as `task` was settled."""
    if done.done():
        return
    if task.cancelled():
        done.set_exception(DeliveryError("the producer was closed"))
    elif (error := task.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(task.result())


def size_of(record: Record) -> int:
    """Give the most bytes that a record takes in a batch."""
    size = _RECORD_OVERHEAD
    if record.key is not None:
        size += len(record.key)
    if record.value is not None:
        size += len(record.value)
    for name, value in record.headers:
        size += 10 + len(name) * 3 + (0 if value is None else len(value))
    return size


def _seen(future: asyncio.Future[tuple[int, int]]) -> None:
    if not future.cancelled():
        future.exception()  # who does not await a delivery has on_failure; asyncio need not complain as well
