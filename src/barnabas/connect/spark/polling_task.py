"""The task of a source that is polled: a batch at a time into Kafka, then its offsets into the offsets topic."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Final

from pyspark.sql import DataFrame

from barnabas.connect.connector import Polled, PollingSource
from barnabas.connect.herder_port import ConnectorOffset
from barnabas.connect.runtime import OnEvent, Progress, SourceOffsets, TaskLaunch
from barnabas.connect.spark.errors import AbandonedError
from barnabas.connect.spark.planned_query import PlannedQuery
from barnabas.connect.spark.source_pipeline import SourcePipeline
from barnabas.connect.spark.task import Surroundings, Task

_BATCH: Final = "batch"


class PollingTask(Task):
    """State: what was polled and is not in Kafka yet, at most one batch."""

    def __init__(
        self,
        launch: TaskLaunch,
        kind: type[PollingSource],
        around: Surroundings,
        on_event: OnEvent,
        store: SourceOffsets,
    ) -> None:
        super().__init__(launch, around, on_event)
        self._kind = kind
        self._store = store
        self._source: PollingSource | None = None
        self._query: PlannedQuery | None = None
        self._polled: Polled | None = None
        self._written = 0
        self._cut_off = threading.Event()

    async def open(self) -> None:
        """Start the query; have the source begin where the offsets topic says."""
        source = self._kind.of(self.config)
        self._pipeline = SourcePipeline(self.config, self.around.settings, self.id)
        known = await self._store.read(self.id.connector, source.partitions())
        offsets = [each.offset for each in known]
        self._source = source
        await self.in_thread(partial(source.open, self.around.spark, self.context, offsets))
        self._query = PlannedQuery(
            self.around.spark,
            self.query_name,
            self.scratch,
            body=self._body,
            executor=self.around.executor,
        )
        await self._query.start()

    async def step(self) -> bool:
        """Poll; write what there is; keep its offsets."""
        assert self._source is not None
        assert self._query is not None
        begun = time.monotonic()
        poll = partial(self._source.poll, self.around.spark)
        try:
            retried = partial(self._pipeline.errors.retried, poll, self._cut_off, "poll")
            self._polled = polled = await self.in_thread(retried)
            if polled is None:
                return False
            batch_id = await self._query.run([_BATCH])
        except AbandonedError:
            return False
        for topic in self._pipeline.topics:
            self.used(topic)
        kept = [ConnectorOffset(partition, offset) for partition, offset in polled.offsets]
        await self._store.write(self.id.connector, kept)
        took_ms = round((time.monotonic() - begun) * 1000)
        self.progressed(Progress(batch_id, self._written, 0, self._pipeline.failed, took_ms))
        return True

    def stop(self) -> None:
        """Have it end at the next batch boundary; a batch that is being retried is given up."""
        super().stop()
        self._cut_off.set()

    async def close(self) -> None:
        """End the query, close the source."""
        self._cut_off.set()
        if self._query is not None:
            await self._query.stop()
        if self._source is not None:
            await self.in_thread(self._source.close)

    def _body(self, _: DataFrame, batch_id: int) -> None:
        assert self._polled is not None
        self._written = self._pipeline.write(self._polled.batch, self._cut_off)
