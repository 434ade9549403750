"""Following transactions while a log is compacted: what of them may go, and which aborts the new index keeps.

Records of aborted transactions go at once. A marker may go only when no record of its transaction was seen on the
way: until then consumers need it to tell committed from aborted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.storage.producer_state import end_txn_marker
from barnabas.storage.transaction_index import AbortedTxn, TransactionIndex
from barnabas.wire.record_batch import BatchHeader


@dataclass(slots=True)
class _Aborted:
    txn: AbortedTxn
    seen_data: bool = False


class CleanedTransactions:
    """State between batches, which must come in the log's order. index: where aborts that stay are noted."""

    def __init__(self) -> None:
        self.index: TransactionIndex | None = None
        self._coming: list[AbortedTxn] = []
        self._ongoing_aborted: dict[int, _Aborted] = {}
        self._ongoing_committed: set[int] = set()

    def add_aborted(self, transactions: Iterable[AbortedTxn]) -> None:
        """Take in the aborted transactions of the next stretch of the log."""
        self._coming = sorted([*self._coming, *transactions], key=lambda txn: txn.first_offset, reverse=True)

    def _consume(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            txn = self._coming.pop()
            self._ongoing_aborted.setdefault(txn.producer_id, _Aborted(txn))

    def on_data(self, header: BatchHeader) -> bool:
        """Take in a batch of records; says whether its transaction was aborted, so that it may go."""
        self._consume(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._ongoing_aborted.get(header.producer_id)
        if aborted is not None:
            aborted.seen_data = True
            return True
        self._ongoing_committed.add(header.producer_id)
        return False

    def on_control(self, header: BatchHeader, batch: memoryview) -> bool:
        """Take in a control batch; says whether it may go, once its delete horizon is past."""
        self._consume(header.last_offset)
        if not header.record_count:
            return True
        marker = end_txn_marker(batch)
        if marker is None:
            return False
        if marker.commit:
            seen = header.producer_id in self._ongoing_committed
            self._ongoing_committed.discard(header.producer_id)
            return not seen
        aborted = self._ongoing_aborted.pop(header.producer_id, None)
        if aborted is not None and aborted.seen_data:
            if self.index is not None:
                self.index.append(aborted.txn)
            return False
        return True
