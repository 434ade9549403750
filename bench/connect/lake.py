"""Records a second from a topic to Parquet files: our sink, and beside it Spark with its own `kafka` source."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from functools import partial
from typing import Final

from bench.connect.run import ConnectRun, Rate, RateClock
from bench.connect.spark_kafka import PARTITIONS, Files, SparkLoad
from bench.connect.worker import LIMIT_SECONDS, Worker

_KEY: Final = "connect-parquet"


def measure_lake(run: ConnectRun) -> None:
    """Measure one of them: where Apache Kafka's workers are measured that is Spark's own source."""
    if run.kafka:
        run.attempt(_KEY, partial(_sparks_own, run))
        return
    with run.worker("lake") as worker:
        _sink(run, worker, run.sizes.records // 10)
        for _ in range(run.sizes.repeats):
            run.attempt(_KEY, partial(_measure, run, worker))


def _measure(run: ConnectRun, worker: Worker) -> None:
    run.say(f"  {_KEY}")
    run.note_rate(_KEY, _sink(run, worker, run.sizes.records))


def _sink(run: ConnectRun, worker: Worker, records: int) -> Rate:
    topic, name = run.filled_topic(PARTITIONS, records), run.name("lake")
    folder = run.work / name
    files = Files(folder)
    config = {"connector.class": "SparkSink", "format": "parquet", "path": str(folder), "topics": topic}
    with worker.connector(name, config, 1):
        worker.until(lambda: files.records() > 0, "a file is in the lake")
        clock = RateClock(worker.process.pid, files.records())
        worker.until(lambda: files.records() >= records, "all records are in the lake")
        rate = clock.rate(records)
    files.remove()
    return rate


def _sparks_own(run: ConnectRun) -> None:
    records = run.sizes.records
    small = records // 10
    load = SparkLoad(
        bootstrap=run.brokers.bootstrap,
        folder=str(run.work / run.name("sparks-own")),
        warm_up=(run.filled_topic(PARTITIONS, small), small),
        measured=(run.filled_topic(PARTITIONS, records), records),
        repeats=run.sizes.repeats,
    )
    run.say(f"  {_KEY}, Spark's own source")
    done = subprocess.run(
        [sys.executable, "-m", "bench.connect.spark_kafka"],
        input=json.dumps(asdict(load)),
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS * (run.sizes.repeats + 1),
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    for rate in json.loads(done.stdout.splitlines()[-1]):
        run.note_rate(_KEY, Rate(*rate))
