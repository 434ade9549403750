"""All that a shard of `__transaction_state` says: transactional ids, and which of them need the coordinator's care.

An image is frozen and its maps are persistent, so that the committed one can be kept beside the newest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from immutables import Map

from barnabas.core.coordinators.shard import At
from barnabas.core.replicated import ReplayTable, replays
from barnabas.core.transactions import records
from barnabas.core.transactions.metadata import TransactionMetadata
from barnabas.wire.records.transaction_log_key import TransactionLogKey
from barnabas.wire.records.transaction_log_value import TransactionLogValue


@dataclass(frozen=True, slots=True)
class TransactionImage:
    """Transactional ids by name. ending: whose markers are to be written, with the offset of what decided so."""

    transactions: Map[str, TransactionMetadata] = field(default_factory=Map)
    ending: Map[str, int] = field(default_factory=Map)

    def with_transaction(self, metadata: TransactionMetadata, offset: int) -> TransactionImage:
        """Give the image with the transactional id as the record at the offset says."""
        name = metadata.transactional_id
        return TransactionImage(
            self.transactions.set(name, metadata),
            self.ending.set(name, offset) if metadata.is_ending else _without(self.ending, name),
        )

    def without(self, transactional_id: str) -> TransactionImage:
        """Give the image without the transactional id."""
        if transactional_id not in self.transactions:
            return self
        return TransactionImage(
            self.transactions.delete(transactional_id),
            _without(self.ending, transactional_id),
        )


@replays(TransactionLogKey)
def transaction_log(
    image: TransactionImage, key: TransactionLogKey, value: TransactionLogValue | None, at: At
) -> TransactionImage:
    """A transactional id, or its end."""
    if value is None:
        return image.without(key.transactional_id)
    return image.with_transaction(records.metadata_from(key.transactional_id, value), at.offset)


REPLAYS: Final = ReplayTable[TransactionImage]((transaction_log,))


def _without(index: Map[str, int], name: str) -> Map[str, int]:
    return index.delete(name) if name in index else index
