"""A driver in a process of its own, on two executors, in which two attempts of one task write the same part.

Takes one JSON argument: options, checkpoint, folder for flags, which attempt is `late`, and whether its executor is
`lost`. The late attempt gets its rows, and waits with them until the other has written everything; the driver commits
when the late one has gone on and is done, whatever became of it.
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
from barnabas.spark.writer import StreamWriter

STRAGGLER: Final = 1
"""The partition whose task is attempted twice."""
PARTITIONS: Final = 3
ROWS: Final = 30
_PATIENCE_S: Final = 100
_SETTINGS: Final = {
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
        return StragglingWriter(parse_write_options(self.options), json.loads(self.options["plan"]))


class StragglingWriter(StreamWriter):
    """The streaming sink; plan: what the program was told."""

    def __init__(self, options: WriteOptions, plan: dict[str, Any]) -> None:
        super().__init__(options)
        self.late: int = plan["late"]
        self.lost: bool = plan["lost"]
        self.flags = Path(plan["flags"])

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None
        if task.partitionId() != STRAGGLER:
            return super().write(iterator)
        late = task.attemptNumber() == self.late
        (self.flags / f"begun-{task.attemptNumber()}").touch()
        try:
            written = super().write(self._late(iterator) if late else self._first(iterator))
            (self.flags / f"written-{task.attemptNumber()}").touch()
            return written
        finally:
            if late:
                (self.flags / "late-is-done").touch()

    def _first(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        self._wait(f"begun-{self.late}")
        yield from batches

    def _late(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if self.lost:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # how the worker would be told
            daemon = os.getppid()
            executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(executor, signal.SIGKILL)
        self._wait(f"written-{1 - self.late}")
        yield from held

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        if batchId == 0:
            self._wait("late-is-done")
        super().commit(messages, batchId)

    def _wait(self, flag: str) -> None:
        until = time.monotonic() + _PATIENCE_S
        while not (self.flags / flag).exists():
            if time.monotonic() > until:
                raise TimeoutError(flag)
            time.sleep(0.01)


def main(job: dict[str, Any]) -> None:
    """Write numbers."""
    settings = job["settings"] | _SETTINGS | {"spark.speculation": str(not job["lost"]).lower()}
    spark = open_session("straggling", master=job["master"], settings=settings, quiet=True)
    spark.dataSource.register(StragglingSource)
    plan = json.dumps({key: job[key] for key in ("late", "lost", "flags")})
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", PARTITIONS)
    query = (
        rate.load().selectExpr("cast(value as string) value").writeStream.format("straggling")
        .options(**job["write"], plan=plan).option("checkpointLocation", job["checkpoint"]).start()
    )  # fmt: skip
    while query.isActive and query.lastProgress is None:
        time.sleep(0.05)
    query.stop()
    failure = query.exception()
    spark.stop()
    if failure is not None:
        sys.exit(str(failure)[:3000])  # comes last, after what the JVM has to say


if __name__ == "__main__":
    from tests.spark import straggling  # so that workers find the classes by name

    straggling.main(json.loads(sys.argv[1]))
