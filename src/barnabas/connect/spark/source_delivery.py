"""How a source's task brings records to Kafka and keeps its place: at least once, or exactly once in transactions.

At least once, Spark's executors write, and the offsets are kept once they have; where their topic takes none for a
while, later. In transactions one producer writes, in the worker's process: brokers allow a transactional id one
producer only (KIP-618).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

import pyarrow as pa
import structlog

from barnabas.connect.connector import TransactionContext
from barnabas.connect.herder_port import ConnectorOffset, WriteFailedError
from barnabas.connect.runtime import Event, SourceOffsets, TaskLaunch, TransactionCommitted
from barnabas.connect.source_transactions import SourceTransactions, boundaries_of, partition_name
from barnabas.connect.spark.source_offsets import OffsetsOfSources
from barnabas.net.clock import SystemClock
from barnabas.spark.row_task import records_of
from barnabas.wire.record_batch import Record

_AT_A_TIME: Final = 1_000
log: Final = structlog.get_logger("barnabas.connect.task")


class SourceDelivery:
    """What one task has of it. config: of connector and task, references to secrets resolved."""

    def __init__(
        self,
        launch: TaskLaunch,
        config: Mapping[str, str],
        offsets: OffsetsOfSources,
        flush_interval_ms: int,
        say: Callable[[Event], None],
    ) -> None:
        self._launch = launch
        self._config = config
        self._offsets = offsets
        self._flush_interval_ms = flush_interval_ms
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._open = AsyncExitStack()
        self._store: SourceOffsets | None = None
        self._transactions: SourceTransactions | None = None
        self._unkept: dict[bytes, ConnectorOffset] = {}
        self._keeping = asyncio.Lock()

    @property
    def store(self) -> SourceOffsets:
        """Give where the offsets are; from `open` on."""
        assert self._store is not None
        return self._store

    @property
    def context(self) -> TransactionContext | None:
        """Give what the connector says where transactions end with, None unless that is its to say."""
        return None if self._transactions is None else self._transactions.context

    @property
    def send(self) -> Callable[[pa.Table], int] | None:
        """Give what writes rows, from a thread, and counts them; None where executors are to."""
        return None if self._transactions is None else self._send

    async def open(self) -> None:
        """Get ready; in transactions, once nobody else can write for this task.

        ConfigError, ConnectError, ApiError, HerderError.
        """
        launch = self._launch
        self._store = await self._open.enter_async_context(self._offsets.of(launch.id, launch.connector_config))
        if launch.preflight is None:
            return
        writer = self._offsets.writer(launch.id, launch.connector_config)
        boundaries = boundaries_of(self._config, self._flush_interval_ms)
        self._transactions = SourceTransactions(
            launch.id,
            writer,
            boundaries,
            self._store,
            SystemClock(),
            lambda records: self._say(TransactionCommitted(records)),
        )
        await self._transactions.begin(launch.preflight)

    async def read(self, partitions: Sequence[Mapping[str, object]]) -> Sequence[ConnectorOffset]:
        """Give where these partitions stand."""
        known = await self.store.read(self._launch.id.connector, partitions)
        return [self._unkept.get(partition_name(offset), offset) for offset in known]

    async def batch_done(self, offsets: Sequence[ConnectorOffset]) -> None:
        """Keep where the source is after a batch; in transactions, at the latest when this one ends.

        WriteFailedError when the topic does not take it: it is tried again with the next batch, or when nothing is new.
        """
        if self._transactions is not None:
            await self._transactions.batch_done(offsets)
            return
        self._unkept |= {partition_name(offset): offset for offset in offsets}
        await self._keep()

    async def idle(self) -> None:
        """Do what is due where there is nothing new to be written.

        That is to end a transaction whose time is over, or to keep what could not be kept before: WriteFailedError.
        """
        if self._transactions is not None:
            await self._transactions.idle()
        else:
            await self._keep()

    async def finish(self) -> None:
        """Come to an end that holds: the task pauses, or is stopped."""
        if self._transactions is not None:
            await self._transactions.finish()
            return
        try:
            await self._keep()
        except WriteFailedError as e:
            log.warning(
                "where a source is could not be kept; it may send records again", task=str(self._launch.id), why=str(e)
            )

    async def _keep(self) -> None:
        async with self._keeping:
            if writing := dict(self._unkept):
                await self.store.write(self._launch.id.connector, list(writing.values()))
                newer = {name: offset for name, offset in self._unkept.items() if offset is not writing.get(name)}
                self._unkept = newer

    async def close(self) -> None:
        """Let go of everything; what is open is never seen."""
        if self._transactions is not None:
            await self._transactions.close()
        await self._open.aclose()

    def _send(self, table: pa.Table) -> int:
        return asyncio.run_coroutine_threadsafe(self._write(table), self._loop).result()

    async def _write(self, table: pa.Table) -> int:
        assert self._transactions is not None
        rows = 0
        for batch in table.to_batches(max_chunksize=_AT_A_TIME):
            by_topic: dict[str, list[tuple[int | None, Record]]] = {}
            for topic, partition, record in records_of(batch, None):
                by_topic.setdefault(topic, []).append((partition, record))
            for topic, records in by_topic.items():
                rows += await self._transactions.write(topic, records)
            await asyncio.sleep(0)  # others have their turn
        return rows
