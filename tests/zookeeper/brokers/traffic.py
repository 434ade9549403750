"""Records that are written by librdkafka and read by aiokafka all the time, while brokers come and go.

Not read by librdkafka, which locks itself up when a broker leaves the metadata while it asks for the end of a leader's
epoch (confluentinc/librdkafka#5476).
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Self

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import CommitFailedError
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

_PACE_S: Final = 0.005
_WAIT_S: Final = 120.0
_PATIENT: Final = {
    "socket.timeout.ms": 10_000,
    "retry.backoff.ms": 100,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 5_000,
}


class Traffic:
    """Use as a context manager. It makes the topic; leaving it checks that nothing was lost, doubled or reordered."""

    def __init__(self, settings: dict[str, Any], topic: str, *, partitions: int = 1, replicas: int = 1) -> None:
        self._settings = settings | _PATIENT
        self._topic = NewTopic(topic, partitions, replicas, config={"min.insync.replicas": "1"})
        self._written: dict[int, list[bytes]] = {n: [] for n in range(partitions)}
        self._acked = 0
        self._read: dict[int, dict[int, bytes]] = defaultdict(dict)
        self._changed = threading.Condition()
        self._failure: object = None
        self._given_up = False
        self._no_more = threading.Event()
        self._leave = threading.Event()
        self._threads = [
            threading.Thread(target=self._watched, args=(work,), name=work.__name__)
            for work in (self._write, self._consume)
        ]

    def __enter__(self) -> Self:
        admin = AdminClient(self._settings)
        (made,) = admin.create_topics([self._topic]).values()
        made.result(_WAIT_S)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._given_up = kind is not None
        self._no_more.set()
        try:
            self._threads[0].join()
            if kind is None:
                self._until(lambda: self._count_read() >= self._count_written(), "records are missing")
        finally:
            self._leave.set()
            self._threads[1].join()
        if kind is None:
            read = {partition: [found[at] for at in sorted(found)] for partition, found in self._read.items()}
            assert read == self._written

    def go_on(self) -> None:
        """Wait until a record is acknowledged that was not begun yet."""
        wanted = self._count_written() + 1
        self._until(lambda: self._acked >= wanted, "no record is acknowledged")

    def caught_up(self) -> None:
        """Wait until all is read that was acknowledged by now."""
        wanted = self._acked
        self._until(lambda: self._count_read() >= wanted, "records are not read")

    def _count_written(self) -> int:
        return sum(map(len, self._written.values()))

    def _count_read(self) -> int:
        return sum(map(len, tuple(self._read.values())))

    def _until(self, reached: Callable[[], bool], what: str) -> None:
        with self._changed:
            in_time = self._changed.wait_for(lambda: self._failure is not None or reached(), _WAIT_S)
        assert self._failure is None, self._failure
        counts = f"{self._count_written()} written, {self._acked} acknowledged, {self._count_read()} read"
        assert in_time, f"{what} for {_WAIT_S:g} s: {counts}"

    def _watched(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as e:
            self._tell(e)
            raise

    def _tell(self, failure: object = None) -> None:
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    def _write(self) -> None:
        producer = Producer(self._settings | {"acks": "all", "enable.idempotence": True, "linger.ms": 0})
        number = 0
        while not self._no_more.is_set():
            for partition, written in self._written.items():
                value = b"%d-%d" % (partition, number)
                written.append(value)
                producer.produce(self._topic.topic, value, partition=partition, on_delivery=self._delivered)
            number += 1
            producer.poll(_PACE_S)
        if left := producer.flush(0 if self._given_up else _WAIT_S):
            self._tell(f"{left} records are neither acknowledged nor refused")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._tell(f"{message.value()!r}: {error}")
            return
        self._acked += 1
        self._tell()

    def _consume(self) -> None:
        asyncio.run(self._consumed())

    async def _consumed(self) -> None:
        group = {"group_id": self._topic.topic, "auto_offset_reset": "earliest", "session_timeout_ms": 10_000}
        # Committed here: what commits by itself never stops when the coordinator has gone as it is to stop.
        consumer = AIOKafkaConsumer(
            self._topic.topic, **group, **_in_python(self._settings), enable_auto_commit=False
        )  # fmt: skip
        await consumer.start()
        try:
            while not self._leave.is_set():
                found = await consumer.getmany(timeout_ms=100)
                for of_partition, records in found.items():
                    self._take(of_partition.partition, {record.offset: record.value for record in records})
                if found:
                    with suppress(CommitFailedError):  # the group changes: committed with the next
                        await consumer.commit()
        finally:
            await consumer.stop()

    def _take(self, partition: int, records: dict[int, bytes]) -> None:
        found = self._read[partition]
        for offset, value in records.items():
            before = found.setdefault(offset, value)
            if before != value:
                self._tell(f"offset {offset} of {partition} was {before!r} and is {value!r}")
        self._tell()


def _in_python(settings: dict[str, Any]) -> dict[str, Any]:
    """Give librdkafka's settings of a client in aiokafka's spelling."""
    return {
        "bootstrap_servers": settings["bootstrap.servers"],
        "security_protocol": settings["security.protocol"],
        "sasl_mechanism": settings["sasl.mechanism"],
        "sasl_plain_username": settings["sasl.username"],
        "sasl_plain_password": settings["sasl.password"],
    }
