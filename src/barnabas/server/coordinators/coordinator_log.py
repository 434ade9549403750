"""The log under a coordinator: what it needs of a partition, as a port, with a twin in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.storage.producer_verification import VerificationGuard
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.record_batch import assign, read_header


class CoordinatorLog(Protocol):
    """One partition that this node leads. high_watermark: the offset after the last committed record."""

    @property
    def leader_epoch(self) -> int:
        """Give the epoch in which this node leads."""
        ...

    @property
    def log_start_offset(self) -> int:
        """Give the offset of the first record."""
        ...

    @property
    def log_end_offset(self) -> int:
        """Give the offset that the next record gets."""
        ...

    @property
    def high_watermark(self) -> int:
        """Give the offset up to which all is committed."""
        ...

    @property
    def max_batch_bytes(self) -> int:
        """Give the size of the largest batch that is taken."""
        ...

    def append(self, batch: bytearray, *, transaction_version: int = 0, guard: VerificationGuard | None = None) -> int:
        """Append a batch, in place, and give its last offset; ApiError, and nothing changed, when it is not taken.

        transaction_version: of the transaction that it ends, when it is a marker; guard: of the verified transaction
        that it may begin.
        """
        ...

    def read(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """Give whole batches from `offset` on (at least one), and the offset after them. May block."""
        ...

    def when_committed(self, wake: Callable[[], None]) -> None:
        """Call `wake` after each move of the high watermark, until `forget`."""
        ...

    def forget(self, wake: Callable[[], None]) -> None:
        """Call `wake` no more."""
        ...


class MemoryLog:
    """A partition in memory. auto_commit: whether a batch is committed as soon as it is appended."""

    def __init__(self, *, auto_commit: bool = True, max_batch_bytes: int = 1_048_588) -> None:
        self.batches: list[bytes] = []
        self.leader_epoch = 0
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.max_batch_bytes = max_batch_bytes
        self.auto_commit = auto_commit
        self.failure: ErrorCode | None = None
        self._wake: list[Callable[[], None]] = []

    def append(
        self, batch: bytes | bytearray, *, transaction_version: int = 0, guard: VerificationGuard | None = None
    ) -> int:
        """Append, or fail as `failure` says."""
        if self.failure is not None:
            raise ApiError(self.failure)
        if len(batch) > self.max_batch_bytes:
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE)
        made = bytearray(batch)
        assign(made, 0, self.log_end_offset, 0)
        self.batches.append(bytes(made))
        self.log_end_offset += read_header(made).record_count
        if self.auto_commit:
            self.commit(self.log_end_offset)
        return self.log_end_offset - 1

    def commit(self, high_watermark: int) -> None:
        """Move the high watermark and tell who asked."""
        self.high_watermark = high_watermark
        for wake in tuple(self._wake):
            wake()

    def read(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """Give batches from `offset` on."""
        out = bytearray()
        for batch in self.batches:
            header = read_header(batch)
            if header.last_offset < offset:
                continue
            if out and len(out) + len(batch) > max_bytes:
                break
            out += batch
            offset = header.last_offset + 1
        return bytes(out), offset

    def when_committed(self, wake: Callable[[], None]) -> None:
        """Call `wake` after each commit."""
        self._wake.append(wake)

    def forget(self, wake: Callable[[], None]) -> None:
        """Call `wake` no more."""
        self._wake.remove(wake)

    @property
    def listened_to(self) -> bool:
        """Say whether anybody is told of commits."""
        return bool(self._wake)
