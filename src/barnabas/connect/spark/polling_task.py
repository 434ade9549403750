"""The task of a source that is polled: a batch at a time into Kafka, then its offsets into the offsets topic."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from pyspark.sql import DataFrame

from barnabas.connect.connector import Polled, PollingSource
from barnabas.connect.herder_port import ConnectorOffset
from barnabas.connect.runtime import Begun, OnEvent, Progress, TaskLaunch
from barnabas.connect.spark.errors import AbandonedError
from barnabas.connect.spark.planned_task import PlannedTask
from barnabas.connect.spark.source_delivery import SourceDelivery
from barnabas.connect.spark.source_offsets import OffsetsOfSources
from barnabas.connect.spark.source_pipeline import Outcome, SourcePipeline
from barnabas.connect.spark.task import Surroundings, ms_since

_BATCH: Final = "batch"


class PollingTask(PlannedTask):
    """State: what was polled and is not in Kafka yet, at most one batch."""

    def __init__(
        self,
        launch: TaskLaunch,
        kind: type[PollingSource],
        around: Surroundings,
        on_event: OnEvent,
        offsets: OffsetsOfSources,
    ) -> None:
        super().__init__(launch, around, on_event)
        self._kind = kind
        flush_interval_ms = around.settings.worker.integer("offset.flush.interval.ms")
        self._delivery = SourceDelivery(launch, self.config, offsets, flush_interval_ms, self.say)
        self._source: PollingSource | None = None
        self._polled: Polled | None = None
        self._outcome = Outcome(0, 0, 0)

    async def open(self) -> None:
        """Start the query; have the source begin where the offsets topic says."""
        source = self._kind.of(self.config)
        await self.unless_stopped(self._delivery.open())
        self.context.transactions = self._delivery.context
        self._pipeline = SourcePipeline(self.config, self.around.settings, self.id, self.tell, self._delivery.send)
        known = await self._delivery.read(source.partitions())
        offsets = [each.offset for each in known]
        self._source = source
        await self.in_thread(partial(source.open, self.around.spark, self.context, offsets))
        await self.open_query()

    async def step(self) -> bool:
        """Poll; write what there is; keep its offsets."""
        assert self._source is not None
        begun = time.monotonic()
        poll = partial(self._source.poll, self.around.spark)
        try:
            retried = partial(self._pipeline.errors.retried, poll, self.cut_off, "poll")
            self._polled = polled = await self.in_thread(retried)
            if polled is None:
                await self._delivery.idle()
                return False
            self.say(Begun(polled.records))
            batch_id = await self.query.run([_BATCH])
        except AbandonedError:
            return False
        took_ms = ms_since(begun)
        for topic in self._pipeline.topics:
            self.used(topic)
        done = self._outcome
        try:
            async with self.committing():
                await self._delivery.batch_done([ConnectorOffset(*pair) for pair in polled.offsets])
        finally:
            self.say(Progress(batch_id, done.records, 0, done.failed, took_ms, dropped_records=done.dropped))
        return True

    async def rest(self) -> None:
        """End the transaction."""
        await self._delivery.finish()

    async def finish(self) -> None:
        """End the transaction."""
        await self._delivery.finish()

    async def close(self) -> None:
        """End the query, close the source."""
        await self._delivery.close()
        await super().close()
        if self._source is not None:
            await self.in_thread(self._source.close)

    def body(self, frame: DataFrame, batch_id: int) -> None:
        """Write what was polled."""
        assert self._polled is not None
        self._outcome = self._pipeline.write(self._polled.batch, self.cut_off)
