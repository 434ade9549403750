"""Guarding a transaction's first batch in a partition while its coordinator is asked about it (KIP-890).

A partition takes the first batch of a transaction only when the transaction's coordinator knows that the partition is
part of it; else nobody would ever write the marker that ends it. The answer counts for one state of the partition: a
marker written meanwhile makes it worthless.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.storage.producer_state import ProducerEntry
    from barnabas.wire.record_batch import BatchHeader


class VerificationGuard:
    """Names one verification, by being itself and no other."""

    __slots__ = ()


@dataclass(slots=True)
class _Verification:
    """lowest_sequence: the lowest that was sent in `epoch`. A batch after it that is verified sooner must not be
    written sooner: the first would be out of order for ever."""

    began_ms: int
    lowest_sequence: int
    epoch: int
    bumps_epochs: bool
    guard: VerificationGuard = field(default_factory=VerificationGuard)

    def seen(self, sequence: int, epoch: int) -> None:
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class Verifications:
    """Those of one partition, by producer id: at most one each. Nothing of it is on disk."""

    __slots__ = ("_by_producer", "_partition")

    def __init__(self, partition: str) -> None:
        self._partition = partition
        self._by_producer: dict[int, _Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def begin(
        self,
        entry: ProducerEntry | None,
        producer_id: int,
        epoch: int,
        sequence: int,
        now_ms: int,
        *,
        bumps_epochs: bool,
    ) -> VerificationGuard | None:
        """Give what a transaction's first batch must come with; None when its transaction is open here already.

        entry: what is known of the producer; sequence: of that batch; bumps_epochs: whether each transaction of the
        producer has an epoch of its own (`transaction.version` 2). INVALID_PRODUCER_EPOCH when it is fenced.
        """
        if entry is not None:
            entry.check_epoch(epoch, self._partition)
            if entry.is_in_transaction(epoch):
                return None
        found = self._by_producer.get(producer_id)
        if found is None:
            found = self._by_producer[producer_id] = _Verification(now_ms, sequence, epoch, bumps_epochs)
        found.seen(sequence, epoch)
        return found.guard

    def check(self, entry: ProducerEntry | None, header: BatchHeader, guard: VerificationGuard | None) -> None:
        """Refuse a transaction's first batch that was not verified, or whose transaction has ended meanwhile."""
        if entry is not None:
            if entry.is_in_transaction(header.producer_epoch):
                return
            entry.check_epoch(header.producer_epoch, self._partition)
        found = self._by_producer.get(header.producer_id)
        if found is None or found.guard is not guard:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"a batch of producer {header.producer_id} for {self._partition} is part of no open transaction",
            )

    def check_sequence(self, entry: ProducerEntry | None, header: BatchHeader) -> None:
        """Refuse a batch that overtakes one which is still being verified."""
        found = self._by_producer.get(header.producer_id)
        if found is None:
            return
        first = header.base_sequence
        if found.bumps_epochs and first != 0 and (entry is None or not entry.batches):
            expected = "the first batch of a producer has 0"
        elif first > found.lowest_sequence:
            expected = f"{found.lowest_sequence} came before it, and is not written yet"
        else:
            return
        raise ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} sends sequence {first} to {self._partition}: {expected}",
        )

    def written(self, header: BatchHeader) -> None:
        """Take note of a batch of a transaction: it has begun here, or was ended, and its guard counts no more."""
        found = self._by_producer.get(header.producer_id)
        if found is None or not header.is_transactional:
            return
        if header.is_control and found.bumps_epochs and header.producer_epoch == found.epoch:
            return  # the marker of the transaction before, in whose last epoch this one begins
        del self._by_producer[header.producer_id]

    def expire(self, before_ms: int) -> None:
        """Forget those that began at `before_ms` or earlier, and that nobody brought to an end."""
        for producer_id in [pid for pid, one in self._by_producer.items() if one.began_ms <= before_ms]:
            del self._by_producer[producer_id]
