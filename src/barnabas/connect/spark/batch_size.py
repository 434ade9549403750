"""How many records a sink's batch may take: as many as fill a number of bytes, learnt from the batches before."""

from __future__ import annotations

from typing import Final

FIRST: Final = 10_000
MOST: Final = 2_000_000
TARGET_BYTES: Final = 64 << 20
_GROWTH: Final = 16


class BatchSize:
    """The limit of the next batch. target_bytes: of keys and values; most: of records, whatever their size."""

    def __init__(self, target_bytes: int = TARGET_BYTES, most: int = MOST) -> None:
        self._target_bytes = target_bytes
        self._most = most
        self.records = min(FIRST, most)

    def learn(self, records: int, size: int) -> None:
        """Take note of a batch that is done: grow step by step, shrink at once."""
        if records:
            fitting = self._target_bytes * records // max(size, 1)
            self.records = max(1, min(fitting, self.records * _GROWTH, self._most))
