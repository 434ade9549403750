"""Streaming reads: admission, exact resume after a kill, and what a group is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from barnabas.spark.group_offsets import GroupOffsetListener

from .conftest import Topics

pytestmark = [pytest.mark.spark, pytest.mark.peer]
PATIENCE_S = 180
NOT_YET = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""What Kafka's broker says of the first group of all while the topic of offsets is being made."""


def until(done: Callable[[], bool], what: str) -> None:
    """Look again and again until `done`; fails after PATIENCE_S."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"{what} did not happen in {PATIENCE_S} s"
        time.sleep(0.05)


def committed(topics: Topics, group: str, topic: str, partitions: int) -> list[int]:
    """Give the offsets of a group as another client sees them; -1001 where there is none."""
    consumer = Consumer({"bootstrap.servers": topics.options["kafka.bootstrap.servers"], "group.id": group})
    found: list[int] = []

    def asked() -> bool:
        try:
            answers = consumer.committed([TopicPartition(topic, n) for n in range(partitions)], 30)
        except KafkaException as e:
            if e.args[0].code() not in NOT_YET:
                raise
            return False
        found.extend(answer.offset for answer in answers)
        return True

    until(asked, "a coordinator")
    consumer.close()
    return found


def stream(spark: SparkSession, topics: Topics, topic: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("barnabas").options(**topics.options, subscribe=topic)
    return (
        reader.option("startingOffsets", "earliest")
        .options(**options)
        .load()
        .selectExpr("cast(cast(value as string) as int) n")
    )


def to_parquet(frame: DataFrame, folder: Path, **trigger: Any) -> StreamingQuery:
    writer = frame.writeStream.format("parquet").option("path", str(folder / "sink"))
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(**trigger).start()


def numbers(spark: SparkSession, folder: Path) -> list[int]:
    return sorted(row.n for row in spark.read.parquet(str(folder / "sink")).collect())


def inputs(query: StreamingQuery) -> list[int]:
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def test_available_now_takes_bounded_batches_and_the_group_hears_of_the_last(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic, group = topics.create(2), f"g-{uuid.uuid4().hex[:8]}"
    topics.numbers(topic, range(25), 2)
    frame = stream(spark, topics, topic, maxOffsetsPerTrigger="10", **{"kafka.group.id": group})
    query = to_parquet(frame, tmp_path, availableNow=True)
    query.awaitTermination()
    assert inputs(query) == [10, 10, 5]
    assert numbers(spark, tmp_path) == list(range(25))
    assert committed(topics, group, topic, 2) == [13, 12]
    topics.numbers(topic, range(25, 30), 2)
    to_parquet(frame, tmp_path, availableNow=True).awaitTermination()
    assert numbers(spark, tmp_path) == list(range(30))
    assert committed(topics, group, topic, 2) == [15, 15]


def test_nothing_is_committed_without_a_group_and_new_partitions_are_read_whole(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create(1)
    topics.numbers(topic, range(5), 1)
    frame = stream(spark, topics, topic)
    to_parquet(frame, tmp_path, availableNow=True).awaitTermination()
    topics.add_partitions(topic, 3)
    topics.numbers(topic, range(5, 20), 3)
    to_parquet(frame, tmp_path, availableNow=True).awaitTermination()
    assert numbers(spark, tmp_path) == list(range(20))


def test_a_query_stopped_between_triggers_is_told_to_the_group_by_the_listener(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic, group = topics.create(1), f"g-{uuid.uuid4().hex[:8]}"
    topics.numbers(topic, range(7), 1)
    options = {**topics.options, "subscribe": topic, "kafka.group.id": group}
    listener = GroupOffsetListener(options)
    spark.streams.addListener(listener)
    try:
        frame = stream(spark, topics, topic, **{"kafka.group.id": group})
        query = to_parquet(frame, tmp_path, processingTime="1 hour")
        until(lambda: bool(inputs(query)), "the first batch")
        query.stop()
        until(lambda: committed(topics, group, topic, 1) == [7], "the commit")
    finally:
        spark.streams.removeListener(listener)


def test_after_kill_9_of_the_driver_every_record_is_there_once(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic, group = topics.create(3), f"g-{uuid.uuid4().hex[:8]}"
    topics.numbers(topic, range(3000), 3)
    options = {**topics.options, "subscribe": topic, "kafka.group.id": group, "maxOffsetsPerTrigger": "100"}
    job = {
        "master": "local[1]", "settings": {}, "options": options,
        "sink": str(tmp_path / "sink"), "checkpoint": str(tmp_path / "checkpoint"),
    }  # fmt: skip
    commits = tmp_path / "checkpoint" / "commits"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.spark.driver_program", json.dumps(job)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    ) as driver:  # fmt: skip
        try:
            until(lambda: driver.poll() is not None or (commits / "2").exists(), "the third batch")
            assert driver.poll() is None, "the driver was too quick to be killed"
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
    before = committed(topics, group, topic, 3)
    assert 200 <= sum(before) < 3000
    frame = (
        spark.readStream.format("barnabas")
        .options(**options | {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "1000"})
        .load()
        .selectExpr("cast(cast(value as string) as long) n", "partition", "offset")
    )
    to_parquet(frame, tmp_path, availableNow=True).awaitTermination()
    assert numbers(spark, tmp_path) == list(range(3000))
    assert committed(topics, group, topic, 3) == [1000, 1000, 1000]


def test_a_topic_made_anew_stops_a_query_unless_it_may_lose_records(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create(1)
    topics.numbers(topic, range(9), 1)
    to_parquet(stream(spark, topics, topic), tmp_path, availableNow=True).awaitTermination()
    topics.delete_records(topic, 9)
    topics.numbers(topic, range(9, 12), 1)
    start = json.loads((tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()[-1])
    assert start == {topic: {"0": 9}}
    topics.delete_records(topic, 11)
    with pytest.raises(Exception, match="failOnDataLoss"):
        to_parquet(stream(spark, topics, topic), tmp_path, availableNow=True).awaitTermination()
    frame = stream(spark, topics, topic, failOnDataLoss="false")
    to_parquet(frame, tmp_path, availableNow=True).awaitTermination()
    assert numbers(spark, tmp_path) == [*range(9), 11]
