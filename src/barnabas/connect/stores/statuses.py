"""The status topic: how connectors and tasks do, as every worker tells.

Writing does not wait: what is put is written in the background, tried again while it is still this worker's newest
word, and `flush` waits for it. A worker gives a task up only with `put_safely`, so that it cannot undo what the task's
next worker has said already.
"""

from __future__ import annotations

import asyncio

import structlog

from barnabas.client.config import ClientConfig
from barnabas.connect.herder_port import WriteFailedError
from barnabas.connect.stores.store import Store
from barnabas.connect.topic_log import InternalTopic, LogRecord
from barnabas.core.connect.records import Record
from barnabas.core.connect.status import (
    ConnectorStatus,
    TaskStatus,
    TopicStatus,
    connector_status_record,
    task_status_record,
    topic_reset_record,
    topic_status_record,
)
from barnabas.core.connect.status_state import EMPTY_STATUSES, StatusState, may_replace, replay_status

log = structlog.get_logger("kafka.connect.storage")

_RETRY_SECONDS = 0.3


class StatusStore(Store):
    """What the status topic says."""

    def __init__(self, config: ClientConfig, topic: InternalTopic) -> None:
        super().__init__(config, topic)
        self._state = EMPTY_STATUSES
        self._waiting: dict[bytes, tuple[Record, ConnectorStatus | TaskStatus | None]] = {}
        """By key: the newest record to write, and the status behind it where another worker's may stand above it."""
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._writer: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Make the topic when it is missing and read it to its end; ConfigError, ApiError."""
        await super().open()
        self._writer = asyncio.create_task(self._write(), name=f"writer of {self._log.topic.name}")

    async def close(self) -> None:
        """Stop following; call `flush` before, so that nothing is lost."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
        await super().close()

    @property
    def state(self) -> StatusState:
        """Give what has been read."""
        return self._state

    async def read_to_end(self) -> StatusState:
        """Read to the end and give the state then."""
        await self._log.read_to_end()
        return self._state

    def put(self, status: ConnectorStatus | TaskStatus) -> None:
        """Tell a status, whatever others say."""
        self._put(_record(status))

    def put_safely(self, status: ConnectorStatus | TaskStatus) -> None:
        """Tell a status unless another worker's newer word stands there by then."""
        self._put(_record(status), status)

    def put_topic(self, status: TopicStatus) -> None:
        """Tell that a connector uses a topic."""
        self._put(topic_status_record(status))

    def reset_topics(self, connector: str) -> None:
        """Forget which topics a connector uses."""
        for topic in self._state.topics(connector):
            self._put(topic_reset_record(connector, topic.topic))

    async def flush(self) -> None:
        """Wait until all that was put is written, or has been replaced by something that is."""
        await self._idle.wait()

    def _put(self, record: Record, safely: ConnectorStatus | TaskStatus | None = None) -> None:
        self._waiting.pop(record.key, None)  # the newest word of a key is written last
        self._waiting[record.key] = (record, safely)
        self._idle.clear()
        self._work.set()

    async def _write(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            taken, self._waiting = self._waiting, {}
            records = [record for record, safely in taken.values() if safely is None or self._is_ours(safely)]
            try:
                await self._log.append(records)
            except WriteFailedError as e:
                log.warning("statuses could not be written, and will be again", why=str(e))
                await asyncio.sleep(_RETRY_SECONDS)
                self._waiting = taken | self._waiting
            if self._waiting:
                self._work.set()
            else:
                self._idle.set()

    def _is_ours(self, status: ConnectorStatus | TaskStatus) -> bool:
        if isinstance(status, TaskStatus):
            return may_replace(self._state.task(status.id), status)
        return may_replace(self._state.connector(status.connector), status)

    def _replay(self, record: LogRecord) -> None:
        self._state, complaint = replay_status(self._state, record.key or b"", record.value)
        if complaint is not None:
            log.warning("a record of the status topic is skipped", offset=record.offset, why=complaint)


def _record(status: ConnectorStatus | TaskStatus) -> Record:
    return task_status_record(status) if isinstance(status, TaskStatus) else connector_status_record(status)
