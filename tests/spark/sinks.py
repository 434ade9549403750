"""Where the exactly once tests write to: a node of ours or Apache Kafka, and what readers see there."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.testing.users import User
from tests.peers.kafka import RealKafka

PATIENCE_S: Final = 120


@dataclass(frozen=True)
class Sink:
    """A cluster. options: for Spark; librdkafka: for the other client."""

    options: Mapping[str, str]
    librdkafka: Mapping[str, Any]

    @classmethod
    def of_user(cls, user: User, folder: Path) -> Self:
        """Give a node of ours as a user sees it, the password in a file of its own."""
        secret = folder / f"{user.name}.properties"
        secret.write_text(f"sasl.password={user.password}\n", encoding="utf-8")
        given = user.librdkafka
        options = {f"kafka.{key}": str(value) for key, value in given.items()}
        return cls(options | {"kafka.sasl.password": f"${{file:{secret}:sasl.password}}"}, given)

    @classmethod
    def of_kafka(cls, kafka: RealKafka) -> Self:
        """Give the real Kafka as its super user sees it."""
        bootstrap = kafka.bootstrap("PLAINTEXT")
        return cls({"kafka.bootstrap.servers": bootstrap}, {"bootstrap.servers": bootstrap})

    def create(self, partitions: int) -> str:
        """Give the name of a new topic."""
        name = f"once-{uuid.uuid4().hex[:8]}"
        admin = AdminClient(dict(self.librdkafka))  # by a name: its answers do not outlive it
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result()
        wait_known(admin, name, partitions)
        return name

    def numbers(self, topic: str, count: int, partitions: int) -> None:
        """Write numbers as values, over all partitions in turn."""
        producer = Producer(dict(self.librdkafka))
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=number % partitions)
        assert producer.flush(PATIENCE_S) == 0

    def seen(self, topic: str, partitions: int, *, committed: bool = True) -> Counter[int]:
        """Give how often each number is there, for readers of what is committed or of everything."""
        isolation = "read_committed" if committed else "read_uncommitted"
        more = {"group.id": "unused", "isolation.level": isolation, "enable.partition.eof": True}
        consumer = Consumer(dict(self.librdkafka) | more)
        consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(partitions)])
        found: Counter[int] = Counter()
        ended: set[int] = set()
        try:
            while len(ended) < partitions:
                message = consumer.poll(PATIENCE_S)
                assert message is not None, f"nothing came for {PATIENCE_S} s"
                error = message.error()
                if error is None:
                    found[int(message.value() or b"")] += 1
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended.add(message.partition() or 0)
        finally:
            consumer.close()
        return found

    def wait_seen(self, topic: str, partitions: int, wanted: Counter[int]) -> None:
        """Read until everything that is wanted is committed, and nothing else: markers come after the answer."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.seen(topic, partitions)) != wanted:
            assert time.monotonic() < deadline, f"missing: {wanted - found}, too much: {found - wanted}"


def wait_known(admin: AdminClient, topic: str, partitions: int) -> None:
    """Wait until the broker knows of a topic's partitions: the controller answers a moment before that."""
    deadline = time.monotonic() + PATIENCE_S
    while len(admin.list_topics(topic, PATIENCE_S).topics[topic].partitions) != partitions:
        assert time.monotonic() < deadline, f"{topic} is not known after {PATIENCE_S} s"


def once(count: int, start: int = 0) -> Counter[int]:
    """Give what is seen when every number is there once."""
    return Counter(range(start, count))


def rows(*numbers: int) -> list[pa.RecordBatch]:
    """Give the numbers as a task gets them."""
    return [pa.RecordBatch.from_pydict({"value": [b"%d" % n for n in numbers]})]
