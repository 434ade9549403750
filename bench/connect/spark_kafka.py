"""Spark's own `kafka` source into Parquet files, as a process: reads a `SparkLoad` as JSON, prints the rates as JSON.

Its jars come by Maven. A batch is limited to the size that those of our sinks grow to, as the rate is taken from the
first file to the last: with one batch for all there would be nothing in between.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.peers.maven import spark_kafka_jars

from barnabas.connect.spark.batch_size import TARGET_BYTES
from barnabas.spark.session import open_session
from bench.connect.run import VALUE_BYTES, Rate, RateClock

PARTITIONS: Final = 4
_COLUMNS: Final = (
    "CAST(key AS STRING) key",
    "CAST(value AS STRING) value",
    "topic",
    "partition",
    "offset",
    "timestamp",
)
"""What our sink writes of records that are texts."""
_LIMIT_S: Final = 240.0
_LOOK_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class SparkLoad:
    """What to do. warm_up, measured: a topic, and how many records it has."""

    bootstrap: str
    folder: str
    warm_up: tuple[str, int]
    measured: tuple[str, int]
    repeats: int


class Files:
    """The Parquet files in a folder, as a reader sees them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, int] = {}

    def records(self) -> int:
        """Give how many records are there, without those of files that are still being written."""
        for file in self.folder.glob("*.parquet"):
            if file.name not in self._known:
                try:
                    self._known[file.name] = pq.read_metadata(file).num_rows
                except (OSError, pa.ArrowInvalid):
                    continue  # not whole yet
        return sum(self._known.values())

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def main() -> int:
    """Run the load that is asked for on the standard input."""
    load = SparkLoad(**json.load(sys.stdin))
    jars = ",".join(map(str, spark_kafka_jars()))
    spark = open_session("bench", settings={"spark.jars": jars}, quiet=True)
    try:
        copy(spark, load, *load.warm_up, number=0)
        rates = [copy(spark, load, *load.measured, number=number) for number in range(1, load.repeats + 1)]
    finally:
        spark.stop()
    print(json.dumps(rates))
    return 0


def copy(spark: SparkSession, load: SparkLoad, topic: str, records: int, *, number: int) -> Rate:
    """Give how quickly records get into files."""
    files = Files(Path(load.folder, f"lake-{number}"))
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", load.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", min(TARGET_BYTES // VALUE_BYTES, records // 4))
        .load()
        .selectExpr(*_COLUMNS)
    )
    writer = stream.writeStream.format("parquet").option("path", str(files.folder))
    query = writer.option("checkpointLocation", str(Path(load.folder, f"checkpoint-{number}"))).start()
    try:
        _wait(query, files, 1)
        clock = RateClock(os.getpid(), files.records())
        _wait(query, files, records)
        return clock.rate(records)
    finally:
        query.stop()
        files.remove()


def _wait(query: StreamingQuery, files: Files, records: int) -> None:
    """Wait until so many records are there."""
    until = time.monotonic() + _LIMIT_S
    while files.records() < records:
        if time.monotonic() > until or not query.isActive:
            query.stop()
            raise query.exception() or TimeoutError(
                f"{files.records()} of {records} records are there after {_LIMIT_S:g} s"
            )
        time.sleep(_LOOK_S)


if __name__ == "__main__":
    sys.exit(main())
