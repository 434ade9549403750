"""A streaming query whose batches are planned by the task: it gives the texts that it is handed, a hand-over a batch.

Its source lives in Spark's own process, so a query costs no Python process beside it, and planning a batch costs no
round trip through one (docs/decisions/connect.md). Everything else is Structured Streaming: batches in order, a name,
progress for listeners.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Final, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from barnabas.connect.connector import ConnectError
from barnabas.connect.spark import checkpoints

T = TypeVar("T")
Body = Callable[[DataFrame, int], None]
_LOOK_S: Final = 1.0
"""How often a query that works is asked whether it is still there."""


class PlannedQuery:
    """One query.

    body: gets the handed-over texts as a frame with one column, in a thread of Spark's; width: of how many partitions.
    """

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        scratch: Path,
        *,
        body: Body,
        executor: Executor,
        width: int = 1,
    ) -> None:
        self._spark = spark
        self._name = name
        self._checkpoint = scratch / "checkpoint"
        self._body = body
        self._executor = executor
        self._width = width
        self._loop = asyncio.get_running_loop()
        self._stream: Any = None
        self._query: StreamingQuery | None = None
        self._done: asyncio.Future[int] | None = None

    @property
    def run_id(self) -> str:
        """Give what Spark calls this run of the query."""
        assert self._query is not None
        return str(self._query.runId)

    async def start(self) -> None:
        """Start the query; it waits for its first batch."""
        await self._in_thread(self._start)

    async def run(self, rows: Sequence[str]) -> int:
        """Run one batch over these rows; give its number once `body` is done. Raises what `body` or Spark raised."""
        done: asyncio.Future[int] = self._loop.create_future()
        self._done = done
        try:
            await self._in_thread(lambda: self._hand_over(rows))
            while not done.done():
                await asyncio.wait([done], timeout=_LOOK_S)
                if not done.done() and (problem := await self._in_thread(self._problem)) is not None:
                    raise ConnectError(problem)
            return done.result()
        finally:
            self._done = None  # what becomes of a batch that nobody waits for any more is nobody's failure

    async def stop(self) -> None:
        """End the query, at once."""
        await self._in_thread(self._stop)

    def _start(self) -> None:
        jvm: Any = self._spark._jvm
        streams = jvm.org.apache.spark.sql.execution.streaming.runtime.MemoryStream
        text = jvm.org.apache.spark.sql.Encoders.STRING()
        self._stream = streams.apply(self._spark._jsparkSession, self._width, text)
        frame = DataFrame(self._stream.toDF(), self._spark)
        writer = frame.writeStream.queryName(self._name).option(
            "checkpointLocation", checkpoints.location(self._checkpoint)
        )
        self._query = writer.foreachBatch(self._batch).start()

    def _hand_over(self, rows: Sequence[str]) -> None:
        jvm: Any = self._spark._jvm
        self._stream.addData(jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(rows)))

    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        """Run the body; its failure is the task's, and the query's only when it is stopped for it."""
        failure: Exception | None = None
        try:
            self._body(frame, batch_id)
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the task
            failure = error
        self._loop.call_soon_threadsafe(self._finish, batch_id, failure)

    def _finish(self, batch_id: int, failure: Exception | None) -> None:
        done = self._done
        if done is None or done.done():
            return
        if failure is None:
            done.set_result(batch_id)
        else:
            done.set_exception(failure)

    def _problem(self) -> str | None:
        """Give why the query has ended by itself."""
        query = self._query
        if query is None or query.isActive:
            return None
        error = query.exception()
        return f"the query {self._name!r} has ended" + (f": {error}" if error is not None else "")

    def _stop(self) -> None:
        query, self._query = self._query, None
        if query is not None:
            query.stop()
        shutil.rmtree(self._checkpoint, ignore_errors=True)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._executor, work)
