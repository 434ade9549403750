"""A driver in a process of its own whose exactly once sink kills it, or a task, with SIGKILL where a test says.

Takes one JSON argument: the options of reading and writing, the checkpoint, and the kills: {"batch": 1, "at": a point};
with `rows` in the place of reading and checkpoint it is a batch write of so many numbers, its version the batch.
Points: `task` (its rows are written, nothing is handed over; once, when `flag` is not there yet), `before` the first
transaction is committed, `between` the first and the others, `after` all of them, before Spark notes the batch.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from barnabas.client.cluster import Cluster
from barnabas.client.open_transaction import OpenTransaction, end_transaction
from barnabas.spark import exactly_once
from barnabas.spark.options import WriteOptions, parse_write_options
from barnabas.spark.session import open_session
from barnabas.spark.source import BarnabasDataSource
from barnabas.spark.writer import BATCH_ID, BatchWriter, StreamWriter


class KillingSource(BarnabasDataSource):
    """The source under another name, with the killing sinks."""

    @classmethod
    def name(cls) -> str:
        return "killing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return KillingStreamWriter(parse_write_options(self.options), Kills(self.options["plan"]))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return KillingBatchWriter(parse_write_options(self.options), Kills(self.options["plan"]))


class Kills:
    """What is to be killed; plan: as JSON, the kills, the flag's path and the driver's processes."""

    def __init__(self, plan: str) -> None:
        self.plan: dict[str, Any] = json.loads(plan)

    def wants(self, point: str, batch: int) -> bool:
        return {"batch": batch, "at": point} in self.plan["kills"]

    def kill(self) -> None:
        for pid in self.plan["driver"]:
            os.kill(pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def commit(self, commit: Callable[[], None], batch: int) -> None:
        """Commit a batch, as far as its driver lives."""
        ended = 0

        async def end(cluster: Cluster, opened: OpenTransaction, *, commit: bool) -> None:
            nonlocal ended
            if self.wants("between" if ended else "before", batch):
                self.kill()
            ended += 1
            await end_transaction(cluster, opened, commit=commit)

        exactly_once.end_transaction = end  # type: ignore[attr-defined]
        commit()
        if self.wants("after", batch):
            self.kill()


class KillingStreamWriter(StreamWriter):
    """The streaming sink."""

    def __init__(self, options: WriteOptions, kills: Kills) -> None:
        super().__init__(options)
        self.kills = kills

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return super().write(self._until_killed(iterator))

    def _until_killed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        task, flag = TaskContext.get(), Path(self.kills.plan["flag"])
        assert task is not None
        if self.kills.wants("task", int(task.getLocalProperty(BATCH_ID) or -1)) and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self.kills.commit(partial(super().commit, messages, batchId), batchId)


class KillingBatchWriter(BatchWriter):
    """The sink of batch writes with a name."""

    def __init__(self, options: WriteOptions, kills: Kills) -> None:
        super().__init__(options)
        assert options.write_id is not None
        self.kills, self.version = kills, options.write_id[1]

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.kills.commit(partial(super().commit, messages), self.version)


def main(job: dict[str, Any]) -> None:
    """Write until everything is there, or until killed."""
    spark = open_session("killing", master="local[2,2]", quiet=True)
    spark.dataSource.register(KillingSource)
    assert spark._jvm is not None
    java = spark._jvm.java.lang.ProcessHandle.current().pid()
    plan = json.dumps({"kills": job["kills"], "flag": job.get("flag", ""), "driver": [os.getpid(), java]})
    options = job["write"] | {"plan": plan}
    if "rows" in job:
        write_numbers(spark, "killing", options, job["rows"])
    else:
        copy(spark, job, options)
    spark.stop()


def copy(spark: SparkSession, job: dict[str, Any], options: dict[str, str]) -> None:
    """Copy one topic into another until everything is there."""
    stream = spark.readStream.format("barnabas").options(**job["read"]).load()
    query = (
        stream.select("value").writeStream.format("killing").options(**options)
        .option("checkpointLocation", job["checkpoint"]).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()


def write_numbers(spark: SparkSession, sink: str, options: dict[str, str], count: int) -> None:
    """Write the numbers below count from three partitions."""
    frame = spark.range(count, numPartitions=3).select(F.col("id").cast("string").alias("value"))
    frame.write.format(sink).options(**options).mode("append").save()


if __name__ == "__main__":
    from tests.spark import killing  # so that workers find the classes by name

    killing.main(json.loads(sys.argv[1]))
