"""Where a source keeps its offsets, and how they are changed: the worker's topic, or one of the connector's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import structlog

from barnabas.client.config import ClientConfig
from barnabas.client.transactional_producer import TransactionalProducer
from barnabas.connect.config import transactional
from barnabas.connect.herder_port import ConnectorOffset, HerderError
from barnabas.connect.internal_topics import connector_offsets_topic
from barnabas.connect.runtime import SourceOffsets
from barnabas.connect.spark.settings import SparkSettings
from barnabas.connect.stores.connector_offsets import ConnectorOffsets
from barnabas.connect.stores.offsets import OffsetStore
from barnabas.connect.transactional import TransactionalWriter
from barnabas.core.connect.exactly_once import task_transactional_id
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.wire.errors import ApiError

log = structlog.get_logger("barnabas.connect.task")


class OffsetsOfSources:
    """The offsets of every source of a worker. shared: those in the worker's topic."""

    def __init__(self, settings: SparkSettings, shared: SourceOffsets) -> None:
        self._settings = settings
        self._shared = shared

    @asynccontextmanager
    async def of(self, task: ConnectorTaskId, config: Mapping[str, str]) -> AsyncIterator[SourceOffsets]:
        """Give those of a connector, while they are followed. config: the connector's; ConfigError, ApiError."""
        producer = self._settings.producer(task, config)
        name = config.get("offsets.storage.topic")
        exactly_once = self._settings.worker.source_support.transactional_tasks
        elsewhere = exactly_once and _brokers(producer) != _brokers(self._settings.worker.properties)
        if not elsewhere and name in (None, "", self._settings.worker.text("offset.storage.topic")):
            yield self._shared
            return
        topic = connector_offsets_topic(
            self._settings.worker, name or self._settings.worker.text("offset.storage.topic")
        )
        own = ConnectorOffsets(OffsetStore(ClientConfig.from_properties(producer), topic), self._shared)
        await own.open()
        try:
            yield own
        finally:
            await own.close()

    def writer(self, task: ConnectorTaskId, config: Mapping[str, str]) -> TransactionalWriter:
        """Give what a task writes with in transactions; whoever wrote so before is shut out once it is initialized."""
        given = self._settings.producer(task, config)
        properties = transactional(given, task_transactional_id(self._settings.worker.text("group.id"), task))
        for key in ("transactional.id", "enable.idempotence", "acks"):
            if key in given and given[key] not in (properties[key], "-1"):
                log.warning(
                    "a setting of a source's producer has no effect, for the task writes in transactions",
                    task=str(task),
                    setting=f"{key}={given[key]}",
                    instead=properties[key],
                )
        return TransactionalProducer(ClientConfig.from_properties(properties))

    async def read_all(self, name: str, config: Mapping[str, str]) -> Sequence[ConnectorOffset]:
        """Give every partition of a connector that has an offset."""
        async with self.of(ConnectorTaskId(name, 0), config) as offsets:
            return await offsets.read_all(name)

    async def change(self, name: str, config: Mapping[str, str], wanted: Sequence[ConnectorOffset]) -> None:
        """Keep offsets of a connector that is stopped everywhere, None to forget one; HerderError.

        In a transaction of its first task where sources write so: then a task of before that is still there can not
        keep its own any more.
        """
        task = ConnectorTaskId(name, 0)
        async with self.of(task, config) as offsets:
            if not self._settings.worker.source_support.transactional_tasks:
                await offsets.write(name, wanted)
                return
            writer = self.writer(task, config)
            try:
                await writer.init_transactions()
                await writer.begin()
                for record in offsets.records(name, wanted):
                    await writer.send(offsets.topic, record.value, key=record.key)
                await writer.commit()
            except ApiError as e:
                raise HerderError(f"the offsets of connector {name} were not changed: {e}") from e
            finally:
                await writer.close(flush=False)
            await offsets.follow(name, wanted)


def _brokers(properties: Mapping[str, str]) -> set[str]:
    return {each.strip() for each in properties.get("bootstrap.servers", "").split(",")}
