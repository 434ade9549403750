"""Who each producer was before its newest epoch, so that a bump whose answer was lost can be asked for again. KIP-360.

No record says this, in Kafka neither: after a hand-over such a retry is fenced. An entry counts only as long as the
producer is the one that it led to. A bump that the log refused leaves its entry behind, and somebody else may be given
the same epoch: so whoever begins anew has the entry forgotten.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.core.coordinators.step import Producer
from barnabas.core.transactions.metadata import NO_EPOCH, TransactionMetadata


class _Bump(NamedTuple):
    before: Producer
    after: Producer


class Bumps:
    """The newest bump of each transactional id that its own producer asked for."""

    def __init__(self) -> None:
        self._newest: dict[str, _Bump] = {}

    def note(self, transactional_id: str, before: Producer, after: Producer) -> None:
        """Remember what led to `after`."""
        self._newest[transactional_id] = _Bump(before, after)

    def forget(self, transactional_id: str) -> None:
        """Forget who was before: the transactional id is gone, or somebody new began."""
        self._newest.pop(transactional_id, None)

    def before(self, metadata: TransactionMetadata) -> Producer | None:
        """Give who the producer was before its newest epoch, None when that is not known or must not count."""
        bump = self._newest.get(metadata.transactional_id)
        return bump.before if bump is not None and bump.after == metadata.producer else None

    def last_epoch(self, metadata: TransactionMetadata) -> int:
        """Give the epoch before, NO_EPOCH when that is not known or must not count."""
        before = self.before(metadata)
        return NO_EPOCH if before is None else before.epoch
