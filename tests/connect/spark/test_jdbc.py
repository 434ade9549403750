"""JdbcSink and JdbcSource with a database inside Spark's process."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from barnabas.connect.connector import ConnectError, FencedError, TaskContext
from barnabas.connect.connectors.jdbc import Database, explained
from barnabas.connect.connectors.jdbc_sink import JdbcSink
from barnabas.model.topic_partition import TopicPartition

from .conftest import Topics, Watched

pytestmark = [pytest.mark.spark, pytest.mark.slow]
JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


@pytest.fixture
def url() -> str:
    return f"jdbc:derby:memory:{uuid.uuid4().hex};create=true"


def database(spark: SparkSession, url: str) -> Database:
    return Database(spark, {"url": url, "user": None, "password": None})


async def test_rows_and_offsets_are_committed_together(
    watched: Watched, topics: Topics, spark: SparkSession, url: str
) -> None:
    topic = topics.create(2)
    config = {
        "connector.class": "JdbcSink", "topics": topic, "url": url, "table": "numbers", "name": "jdbc",
        "select": "cast(value as int) n",
    }  # fmt: skip
    topics.produce(topic, [b"%d" % n for n in range(10)], partitions=2)
    task = await watched.start(config, name="jdbc")
    await watched.until(lambda: watched.records(task) == 10)
    await watched.runtime.stop(task)
    await watched.runtime._sink_offsets("jdbc", config).reset()
    topics.produce(topic, [b"10"])
    again = await watched.start(config, name="jdbc", generation=2)
    await watched.until(lambda: watched.records(again) == 11)
    assert sorted(row.n for row in database(spark, url).read("numbers").collect()) == list(range(11))
    await watched.runtime.stop(again)
    assert (
        await watched.runtime.reset_offsets("jdbc", config)
        == "The offsets for this connector have been reset successfully"
    )
    third = await watched.start(config, name="jdbc", generation=3)
    await watched.until(lambda: watched.records(third) == 22)


def test_a_task_that_was_replaced_writes_nothing(spark: SparkSession, url: str, tmp_path: object) -> None:
    partition = TopicPartition("t", 0)
    config = {"name": "c", "url": url, "table": "numbers", "select": "n"}
    sinks = [JdbcSink.of(config) for _ in range(2)]
    contexts = [TaskContext("c", number, 1, None, [partition]) for number in range(2)]  # type: ignore[arg-type]
    for sink, context in zip(sinks, contexts, strict=True):
        sink.open(spark, context)
        context.batch_begins, context.batch_offsets = {partition: 0}, {partition: 3}
    rows = spark.range(3).withColumnRenamed("id", "n").selectExpr("n", "cast(null as string) value")
    sinks[1].write(rows, 0)
    with pytest.raises(FencedError, match="t-0 has moved on"):
        sinks[0].write(rows, 0)
    assert database(spark, url).read("numbers").count() == 3
    sinks[0].open(spark, contexts[0])
    assert sinks[0].offsets() == {partition: 3}


async def test_new_and_changed_rows_reach_a_topic(
    watched: Watched, topics: Topics, spark: SparkSession, url: str
) -> None:
    topic = topics.create()
    there = database(spark, url)
    first, later = "timestamp'2026-01-01 00:00:00.000001'", "timestamp'2026-01-02 00:00:00'"
    there.write(spark.sql(f"SELECT id, 'a' word, {first} seen FROM range(3)"), "words", "append")
    config = {
        "connector.class": "JdbcSource", "url": url, "table": "words", "topic": topic, "poll.interval.ms": "50",
        "timestamp.column.name": "seen", "incrementing.column.name": "id", "batch.max.rows": "2", **JSON,
    }  # fmt: skip
    task = await watched.start(config)
    await watched.until(lambda: watched.records(task) == 3)
    await watched.runtime.stop(task)
    (kept,) = await watched.runtime.offsets(task.connector, config)
    assert kept.partition == {"table": "words"}
    assert kept.offset == {"timestamp": 1767225600000001, "incrementing": 2}
    with there.transaction() as work:
        work.execute('UPDATE words SET "word" = \'b\', "seen" = TIMESTAMP(\'2026-01-02 00:00:00\') WHERE "id" = 1')
    there.write(spark.sql(f"SELECT 3L id, 'c' word, {later} seen"), "words", "append")
    again = await watched.start(config, name=task.connector, generation=2)
    await watched.until(lambda: watched.records(again) == 5)
    found = [json.loads(value or b"") for value in topics.values(topic, 5)]
    assert sorted((row["id"], row["word"]) for row in found) == [(0, "a"), (1, "a"), (1, "b"), (2, "a"), (3, "c")]


def test_what_a_database_refuses_is_told_in_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    jvm: Any = spark._jvm
    with pytest.raises(ConnectError) as refused, explained():
        jvm.java.sql.DriverManager.getConnection(f"jdbc:derby:{tmp_path}/nowhere")
    assert str(refused.value) == f"java.sql.SQLException: Database '{tmp_path}/nowhere' not found."
