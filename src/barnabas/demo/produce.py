"""Writes the flights through confluent-kafka, as flights-writer over SASL_SSL, each exactly once.

Flight n goes to partition n modulo 6, in order, by an idempotent producer: within a run no retry repeats or reorders
anything. So whatever moment a run is killed at, a partition holds the first flights of its share without a gap, and
the next run goes on from the length of each log. No state of our own can be lost or be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from barnabas.client.config import load_properties_file
from barnabas.demo import flights
from barnabas.demo.folder import Folder
from barnabas.demo.node import DemoError
from barnabas.demo.principals import WRITER

TIMEOUT_S: Final = 120
ADMIN_TIMEOUT_S: Final = 30
SETTINGS: Final = {"enable.idempotence": True, "linger.ms": 20, "compression.type": "lz4"}


def produce(folder: Folder, first: int | None, progress: Callable[[int], None]) -> int:
    """Write the flights that are not in the topic yet, and give how many there were before.

    first: how many flights there are to be, None for all; progress: told how many are acknowledged, now and then.
    """
    client: dict[str, Any] = dict(load_properties_file(folder.client_file(WRITER)))
    ends = _log_ends(client)
    before = sum(ends)
    task = _Task(before, progress)
    producer = Producer(client | SETTINGS)
    skipped = min(ends) * flights.PARTITIONS
    for number, value in enumerate(flights.values(first, skipped), skipped):
        partition = number % flights.PARTITIONS
        if number // flights.PARTITIONS < ends[partition]:
            continue
        key = b"%d" % number
        while True:
            try:
                producer.produce(flights.TOPIC, value, key, partition, on_delivery=task.delivered)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 500 == 0:
            producer.poll(0)
        if task.error is not None:
            break
    if producer.flush(TIMEOUT_S) or task.error is not None:
        raise DemoError(f"not every flight was acknowledged: {task.error or 'the node does not answer'}")
    progress(task.acknowledged)
    return before


class _Task:
    """Counts acknowledgements."""

    def __init__(self, before: int, progress: Callable[[int], None]) -> None:
        self.acknowledged = before
        self.error: KafkaError | None = None
        self._progress = progress

    def delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.error = error
            return
        self.acknowledged += 1
        if self.acknowledged % 1000 == 0:
            self._progress(self.acknowledged)


def _log_ends(client: dict[str, Any]) -> list[int]:
    """Give how many flights each partition holds; asks as the writer, who may know since WRITE includes DESCRIBE."""
    consumer = Consumer({**client, "group.id": WRITER, "log_level": 0})  # it joins no group
    try:
        wanted = [TopicPartition(flights.TOPIC, n) for n in range(flights.PARTITIONS)]
        return [consumer.get_watermark_offsets(each, timeout=ADMIN_TIMEOUT_S)[1] for each in wanted]
    finally:
        consumer.close()
