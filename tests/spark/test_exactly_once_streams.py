"""Exactly once with Spark: drivers and tasks are killed, on a node of ours and on Apache Kafka."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from barnabas.testing.cluster import Cluster
from tests.peers.kafka import RealKafka

from .killing import write_numbers
from .sinks import Sink, once

pytestmark = [pytest.mark.spark, pytest.mark.peer]
PER_BATCH: Final = 20
TIMEOUT_S: Final = 400
ROOT: Final = Path(__file__).parents[2]


@pytest.fixture
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sink]:
    """Give a node of ours; not the shared one, which is emptied between tests while Spark's workers look on."""
    folder = tmp_path_factory.mktemp("once")
    with Cluster(folder / "node") as cluster:
        yield Sink.of_user(cluster.admin, folder)


def stream(sink: Sink, source: str, target: str) -> tuple[dict[str, str], dict[str, str]]:
    """Give the options of reading and of writing."""
    read = {"subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(PER_BATCH)}
    return {**sink.options, **read}, {**sink.options, "topic": target, "exactlyOnce": "true"}


def finish(spark: SparkSession, read: dict[str, str], write: dict[str, str], checkpoint: Path) -> None:
    frame = spark.readStream.format("barnabas").options(**read).load().select("value")
    writer = frame.writeStream.format("barnabas").options(**write).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def run_until_killed(job: dict[str, object]) -> None:
    """Start a driver, and see it die by its own hand."""
    env = dict(os.environ) | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.spark.killing", json.dumps(job)], env=env, cwd=ROOT, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as driver:  # fmt: skip
        try:
            _, said = driver.communicate(timeout=TIMEOUT_S)
        finally:
            try:
                os.killpg(driver.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    assert driver.returncode == -signal.SIGKILL, said[-3000:]


@pytest.mark.parametrize(("where", "points"), [("ours", ("before", "after")), ("kafka", ("between",))])
def test_every_input_is_there_once_wherever_driver_and_tasks_are_killed(
    spark: SparkSession, where: str, points: tuple[str, ...], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    sink = request.getfixturevalue("ours") if where == "ours" else Sink.of_kafka(request.getfixturevalue("real_kafka"))
    source, target = sink.create(3), sink.create(2)
    sink.numbers(source, 2 * PER_BATCH, 3)
    read, write = stream(sink, source, target)
    job = {"read": read, "write": write, "checkpoint": str(tmp_path / "checkpoint"), "flag": str(tmp_path / "flag")}
    for point in points:
        run_until_killed(job | {"kills": [{"batch": 0, "at": "task"}, {"batch": 1, "at": point}]})
        if point == "before":
            assert sink.seen(target, 2).total() == PER_BATCH, "nothing of the batch is seen"
        assert max(sink.seen(target, 2).values()) == 1
        assert len(sink.seen(target, 2, committed=False)) >= 2 * PER_BATCH
    assert (tmp_path / "flag").exists(), "no task was killed"
    assert not (tmp_path / "checkpoint" / "commits" / "1").exists()
    finish(spark, read, write, tmp_path / "checkpoint")
    sink.wait_seen(target, 2, once(2 * PER_BATCH))
    assert sink.seen(target, 2, committed=False).total() > 2 * PER_BATCH, "nothing was written twice and aborted"


def test_a_batch_write_with_a_name_is_written_once_however_often_it_is_run(
    spark: SparkSession, real_kafka: RealKafka
) -> None:
    sink = Sink.of_kafka(real_kafka)
    target = sink.create(2)
    options = {**sink.options, "topic": target, "exactlyOnce": "true", "txnAppId": target}

    def write(version: int, start: int, end: int) -> None:
        frame = spark.range(start, end, numPartitions=3).select(F.col("id").cast("string").alias("value"))
        frame.write.format("barnabas").options(**options, txnVersion=version).mode("append").save()

    write(0, 0, 30)
    write(0, 0, 30)
    write(1, 30, 40)
    sink.wait_seen(target, 2, once(40))
    with pytest.raises(Exception, match="larger txnVersion"):
        write(0, 0, 30)
    assert sink.seen(target, 2) == once(40)


def test_a_batch_write_with_a_name_is_completed_when_its_driver_was_killed_amid_the_commits(
    spark: SparkSession, real_kafka: RealKafka
) -> None:
    sink = Sink.of_kafka(real_kafka)
    target = sink.create(2)
    options = {**sink.options, "topic": target, "exactlyOnce": "true", "txnAppId": target, "txnVersion": "3"}
    run_until_killed({"write": options, "rows": 30, "kills": [{"batch": 3, "at": "between"}]})
    write_numbers(spark, "barnabas", options, 30)
    sink.wait_seen(target, 2, once(30))
    written = sink.seen(target, 2, committed=False)
    assert sorted(written.values()) == [1] * 10 + [2] * 20, "one part was committed, two were written again"


def test_a_batch_write_is_seen_whole_or_not_at_all(spark: SparkSession, real_kafka: RealKafka) -> None:
    sink = Sink.of_kafka(real_kafka)
    target = sink.create(2)
    options = {**sink.options, "topic": target, "exactlyOnce": "true"}
    good = F.col("id").cast("string")
    bad = F.when(F.col("id") == 90, F.raise_error(F.lit("the row is bad"))).otherwise(good)

    def write(value: Column) -> None:
        frame = spark.range(100, numPartitions=3).select(value.alias("value"))
        frame.write.format("barnabas").options(**options).mode("append").save()

    with pytest.raises(Exception, match="the row is bad"):
        write(bad)
    assert not sink.seen(target, 2)
    write(good)
    sink.wait_seen(target, 2, once(100))
