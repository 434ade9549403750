"""Processes: the leader is killed again and again under an idempotent producer."""

from __future__ import annotations

import threading
from pathlib import Path

import confluent_kafka
import pytest

from barnabas.testing.processes import ProcessCluster

pytestmark = [pytest.mark.slow, pytest.mark.crash, pytest.mark.cluster]
KILLS = 2
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "5000",
}


class Writing(threading.Thread):
    """An idempotent producer that numbers its records, and remembers which were acknowledged."""

    def __init__(self, settings: dict[str, object]) -> None:
        super().__init__(name="writing")
        self._producer = confluent_kafka.Producer(
            {**settings, "enable.idempotence": True, "linger.ms": 2, "delivery.timeout.ms": 120_000}
        )
        self.ending = threading.Event()
        self.acknowledged: dict[int, int] = {}
        self.failed: list[str] = []
        self.progress = threading.Condition()

    def run(self) -> None:
        number = 0
        while not self.ending.wait(0.002):
            self._producer.produce("killed", b"%d" % number, on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1
        assert self._producer.flush(120) == 0

    def _delivered(self, error: object, message: confluent_kafka.Message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        value, offset = message.value(), message.offset()
        assert value is not None
        assert offset is not None
        with self.progress:
            self.acknowledged[int(value)] = offset
            self.progress.notify_all()

    def wait_for_more(self, count: int) -> None:
        """Wait until so many more are acknowledged."""
        with self.progress:
            wanted = len(self.acknowledged) + count
            assert self.progress.wait_for(lambda: len(self.acknowledged) >= wanted, 120), self.failed


def test_nothing_acknowledged_is_lost_or_doubled(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path, controllers=1, brokers=3, plaintext=True, properties=SETTINGS) as cluster:
        cluster.create_topic("killed", replication_factor=3)
        writing = Writing(cluster.librdkafka())
        writing.start()
        try:
            for _ in range(KILLS):
                writing.wait_for_more(200)
                leader = cluster.leader("killed")
                leader.kill()
                writing.wait_for_more(200)
                leader.start()
        finally:
            writing.ending.set()
            writing.join()
        assert writing.failed == []
        assert _read(cluster, max(writing.acknowledged.values()) + 1) == {
            offset: number for number, offset in writing.acknowledged.items()
        }


def _read(cluster: ProcessCluster, end: int) -> dict[int, int]:
    """Give every record by its offset, up to `end`."""
    settings = {**cluster.librdkafka(), "group.id": "check", "enable.partition.eof": False}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition("killed", 0, 0)])
    found: dict[int, int] = {}
    while not found or max(found) < end - 1:
        message = cluster.wait_for(lambda: consumer.poll(0.2), lambda m: m is not None, "a record")
        assert message is not None
        assert message.error() is None
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert value is not None
        found[offset] = int(value)
    consumer.close()
    return found
