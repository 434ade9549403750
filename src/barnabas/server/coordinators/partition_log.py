"""A partition that this node leads, as a coordinator sees it: in one leader epoch, and no later one."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.model.topic_partition import TopicPartition
from barnabas.server.replication.partitions import Partitions
from barnabas.storage.log import Log
from barnabas.storage.producer_verification import VerificationGuard
from barnabas.wire.record_batch import iter_headers


class PartitionLog:
    """`server.coordinators.coordinator_log.CoordinatorLog` over a partition."""

    def __init__(self, partitions: Partitions, tp: TopicPartition) -> None:
        self._partition = partitions.leader(tp.topic, tp.partition)
        self.leader_epoch = self._partition.leader_epoch

    @property
    def _log(self) -> Log:
        return self._partition.log

    @property
    def log_start_offset(self) -> int:
        """Give the offset of the first record."""
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """Give the offset that the next record gets."""
        return self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """Give the offset up to which all is committed."""
        return self._log.high_watermark

    @property
    def max_batch_bytes(self) -> int:
        """Give the size of the largest batch that is taken."""
        return self._log.config.max_message_bytes

    def append(self, batch: bytearray, *, transaction_version: int = 0, guard: VerificationGuard | None = None) -> int:
        """Append a batch, in place, and give its last offset; ApiError, and nothing changed, when it is not taken."""
        return self._partition.append_coordinator(batch, self.leader_epoch, transaction_version, guard).last_offset

    def read(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """Give whole batches from `offset` on (at least one), and the offset after them. May block."""
        data = self._log.read(offset, max_bytes).records.read()
        whole, following = 0, offset
        for position, header in iter_headers(data, partial_tail=True):
            whole, following = position + header.size, header.last_offset + 1
        return data[:whole], following

    def when_committed(self, wake: Callable[[], None]) -> None:
        """Call `wake` after each move of the high watermark."""
        self._partition.waiters.add(wake)

    def forget(self, wake: Callable[[], None]) -> None:
        """Call `wake` no more."""
        self._partition.waiters.discard(wake)
