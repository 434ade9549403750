"""A driver in a process of its own whose exactly once sink kills it, or a task, with SIGKILL where a test says.

Takes one JSON argument: source and target topics, options, checkpoint, and the kills: {"batch": 1, "at": a point}.
Points: `task` (its rows are written, nothing is handed over; once, when `flag` is not there yet), `before` the first
transaction is committed, `between` the first and the others, `after` all of them, before Spark notes the batch.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from barnabas.client.cluster import Cluster
from barnabas.client.open_transaction import OpenTransaction, end_transaction
from barnabas.spark import exactly_once
from barnabas.spark.options import WriteOptions, parse_write_options
from barnabas.spark.session import open_session
from barnabas.spark.source import BarnabasDataSource
from barnabas.spark.writer import BATCH_ID, StreamWriter


class KillingSource(BarnabasDataSource):
    """The source under another name, with the killing sink."""

    @classmethod
    def name(cls) -> str:
        return "killing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        plan: dict[str, Any] = json.loads(self.options["plan"])
        return KillingWriter(parse_write_options(self.options), plan)


class KillingWriter(StreamWriter):
    """The streaming sink; plan: the kills, the flag's path and the driver's processes."""

    def __init__(self, options: WriteOptions, plan: dict[str, Any]) -> None:
        super().__init__(options)
        self.plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return super().write(self._until_killed(iterator))

    def _until_killed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        task, flag = TaskContext.get(), Path(self.plan["flag"])
        assert task is not None
        if self._wants("task", int(task.getLocalProperty(BATCH_ID) or -1)) and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        ended = 0

        async def end(cluster: Cluster, opened: OpenTransaction, *, commit: bool) -> None:
            nonlocal ended
            if self._wants("between" if ended else "before", batchId):
                self._kill()
            ended += 1
            await end_transaction(cluster, opened, commit=commit)

        exactly_once.end_transaction = end  # type: ignore[attr-defined]
        super().commit(messages, batchId)
        if self._wants("after", batchId):
            self._kill()

    def _wants(self, point: str, batch: int) -> bool:
        return {"batch": batch, "at": point} in self.plan["kills"]

    def _kill(self) -> None:
        for pid in self.plan["driver"]:
            os.kill(pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def main(job: dict[str, Any]) -> None:
    """Copy one topic into another until everything is there, or until killed."""
    spark = open_session("killing", master="local[2,2]", quiet=True)
    spark.dataSource.register(KillingSource)
    assert spark._jvm is not None
    java = spark._jvm.java.lang.ProcessHandle.current().pid()
    plan = json.dumps({"kills": job["kills"], "flag": job["flag"], "driver": [os.getpid(), java]})
    stream = spark.readStream.format("barnabas").options(**job["read"]).load()
    query = (
        stream.select("value").writeStream.format("killing").options(**job["write"], plan=plan)
        .option("checkpointLocation", job["checkpoint"]).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    from tests.spark import killing  # so that workers find the classes by name

    killing.main(json.loads(sys.argv[1]))
