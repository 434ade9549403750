"""Members of consumer groups in a chaos run: they note what they are given, and what they have committed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

import confluent_kafka

from barnabas.client.config import ClientConfig
from barnabas.client.consumer import FetchedBatches
from barnabas.client.group_consumer import GroupConsumer
from barnabas.net.client import ChannelError
from barnabas.wire.errors import ApiError
from tests.chaos.history import Consumed, History, Mark, TakenOver
from tests.chaos.worker import Worker

COMMIT_SECONDS: Final = 0.5
SESSION_MS: Final = 6_000


class LibrdkafkaConsumer(Worker):
    """librdkafka's consumer, committing by itself what it has noted down."""

    def __init__(self, name: str, history: History, settings: Mapping[str, Any], topic: str, group: str) -> None:
        super().__init__(name, history)
        self._topic, self._group = topic, group
        self._begun: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._consumer = confluent_kafka.Consumer(
            {
                **settings,
                "client.id": name,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 500,
                "topic.metadata.refresh.interval.ms": 2000,
                "reconnect.backoff.max.ms": 1000,
                "socket.connection.setup.timeout.ms": 10_000,
                "socket.timeout.ms": 10_000,
                "error_cb": lambda error: history.error(name, error.name()),
                "log_level": 2,
            }
        )

    def run(self) -> None:
        """Consume and commit until told to stop."""
        self._consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked)
        commit_at = 0.0
        while not self.stopping.is_set():
            message = self._consumer.poll(0.1)
            if message is not None:
                self._note(message)
            if time.monotonic() >= commit_at:
                self._commit()
                commit_at = time.monotonic() + COMMIT_SECONDS
        self._commit()
        self._consumer.close()

    def _assigned(self, consumer: confluent_kafka.Consumer, given: list[confluent_kafka.TopicPartition]) -> None:
        self._begun = {p.partition: self.history.highest_commit(self._group, p.partition) for p in given}
        self._next = {}

    def _revoked(self, consumer: confluent_kafka.Consumer, taken: list[confluent_kafka.TopicPartition]) -> None:
        self._commit()
        self._next = {}

    def _note(self, message: confluent_kafka.Message) -> None:
        error, value, partition, offset = message.error(), message.value(), message.partition(), message.offset()
        if error is not None:
            self.history.error(self.name, error.name())
            return
        assert value is not None
        assert partition is not None
        assert offset is not None
        if partition in self._begun:
            committed = self._begun.pop(partition)
            self.history.taken_over.append(TakenOver(self._group, self.name, partition, offset, committed))
        self.history.consumed.append(Consumed(self._group, self.name, partition, offset, Mark.decode(value)))
        self._next[partition] = offset + 1

    def _commit(self) -> None:
        if not self._next:
            return
        wanted = [confluent_kafka.TopicPartition(self._topic, p, o) for p, o in self._next.items()]
        try:
            done = self._consumer.commit(offsets=wanted, asynchronous=False)
        except confluent_kafka.KafkaException as e:
            self.history.error(self.name, e.args[0].name())
            return
        for partition in done or ():
            if partition.error is None:
                self.history.commit(self._group, partition.partition, partition.offset)
            else:
                self.history.error(self.name, partition.error.name())


class OwnConsumer(Worker):
    """Barnabas's own group consumer."""

    def __init__(self, name: str, history: History, settings: Mapping[str, str], topic: str, group: str) -> None:
        super().__init__(name, history)
        self._topic, self._group = topic, group
        self._begun: dict[int, int] = {}
        self._config = ClientConfig.from_properties(
            {
                **settings,
                "client.id": name,
                "group.id": group,
                "enable.auto.commit": "false",
                "auto.offset.reset": "earliest",
                "session.timeout.ms": str(SESSION_MS),
                "heartbeat.interval.ms": "500",
                "request.timeout.ms": "10000",
                "socket.connection.setup.timeout.ms": "10000",
            }
        )

    def run(self) -> None:
        """Consume and commit until told to stop."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                await self._member()
            except (ApiError, ChannelError) as e:
                # What an application does that is not written to live through everything: it starts again.
                self.history.refuse(self.name, str(e))
                await asyncio.sleep(0.2)

    async def _member(self) -> None:
        async with GroupConsumer(self._config, [self._topic]) as consumer:
            commit_at = 0.0
            generation = consumer.membership.generation
            while not self.stopping.is_set():
                highest = self.history.highest_commits(self._group)
                batches = await consumer.poll(200)
                if consumer.membership.generation != generation:
                    generation = consumer.membership.generation
                    self._begun = {p.partition: highest.get(p.partition, -1) for p in consumer.membership.partitions}
                for batch in batches:
                    self._note(batch)
                if time.monotonic() >= commit_at:
                    await self._commit(consumer)
                    commit_at = time.monotonic() + COMMIT_SECONDS
            await self._commit(consumer)

    def _note(self, batch: FetchedBatches) -> None:
        partition = batch.partition.partition
        columns = batch.columns()
        if partition in self._begun:
            committed = self._begun.pop(partition)
            self.history.taken_over.append(TakenOver(self._group, self.name, partition, batch.start, committed))
        for offset, value in zip(columns.offsets, columns.values, strict=True):
            mark = Mark.decode(bytes(value or b""))
            self.history.consumed.append(Consumed(self._group, self.name, partition, offset, mark))

    async def _commit(self, consumer: GroupConsumer) -> None:
        positions = {p.partition: offset for p, offset in consumer.fetcher.positions.items()}
        try:
            await consumer.commit()
        except ApiError as e:
            self.history.error(self.name, e.code.name)
            return
        for partition, offset in positions.items():
            self.history.commit(self._group, partition, offset)
