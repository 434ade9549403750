"""How many records a sink's batch may take: as many as fill a number of bytes, learnt from the batches before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

from barnabas.client.config import ClientConfig

FIRST: Final = 10_000
MOST: Final = 2_000_000
TARGET_BYTES: Final = 64 << 20
_GROWTH: Final = 16
_MAX_POLL_RECORDS: Final = "max.poll.records"


class BatchSize:
    """The limit of the next batch. target_bytes: of keys and values; most: of records, whatever their size."""

    def __init__(self, target_bytes: int = TARGET_BYTES, most: int = MOST) -> None:
        self._target_bytes = target_bytes
        self._most = most
        self.records = min(FIRST, most)

    @classmethod
    def of(cls, consumer: Mapping[str, str]) -> Self:
        """Give the limit for a consumer's settings; ConfigError for a value that is no number of records.

        `max.poll.records` counts where it is set alone: with Kafka's default, every batch would be a tiny file.
        """
        if _MAX_POLL_RECORDS not in consumer:
            return cls()
        return cls(most=ClientConfig.from_properties(consumer).integer(_MAX_POLL_RECORDS))

    def learn(self, records: int, size: int) -> None:
        """Take note of a batch that is done: grow step by step, shrink at once."""
        if records:
            fitting = self._target_bytes * records // max(size, 1)
            self.records = max(1, min(fitting, self.records * _GROWTH, self._most))
