"""Batch reads from a real Kafka, checked against what librdkafka wrote."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from .conftest import PythonRow, Topics

pytestmark = [pytest.mark.spark, pytest.mark.peer]

Values = Callable[..., list[int]]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_column_of_every_record_arrives(spark: SparkSession, topics: Topics, codec: str) -> None:
    topic = topics.create(2)
    rows: list[PythonRow] = [
        (
            n % 2,
            None if n % 5 == 0 else b"k%d" % n,
            None if n % 7 == 0 else b"v%d" % n * 20,
            [("h", b"%d" % n)] * (n % 3),
        )
        for n in range(200)
    ]
    before_ms = time.time() * 1000
    topics.produce(topic, rows, compression_type=codec)
    frame = spark.read.format("barnabas").options(**topics.options, subscribe=topic, includeHeaders="true").load()
    found = sorted(frame.collect(), key=lambda row: (row.partition, row.offset))
    expected = sorted((row for row in rows), key=lambda row: row[0])
    assert [(r.partition, r.key, r.value, [(h.key, bytes(h.value)) for h in r.headers or []]) for r in found] == [
        (partition, key, value, list(headers)) for partition, key, value, headers in expected
    ]
    assert [r.offset for r in found] == [*range(100), *range(100)]
    assert {(r.topic, r.timestampType) for r in found} == {(topic, 0)}
    assert all(abs(r.timestamp.timestamp() * 1000 - before_ms) < 60_000 for r in found)


def test_bounds_by_offset_and_by_time(topics: Topics, values: Values) -> None:
    topic = topics.create(2)
    topics.numbers(topic, range(10), 2)
    time.sleep(0.005)  # the next records must have a later millisecond
    middle_ms = int(time.time() * 1000)
    topics.numbers(topic, range(10, 20), 2)
    assert values(topic) == list(range(20))
    start = json.dumps({topic: {"0": 3, "1": -2}})
    end = json.dumps({topic: {"0": 6, "1": -1}})
    assert values(topic, startingOffsets=start, endingOffsets=end) == sorted([6, 8, 10, *range(1, 20, 2)])
    assert values(topic, startingTimestamp=str(middle_ms)) == list(range(10, 20))
    assert values(topic, endingTimestamp=str(middle_ms)) == list(range(10))
    by_partition = json.dumps({topic: {"0": middle_ms, "1": 0}})
    assert values(topic, startingOffsetsByTimestamp=by_partition) == sorted([*range(10, 20, 2), *range(1, 20, 2)])


def test_topics_by_pattern_and_partitions_by_assignment(spark: SparkSession, topics: Topics) -> None:
    one, two = topics.create(2), topics.create(1)
    topics.numbers(one, range(6), 2)
    topics.numbers(two, [100], 1)
    read = spark.read.format("barnabas").options(**topics.options)
    pattern = read.option("subscribePattern", f"{one}|{two}").load()
    assert sorted(int(r.value) for r in pattern.collect()) == [0, 1, 2, 3, 4, 5, 100]
    assigned = spark.read.format("barnabas").options(**topics.options).option("assign", json.dumps({one: [1]})).load()
    assert sorted(int(r.value) for r in assigned.collect()) == [1, 3, 5]


def test_large_partitions_are_cut(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create(1)
    topics.numbers(topic, range(1000), 1)
    frame = spark.read.format("barnabas").options(**topics.options, subscribe=topic, minPartitions="4").load()
    assert frame.rdd.getNumPartitions() == 4
    assert sorted(int(r.value) for r in frame.collect()) == list(range(1000))


def test_aborted_records_are_hidden_from_who_asks_for_committed_ones(topics: Topics, values: Values) -> None:
    topic = topics.create(1)
    producer = Producer({
        "bootstrap.servers": topics.options["kafka.bootstrap.servers"], "transactional.id": topic, "linger.ms": 1,
    })  # fmt: skip
    producer.init_transactions(120)
    for first, keep in ((0, True), (100, False), (200, True), (300, False)):
        producer.begin_transaction()
        for n in range(first, first + 10):
            producer.produce(topic, b"%d" % n, partition=0)
        producer.flush()
        producer.commit_transaction(120) if keep else producer.abort_transaction(120)
    kept = [*range(10), *range(200, 210)]
    assert values(topic, **{"kafka.isolation.level": "read_committed"}) == kept
    assert values(topic) == sorted([*kept, *range(100, 110), *range(300, 310)])
    parts = {"kafka.isolation.level": "read_committed", "minPartitions": "9", "kafka.max.partition.fetch.bytes": "100"}
    assert values(topic, **parts) == kept


def test_lost_records_stop_a_read_unless_it_may_go_on(topics: Topics, values: Values) -> None:
    topic = topics.create(1)
    topics.numbers(topic, range(5), 1)
    start = json.dumps({topic: {"0": 2}})
    end = json.dumps({topic: {"0": 9}})
    with pytest.raises(Exception, match=r"offsets 5 to 8 of .* are not there any more"):
        values(topic, startingOffsets=start, endingOffsets=end)
    assert values(topic, startingOffsets=start, endingOffsets=end, failOnDataLoss="false") == [2, 3, 4]
