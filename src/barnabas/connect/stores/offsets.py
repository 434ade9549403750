"""The offsets topic: how far sources have been read; what a runtime keeps for its sources (`runtime.SourceOffsets`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import structlog

from barnabas.client.config import ClientConfig
from barnabas.connect.herder_port import ConnectorOffset
from barnabas.connect.stores.store import Store
from barnabas.connect.topic_log import InternalTopic, LogRecord
from barnabas.core.connect.json_converter import Json
from barnabas.core.connect.offset_state import EMPTY_OFFSETS, offset_record, replay_offset, reset_records
from barnabas.core.connect.records import Record

log = structlog.get_logger("kafka.connect.storage")


class OffsetStore(Store):
    """What the offsets topic says."""

    def __init__(self, config: ClientConfig, topic: InternalTopic) -> None:
        super().__init__(config, topic)
        self._state = EMPTY_OFFSETS

    @property
    def topic(self) -> str:
        """Give the name of the topic."""
        return self._log.topic.name

    async def read(self, connector: str, partitions: Sequence[Mapping[str, object]]) -> Sequence[ConnectorOffset]:
        """Give the newest offset of each of these partitions, in order, after reading the topic to its end."""
        await self._log.read_to_end()
        return [ConnectorOffset(p, self._state.offset(connector, _json(p))) for p in partitions]

    async def read_all(self, connector: str) -> Sequence[ConnectorOffset]:
        """Give every partition of a connector that has an offset, after reading the topic to its end."""
        await self._log.read_to_end()
        return [ConnectorOffset(known.partition, known.offset) for known in self._state.offsets(connector)]

    async def write(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        """Keep offsets, None to forget one; durable when this returns. WriteFailedError."""
        await self._log.append(self.records(connector, offsets))

    async def follow(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        """Hear that offsets are in the topic: there is no other to tell."""

    def records(self, connector: str, offsets: Sequence[ConnectorOffset]) -> list[Record]:
        """Give the records that keep offsets, None to forget one."""
        records: list[Record] = []
        for partition, offset in ((_json(o.partition), o.offset) for o in offsets):
            if offset is None:
                records += reset_records(self._state, connector, partition)
            else:
                records.append(offset_record(connector, partition, _json(offset)))
        return records

    def _replay(self, record: LogRecord) -> None:
        self._state, complaint = replay_offset(self._state, record.key, record.value)
        if complaint is not None:
            log.warning("a record of the offsets topic is skipped", offset=record.offset, why=complaint)


def _json(fields: Mapping[str, object]) -> Mapping[str, Json]:
    return cast(Mapping[str, Json], fields)
