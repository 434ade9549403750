"""Idempotent producers of a chaos run: each sends every number once to each partition, and notes what it is told."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any, Final

import confluent_kafka

from barnabas.client.accumulator import Delivery
from barnabas.client.config import ClientConfig
from barnabas.client.producer import Producer
from tests.chaos.history import Acknowledged, History, Mark
from tests.chaos.worker import Worker

FLUSH_SECONDS: Final = 120.0
_EVER_MS: Final = 3_600_000
"""Longer than any run: a record that is given up may or may not be there, and proves nothing."""


class LibrdkafkaProducer(Worker):
    """librdkafka's idempotent producer."""

    def __init__(
        self, name: str, history: History, settings: Mapping[str, Any], topic: str, partitions: int, rate: float
    ) -> None:
        """rate: records a second over all partitions."""
        super().__init__(name, history)
        self._topic, self._partitions, self._pause = topic, partitions, 1 / rate
        self._producer = confluent_kafka.Producer(
            {
                **settings,
                "client.id": name,
                "enable.idempotence": True,
                "acks": "all",
                # With more, a request that is refused for want of replicas makes the next one look out of order, and
                # librdkafka then writes again, under a new epoch, what may be there already: its issue 4953.
                "max.in.flight": 1,
                "linger.ms": 5,
                "message.timeout.ms": _EVER_MS,
                "retry.backoff.ms": 50,
                "retry.backoff.max.ms": 500,
                "reconnect.backoff.max.ms": 1000,
                "socket.connection.setup.timeout.ms": 10_000,
                "request.timeout.ms": 10_000,
                "error_cb": self._error,
                "log_level": 2,
            }
        )

    def run(self) -> None:
        """Send, at an even pace, until told to stop; then wait for what is under way."""
        for number in itertools.count():
            for partition in range(self._partitions):
                self._send(partition, Mark(self.name, number))
                self._producer.poll(0)
                if self.stopping.wait(self._pause):
                    left = self._producer.flush(FLUSH_SECONDS)
                    if left:
                        self.history.surprises.append(
                            f"{self.name}: {left} records are not acknowledged {FLUSH_SECONDS:g} s after all faults"
                        )
                    return

    def _send(self, partition: int, mark: Mark) -> None:
        def told(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            if error is None:
                offset = message.offset()
                self.history.acknowledged.append(
                    Acknowledged(partition, mark, -1 if offset is None else offset, self.history.now())
                )
            else:
                self.history.failed.append((partition, mark, error.name()))
                self.history.refuse(self.name, error.name())

        while True:
            try:
                self._producer.produce(self._topic, mark.encode(), partition=partition, on_delivery=told)
            except BufferError:
                if self.stopping.is_set():
                    return
                self._producer.poll(0.1)
            else:
                return

    def _error(self, error: confluent_kafka.KafkaError) -> None:
        self.history.error(self.name, error.name())
        if error.fatal():
            self.history.surprises.append(f"{self.name}: fatal error {error}")


class OwnProducer(Worker):
    """Barnabas's own idempotent producer."""

    def __init__(
        self, name: str, history: History, settings: Mapping[str, str], topic: str, partitions: int, rate: float
    ) -> None:
        """rate: records a second over all partitions."""
        super().__init__(name, history)
        self._topic, self._partitions, self._pause = topic, partitions, 1 / rate
        self._config = ClientConfig.from_properties(
            {
                **settings,
                "client.id": name,
                "enable.idempotence": "true",
                "delivery.timeout.ms": str(_EVER_MS),
                "request.timeout.ms": "10000",
                "socket.connection.setup.timeout.ms": "10000",
            }
        )
        self._waiting: set[asyncio.Task[None]] = set()

    def run(self) -> None:
        """Send, at an even pace, until told to stop; then wait for what is under way."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        async with Producer(self._config) as producer:
            for number in itertools.count():
                for partition in range(self._partitions):
                    await self._send(producer, partition, Mark(self.name, number))
                    await asyncio.sleep(self._pause)
                    if self.stopping.is_set():
                        await self._settle()
                        return

    async def _settle(self) -> None:
        if not self._waiting:
            return
        _, left = await asyncio.wait(self._waiting, timeout=FLUSH_SECONDS)
        if left:
            self.history.surprises.append(
                f"{self.name}: {len(left)} records are not acknowledged {FLUSH_SECONDS:g} s after all faults"
            )

    async def _send(self, producer: Producer, partition: int, mark: Mark) -> None:
        delivery = await producer.send(self._topic, mark.encode(), partition=partition)
        task = asyncio.get_running_loop().create_task(self._told(delivery, partition, mark))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _told(self, delivery: Delivery, partition: int, mark: Mark) -> None:
        try:
            written = await delivery
        except Exception as e:  # noqa: BLE001  whatever the reason, it is what the client was told
            self.history.failed.append((partition, mark, str(e)))
            self.history.refuse(self.name, str(e))
        else:
            self.history.acknowledged.append(Acknowledged(partition, mark, written.offset, self.history.now()))
