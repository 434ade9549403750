"""A driver in a process of its own, on two executors, in which two attempts of one task write the same part.

Takes one JSON argument: master, settings, options of the write, checkpoint, and a folder for flags. One of the attempts
is late: it gets its rows, and waits with them until the other has written everything; the driver commits when the late
one has gone on and is done, whatever became of it. In batch 0 that is a speculative one, in batch 1 the first, whose
executor is killed under it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from barnabas.spark.options import WriteOptions, parse_write_options
from barnabas.spark.session import open_session
from barnabas.spark.source import BarnabasDataSource
from barnabas.spark.writer import BATCH_ID, StreamWriter

STRAGGLER: Final = 1
"""The partition whose task is attempted twice."""
LATE: Final = {0: 1, 1: 0}
"""By batch: which attempt is late."""
LOST: Final = 1
"""The batch in which its executor is lost."""
PARTITIONS: Final = 3
ROWS: Final = 30
MISSED: Final = "missed-"
"""Begins the flag of whoever has waited in vain, before the name of the flag that it waited for."""
_PATIENCE_S: Final = 240
_SETTINGS: Final = {
    "spark.speculation": "true",
    "spark.cores.max": "4",
    "spark.executor.cores": "2",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.python.task.killTimeout": "60s",  # a zombie lives on
}


class StragglingSource(BarnabasDataSource):
    """The source under another name, with the straggling sink."""

    @classmethod
    def name(cls) -> str:
        return "straggling"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return StragglingWriter(parse_write_options(self.options), Path(self.options["flags"]))


class StragglingWriter(StreamWriter):
    """The streaming sink. flags: the folder."""

    def __init__(self, options: WriteOptions, flags: Path) -> None:
        super().__init__(options)
        self.flags = flags

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None
        batch, attempt = int(task.getLocalProperty(BATCH_ID) or -1), task.attemptNumber()
        if task.partitionId() != STRAGGLER or batch not in LATE:
            return super().write(iterator)
        late = attempt == LATE[batch]
        self._raise_flag(f"begun-{batch}-{attempt}")
        try:
            written = super().write(self._late(iterator, batch) if late else self._first(iterator, batch))
            self._raise_flag(f"written-{batch}-{attempt}")
            return written
        finally:
            if late:
                self._raise_flag(f"late-is-done-{batch}")

    def _first(self, batches: Iterator[pa.RecordBatch], batch: int) -> Iterator[pa.RecordBatch]:
        self._wait(f"begun-{batch}-{LATE[batch]}")
        yield from batches

    def _late(self, batches: Iterator[pa.RecordBatch], batch: int) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if batch == LOST:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # how the worker would be told
            daemon = os.getppid()
            executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(executor, signal.SIGKILL)
        self._wait(f"written-{batch}-{1 - LATE[batch]}")
        yield from held

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        if batchId in LATE:
            self._wait(f"late-is-done-{batchId}")
        super().commit(messages, batchId)

    def _raise_flag(self, flag: str) -> None:
        (self.flags / flag).touch()

    def _wait(self, flag: str) -> None:
        until = time.monotonic() + _PATIENCE_S
        while not (self.flags / flag).exists():
            if time.monotonic() > until:
                self._raise_flag(MISSED + flag)
                raise TimeoutError(flag)
            time.sleep(0.01)


def main(job: dict[str, Any]) -> None:
    """Write numbers in two batches; those that may follow before the query is stopped are empty."""
    spark = open_session("straggling", master=job["master"], settings=job["settings"] | _SETTINGS, quiet=True)
    spark.dataSource.register(StragglingSource)
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", PARTITIONS)
    rows = rate.load().filter(f"value < {ROWS * len(LATE)}").selectExpr("cast(value as string) value")
    writer = rows.writeStream.format("straggling").options(**job["write"], flags=job["flags"])
    query = writer.option("checkpointLocation", job["checkpoint"]).start()
    while query.isActive and ((last := query.lastProgress) is None or last["batchId"] < max(LATE)):
        time.sleep(0.05)
    failure = query.exception()
    query.stop()
    spark.stop()
    if failure is not None:
        sys.exit(str(failure)[:3000])  # comes last, after what the JVM has to say


if __name__ == "__main__":
    from tests.spark import straggling  # so that workers find the classes by name

    straggling.main(json.loads(sys.argv[1]))
