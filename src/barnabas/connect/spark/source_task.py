"""The task of a source that is a streaming DataFrame: Spark runs batch after batch, the offsets topic follows.

The query's checkpoint is scratch: it is built anew from the offsets topic whenever the query starts. So whoever moves
the offsets moves the query, and any worker can go on.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from barnabas.connect.connector import ConnectError, Source
from barnabas.connect.herder_port import ConnectorOffset, WriteFailedError
from barnabas.connect.runtime import Begun, OnEvent, Progress, TaskLaunch
from barnabas.connect.spark import checkpoints
from barnabas.connect.spark.source_delivery import SourceDelivery
from barnabas.connect.spark.source_offsets import OffsetsOfSources
from barnabas.connect.spark.source_pipeline import SourcePipeline
from barnabas.connect.spark.task import Surroundings, Task, ms_since

_TASK: Final = "task"


class SourceTask(Task):
    """State: a query that runs, or none while the task pauses."""

    def __init__(
        self, launch: TaskLaunch, kind: type[Source], around: Surroundings, on_event: OnEvent, offsets: OffsetsOfSources
    ) -> None:
        super().__init__(launch, around, on_event)
        self._kind = kind
        flush_interval_ms = around.settings.worker.integer("offset.flush.interval.ms")
        self._delivery = SourceDelivery(launch, self.config, offsets, flush_interval_ms, self.say)
        self._source: Source | None = None
        self._query: StreamingQuery | None = None
        self._checkpoint = self.scratch / "checkpoint"
        self._partition = {_TASK: self.id.task}
        self._hold = threading.Event()
        self._idle = threading.Event()
        self._failure: Exception | None = None

    async def open(self) -> None:
        """Make the source; the first step starts the query."""
        await self.unless_stopped(self._delivery.open())
        self._pipeline = SourcePipeline(self.config, self.around.settings, self.id, self.tell, self._delivery.send)
        self._source = self._kind.of(self.config)
        await self._start()

    async def step(self) -> bool:
        """Look after the query; it works by itself."""
        if self._query is None:
            await self._start()
        elif not await self.in_thread(self._is_active):
            raise self._failure or ConnectError(await self.in_thread(self._problem))
        elif self._idle.is_set():
            await self._delivery.idle()
        return False

    async def rest(self) -> None:
        """Let the batch under way end, and stop the query."""
        await self._stop()
        await self._delivery.finish()

    async def finish(self) -> None:
        """Let the batch under way end, and with it the transaction."""
        await self.rest()

    async def close(self) -> None:
        """End the query, close the source."""
        await self._delivery.close()
        await self._stop()
        if self._source is not None:
            await self.in_thread(self._source.close)

    async def _start(self) -> None:
        (known,) = await self._delivery.read([self._partition])
        offsets = None if known.offset is None else checkpoints.from_offset(dict(known.offset))
        self._hold.clear()
        self._idle.set()
        self._failure = None
        self._query = await self.in_thread(partial(self._started, offsets))

    def _started(self, offsets: list[str | None] | None) -> StreamingQuery:
        assert self._source is not None
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        if offsets is not None:
            checkpoints.build(self._checkpoint, offsets)
        writer = self._source.read(self.around.spark).writeStream.queryName(self.query_name)
        return (
            writer.option("checkpointLocation", checkpoints.location(self._checkpoint))
            .foreachBatch(self._batch)
            .start()
        )

    async def _stop(self) -> None:
        query, self._query = self._query, None
        if query is None:
            return
        self._hold.set()
        await self.in_thread(self._idle.wait)
        await self.in_thread(query.stop)

    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        """Write a batch, then keep where it ends. Runs in a thread of Spark's."""
        self._idle.clear()
        try:
            if self._hold.is_set():
                return  # the checkpoint is scratch, so a batch that it wrongly calls done is done anew
            self._write(frame, batch_id)
        except Exception as error:
            self._failure = error
            raise
        finally:
            self._idle.set()

    def _write(self, frame: DataFrame, batch_id: int) -> None:
        begun = time.monotonic()
        self.tell(Begun())
        done = self._pipeline.write(frame, self._hold)
        took_ms = ms_since(begun)
        end = checkpoints.to_offset(checkpoints.end_of(self._checkpoint, batch_id))
        progress = Progress(batch_id, done.records, 0, done.failed, took_ms, dropped_records=done.dropped)
        asyncio.run_coroutine_threadsafe(self._keep_end(end, progress), self._loop).result()

    async def _keep_end(self, end: Mapping[str, Any], progress: Progress) -> None:
        try:
            async with self.committing():
                await self._delivery.batch_done([ConnectorOffset(self._partition, end)])
        except WriteFailedError as error:
            self.complain(error)  # the query goes on; it is kept with a later batch
        for topic in self._pipeline.topics:
            self.used(topic)
        self.say(progress)

    def _is_active(self) -> bool:
        return self._query is not None and bool(self._query.isActive)

    def _problem(self) -> str:
        error = self._query.exception() if self._query is not None else None
        return f"the query {self.query_name!r} has ended" + (f": {error}" if error is not None else "")
