"""What Spark's micro-batches take to get into a topic, at least once and exactly once; Spark's own sink beside ours.

The session is a process of its own, `python -m bench.spark_sink`, which reads a `SinkLoad` as JSON and prints `Found`.
Records come from Spark's `rate-micro-batch`, in the JVM, so that only the sink is measured; the sinks take turns.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.peers.maven import spark_kafka_jars

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.config import ClientConfig
from barnabas.spark.session import open_session
from bench.goals import Measured, Results
from bench.processor import processor_seconds
from bench.systems import KafkaSystem, System

TOPIC: Final = "bench-sink"
PARTITIONS: Final = 4
VALUE_BYTES: Final = 100
OWN: Final = "own"
ONCE: Final = "once"
PLAIN: Final = "plain"
"""The sinks: Spark's own, which knows at least once only; ours exactly once, and at least once."""
_LIMIT_S: Final = 120.0
_LOOK_S: Final = 0.02
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SinkSizes:
    """How much is done. records: of a large micro-batch, small: of a small one; large_batches, small_batches: how many
    are measured in each repetition, after a first one or two."""

    repeats: int
    records: int
    large_batches: int
    small: int
    small_batches: int

    @property
    def counts(self) -> Mapping[str, int]:
        """Give what titles of rows name."""
        return {"sink_records": self.records, "sink_small": self.small}


FULL: Final = SinkSizes(repeats=3, records=50_000, large_batches=4, small=400, small_batches=15)
QUICK: Final = SinkSizes(repeats=2, records=20_000, large_batches=3, small=400, small_batches=8)


@dataclass(frozen=True, slots=True)
class SinkLoad:
    """What a session does. pid: the node's, whose processor time is taken; own: with Spark's own sink too."""

    bootstrap: str
    folder: str
    pid: int
    own: bool
    sizes: dict[str, int]


Found = dict[str, tuple[list[float], list[float]]]
"""By row: seconds of a micro-batch, and the node's processor time for a record, in microseconds."""


def measure_sink(kind: type[System], work: Path, sizes: SinkSizes, results: Results, say: Say) -> None:
    """Measure one system, plain. Spark's own sink is what ours is compared with, on Apache Kafka."""
    kafka = kind is KafkaSystem
    with kind(work / "sink", secured=False) as system:
        system.prepare()
        system.start()
        asyncio.run(_create_topic(system.admin()))
        load = SinkLoad(system.admin()["bootstrap.servers"], str(work), system.pid, kafka, asdict(sizes))
        say("  sinks")
        done = subprocess.run(
            [sys.executable, "-m", "bench.spark_sink"],
            input=json.dumps(asdict(load)), capture_output=True, text=True, timeout=_LIMIT_S * 10, check=False,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    note(json.loads(done.stdout.splitlines()[-1]), sizes, results, kafka=kafka)


def note(found: Found, sizes: SinkSizes, results: Results, *, kafka: bool) -> None:
    """Make rows of what a session has found."""
    yardstick = OWN if kafka else PLAIN
    for way, suffix in ((yardstick, ""), (ONCE, "-once")):
        seconds, cpu_us = found[f"large-{way}"]
        results[f"spark-sink{suffix}"] = Measured([sizes.records / s for s in seconds], cpu_us)
        seconds, cpu_us = found[f"small-{way}"]
        results[f"spark-batch{suffix}"] = Measured([s * 1000 for s in seconds], cpu_us)
    for size, row in (("large", "spark-sink-cost"), ("small", "spark-batch-cost")):
        pairs = zip(found[f"{size}-{ONCE}"][0], found[f"{size}-{PLAIN}"][0], strict=True)
        results[row] = Measured([once / plain for once, plain in pairs])


async def _create_topic(config: Mapping[str, str]) -> None:
    async with Admin(ClientConfig.from_properties(config)) as admin:
        for error in (await admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])).values():
            if error is not None:
                raise error


# The session.


def main() -> int:
    """Run the load that is asked for on the standard input."""
    load = SinkLoad(**json.load(sys.stdin))
    sizes = SinkSizes(**load.sizes)
    jars = ",".join(map(str, spark_kafka_jars()))
    spark = open_session("bench", settings={"spark.jars": jars}, quiet=True)
    try:
        run = _Session(spark, load, sizes)
        for way in run.ways:
            run.copy(way, sizes.records, 2)  # to warm up
        for number in range(sizes.repeats):
            for way in run.ways if number % 2 == 0 else reversed(run.ways):
                run.measure(f"large-{way}", way, sizes.records, sizes.large_batches)
                run.measure(f"small-{way}", way, sizes.small, sizes.small_batches)
    finally:
        spark.stop()
    print(json.dumps(run.found))
    return 0


class _Session:
    def __init__(self, spark: SparkSession, load: SinkLoad, sizes: SinkSizes) -> None:
        self.found: Found = {}
        self.ways = (OWN, PLAIN, ONCE) if load.own else (PLAIN, ONCE)
        self._spark = spark
        self._load = load
        self._queries = 0

    def measure(self, key: str, way: str, records: int, batches: int) -> None:
        """Add one repetition to a row."""
        seconds, cpu_us = self.found.setdefault(key, ([], []))
        batch_s, cpu_s = self.copy(way, records, batches)
        seconds.append(batch_s)
        cpu_us.append(cpu_s / records * 1e6)

    def copy(self, way: str, records: int, batches: int) -> tuple[float, float]:
        """Give the seconds that a micro-batch took, and the node's processor time for it."""
        self._queries += 1
        rate = self._spark.readStream.format("rate-micro-batch")
        rows = rate.option("rowsPerBatch", records).option("numPartitions", PARTITIONS).load()
        options = {"kafka.bootstrap.servers": self._load.bootstrap, "topic": TOPIC}
        if way == ONCE:
            options["exactlyOnce"] = "true"
        query = (
            rows.selectExpr(f"lpad(cast(value as string), {VALUE_BYTES}, '0') value").writeStream
            .format("kafka" if way == OWN else "barnabas").options(**options)
            .option("checkpointLocation", str(Path(self._load.folder, f"sink-{self._queries}"))).start()
        )  # fmt: skip
        try:
            _wait(query, 1)
            before = processor_seconds(self._load.pid)
            first, last = self._last(query) + 1, 1 + batches
            _wait(query, last)
            spent = processor_seconds(self._load.pid) - before
            done = self._last(query)
            taken = [s for number, s in _durations(query) if first <= number <= done]
            return sum(taken) / len(taken), spent / len(taken)
        finally:
            query.stop()

    def _last(self, query: StreamingQuery) -> int:
        return max(number for number, _ in _durations(query))


def _durations(query: StreamingQuery) -> Iterator[tuple[int, float]]:
    """Give the number of each micro-batch that is done, and how long it took: planned, written, committed, noted."""
    for progress in query.recentProgress:
        shown: Any = progress
        yield shown["batchId"], shown["durationMs"]["triggerExecution"] / 1000


def _wait(query: StreamingQuery, batch: int) -> None:
    """Wait until a micro-batch is done."""
    until = time.monotonic() + _LIMIT_S
    while (progress := query.lastProgress) is None or progress["batchId"] < batch:
        if time.monotonic() > until or not query.isActive:
            raise query.exception() or TimeoutError(f"micro-batch {batch} is not done after {_LIMIT_S:g} s")
        time.sleep(_LOOK_S)


if __name__ == "__main__":
    sys.exit(main())
