"""All that a shard of `__transaction_state` says: transactional ids, and which of them need the coordinator's care.

An image is frozen and its maps are persistent, so that the committed one can be kept beside the newest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeVar

from immutables import Map

from barnabas.core.coordinators.shard import At
from barnabas.core.replicated import ReplayTable, replays
from barnabas.core.transactions import records
from barnabas.core.transactions.metadata import NO_TIMEOUT_MS, TransactionMetadata
from barnabas.core.transactions.states import ONGOING
from barnabas.wire.records.transaction_log_key import TransactionLogKey
from barnabas.wire.records.transaction_log_value import TransactionLogValue

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class TransactionImage:
    """Transactional ids by name, and two indexes of them: what costs time asks the indexes.

    ends_ms: of each open transaction that can time out, when it does, on the wall's clock. ending: whose markers
    are to be written, with the offset of the record that decided so.
    """

    transactions: Map[str, TransactionMetadata] = field(default_factory=Map)
    ends_ms: Map[str, int] = field(default_factory=Map)
    ending: Map[str, int] = field(default_factory=Map)

    def with_transaction(self, metadata: TransactionMetadata, offset: int) -> TransactionImage:
        """Give the image with the transactional id as the record at the offset says."""
        name = metadata.transactional_id
        times_out = metadata.state is ONGOING and metadata.timeout_ms != NO_TIMEOUT_MS
        return TransactionImage(
            self.transactions.set(name, metadata),
            self.ends_ms.set(name, metadata.started_ms + metadata.timeout_ms)
            if times_out
            else _without(self.ends_ms, name),
            self.ending.set(name, offset) if metadata.is_ending else _without(self.ending, name),
        )

    def without(self, transactional_id: str) -> TransactionImage:
        """Give the image without the transactional id."""
        if transactional_id not in self.transactions:
            return self
        return TransactionImage(
            self.transactions.delete(transactional_id),
            _without(self.ends_ms, transactional_id),
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


def _without(index: Map[str, V], name: str) -> Map[str, V]:
    return index.delete(name) if name in index else index
