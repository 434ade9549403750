"""Topics on the real Kafka, and a standalone cluster of Spark's when asked for; the session is that of all tests."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from pyspark.sql import SparkSession

from tests.peers.kafka import RealKafka

from .processes import StandaloneCluster
from .sinks import wait_known

PythonRow = tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]


class Topics:
    """Makes topics on the real Kafka and fills them with librdkafka."""

    def __init__(self, kafka: RealKafka) -> None:
        self.options = {"kafka.bootstrap.servers": kafka.bootstrap("PLAINTEXT")}
        self._client: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap("PLAINTEXT")}
        self._admin = AdminClient(self._client)

    def create(self, partitions: int = 1, **config: str) -> str:
        """Give the name of a new topic."""
        name = f"spark-{uuid.uuid4().hex[:8]}"
        topic = NewTopic(name, partitions, 1, config={k.replace("_", "."): v for k, v in config.items()})
        self._admin.create_topics([topic])[name].result()
        wait_known(self._admin, name, partitions)
        return name

    def add_partitions(self, topic: str, count: int) -> None:
        """Raise the number of partitions to `count`."""
        self._admin.create_partitions([NewPartitions(topic, count)])[topic].result()
        wait_known(self._admin, topic, count)

    def delete_records(self, topic: str, before: int) -> None:
        """Delete what partition 0 holds before an offset."""
        where = TopicPartition(topic, 0, before)
        self._admin.delete_records([where])[where].result()

    def produce(self, topic: str, rows: Sequence[PythonRow], **config: Any) -> None:
        """Write (partition, key, value, headers) in order."""
        producer = Producer(self._client | {"linger.ms": 5} | {k.replace("_", "."): v for k, v in config.items()})
        for partition, key, value, headers in rows:
            producer.produce(topic, value, key, partition, headers=list(headers))
        assert producer.flush(120) == 0

    def numbers(self, topic: str, numbers: Sequence[int], partitions: int) -> None:
        """Write each number as a value, over all partitions in turn."""
        self.produce(topic, [(n % partitions, None, b"%d" % n, ()) for n in numbers])


@pytest.fixture(scope="session")
def topics(real_kafka: RealKafka) -> Topics:
    """Give what makes topics."""
    return Topics(real_kafka)


@pytest.fixture
def values(spark: SparkSession, topics: Topics) -> Callable[..., list[int]]:
    """Give a function that reads the values of a topic as sorted numbers."""

    def read(topic: str, **options: str) -> list[int]:
        frame = spark.read.format("barnabas").options(**topics.options, subscribe=topic, **options).load()
        return sorted(int(row.value) for row in frame.select("value").collect())

    return read


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """Give a Spark master and a worker, processes of their own."""
    with StandaloneCluster(tmp_path_factory.mktemp("standalone"), env=dict(os.environ)) as cluster:
        yield cluster
