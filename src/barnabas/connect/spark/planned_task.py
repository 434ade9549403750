"""What tasks share whose batches are planned by the task itself: the query that runs them, and how it ends."""

from __future__ import annotations

import threading
from abc import abstractmethod

from pyspark.sql import DataFrame

from barnabas.connect.runtime import OnEvent, TaskLaunch
from barnabas.connect.spark.planned_query import PlannedQuery
from barnabas.connect.spark.task import Surroundings, Task


class PlannedTask(Task):
    """State: a query, from `open_query` on."""

    def __init__(self, launch: TaskLaunch, around: Surroundings, on_event: OnEvent) -> None:
        super().__init__(launch, around, on_event)
        self.cut_off = threading.Event()
        self._query: PlannedQuery | None = None

    @property
    def query(self) -> PlannedQuery:
        """Give the query."""
        assert self._query is not None
        return self._query

    async def open_query(self, width: int = 1) -> None:
        """Start the query. width: of how many partitions its batches are at most."""
        self._query = PlannedQuery(
            self.around.spark,
            self.query_name,
            self.scratch,
            body=self.body,
            executor=self.around.executor,
            width=width,
        )
        await self._query.start()

    @abstractmethod
    def body(self, frame: DataFrame, batch_id: int) -> None:
        """Do a batch, in a thread of Spark's. frame: what was handed to the query."""

    def stop(self) -> None:
        """Have it end at the next batch boundary; a batch that is being retried is given up."""
        super().stop()
        self.cut_off.set()

    async def close(self) -> None:
        """End the query."""
        self.cut_off.set()
        if self._query is not None:
            await self._query.stop()
