"""Reads what is committed, all the while: it must never be shown what is not there in the end."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import confluent_kafka

from tests.chaos.history import History, Mark
from tests.chaos.worker import Worker


class Reader(Worker):
    """A read_committed consumer of a whole topic, without a group. seen: offsets and marks by partition."""

    def __init__(self, history: History, settings: Mapping[str, Any], topic: str, partitions: int) -> None:
        super().__init__(f"reader of {topic}", history)
        self.topic = topic
        self.seen: dict[int, list[tuple[int, Mark]]] = {p: [] for p in range(partitions)}
        self.times: list[float] = []
        """When each was seen, in seconds of the run."""
        self._arrived = threading.Condition()
        self._consumer = confluent_kafka.Consumer(
            {
                **settings,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "topic.metadata.refresh.interval.ms": 2000,
                "reconnect.backoff.max.ms": 1000,
                "socket.timeout.ms": 10_000,
                "log_level": 2,
            }
        )

    def run(self) -> None:
        """Read until told to stop."""
        begin = confluent_kafka.OFFSET_BEGINNING
        self._consumer.assign([confluent_kafka.TopicPartition(self.topic, p, begin) for p in self.seen])
        while not self.stopping.is_set():
            message = self._consumer.poll(0.1)
            if message is not None:
                self._note(message)
        self._consumer.close()

    def wait(self, count: int, seconds: float) -> bool:
        """Wait until so many were seen; False when it takes longer."""
        with self._arrived:
            return self._arrived.wait_for(lambda: len(self.times) >= count, seconds)

    def _note(self, message: confluent_kafka.Message) -> None:
        error, value, partition, offset = message.error(), message.value(), message.partition(), message.offset()
        if error is not None:
            self.history.error(self.name, error.name())
            return
        assert value is not None
        assert partition is not None
        assert offset is not None
        with self._arrived:
            self.seen[partition].append((offset, Mark.decode(value)))
            self.times.append(self.history.now())
            self._arrived.notify_all()
