"""Writes to a real Kafka, batch and streaming, read back by another client."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from barnabas.client.partitioner import partition_for_key

from .conftest import Topics

pytestmark = [pytest.mark.spark, pytest.mark.peer]


def consume(topics: Topics, topic: str, partitions: int, count: int) -> list[tuple[object, ...]]:
    """Give (partition, key, value, headers) of the first `count` records."""
    consumer = Consumer({"bootstrap.servers": topics.options["kafka.bootstrap.servers"], "group.id": "unused"})
    consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(partitions)])
    found = consumer.consume(count, 120)
    consumer.close()
    assert len(found) == count
    return [(m.partition(), m.key(), m.value(), m.headers()) for m in found]


def test_rows_become_records(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create(3)
    header = F.struct(F.lit("h").alias("key"), F.lit(b"x").alias("value"))
    frame = spark.range(500, numPartitions=2).select(
        F.concat(F.lit("k"), "id").alias("key"),
        F.col("id").cast("string").cast("binary").alias("value"),
        F.when(F.col("id") < 10, F.lit(2)).alias("partition"),
        F.when(F.col("id") == 3, F.array(header)).alias("headers"),
        F.lit(topic).alias("topic"),
    )
    frame.write.format("barnabas").options(**topics.options).mode("append").save()
    found = consume(topics, topic, 3, 500)
    assert sorted(int(value) for _, _, value, _ in found) == list(range(500))  # type: ignore[call-overload]
    for partition, key, value, headers in found:
        assert key == b"k" + value  # type: ignore[operator]
        number = int(value)  # type: ignore[call-overload]
        assert partition == (2 if number < 10 else partition_for_key(key, 3))
        assert headers == ([("h", b"x")] if number == 3 else None)


def test_a_stream_of_rows_is_written(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    source, target = topics.create(1), topics.create(2)
    topics.numbers(source, range(300), 1)
    frame = (
        spark.readStream.format("barnabas")
        .options(**topics.options, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="150")
        .load()
    )
    query = (
        frame.select("value")
        .writeStream.format("barnabas")
        .options(**topics.options, topic=target, checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = consume(topics, target, 2, 300)
    assert sorted(int(value) for _, _, value, _ in found) == list(range(300))  # type: ignore[call-overload]
    assert {partition for partition, *_ in found} <= {0, 1}


@pytest.mark.parametrize(("columns", "options", "says"), [
    (["id"], {"topic": "x"}, "needs a column `value`"),
    (["cast(id as string) value"], {}, "say where rows go"),
    (["id value"], {"topic": "x"}, "`value` is bigint, want string or binary"),
    (["cast(id as string) value", "id partition"], {"topic": "x"}, "`partition` is bigint, want int"),
    (["cast(id as string) value", "cast(null as string) topic"], {}, "a row has no topic"),
])  # fmt: skip
def test_a_write_that_cannot_work_says_why(
    spark: SparkSession, topics: Topics, columns: list[str], options: dict[str, str], says: str
) -> None:
    frame = spark.range(1).selectExpr(*columns)
    with pytest.raises(Exception, match=says):
        frame.write.format("barnabas").options(**topics.options, **options).mode("append").save()


def test_a_topic_is_not_overwritten(spark: SparkSession, topics: Topics) -> None:
    with pytest.raises(Exception, match="cannot be overwritten"):
        spark.range(1).selectExpr("cast(id as string) value").write.format("barnabas").options(
            **topics.options, topic="x"
        ).mode("overwrite").save()
