"""What the stores of a worker's three internal topics have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from barnabas.client.config import ClientConfig
from barnabas.connect.topic_log import InternalTopic, LogRecord, TopicLog


class Store(ABC):
    """What a topic says, record by record. Use as an async context manager."""

    def __init__(self, config: ClientConfig, topic: InternalTopic) -> None:
        self._log = TopicLog(config, topic, self._replay)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Make the topic when it is missing and read it to its end; ConfigError, ApiError."""
        await self._log.open()

    async def close(self) -> None:
        """Stop following."""
        await self._log.close()

    @abstractmethod
    def _replay(self, record: LogRecord) -> None:
        """Take up a record."""
