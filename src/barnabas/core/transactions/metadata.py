"""The value of one transactional id: who its producer is, and how its newest transaction stands."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from barnabas.core.coordinators.step import Producer
from barnabas.core.transactions.states import ENDING, PREVIOUS_STATES, TransactionState
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
MAX_EPOCH: Final = 2**15 - 1
"""Never given to a client, so that the coordinator can always fence the last one that was."""
NO_TIMEOUT_MS: Final = 2**31 - 1
"""Of two-phase commit (KIP-939): such a transaction waits for its owner for ever."""
EPOCH_BUMP_VERSION: Final = 2
"""From this transaction.version on, the end of each transaction bumps the epoch (KIP-890)."""


def is_exhausted(epoch: int) -> bool:
    """Say whether no later epoch may be given to a client: it needs another producer id."""
    return epoch >= MAX_EPOCH - 1


class TransactionMetadata(NamedTuple):
    """One transactional id; a tuple, as each transaction makes three of them and as many of their records.

    started_ms, updated_ms: on the wall's clock, NO_TIME before the first transaction.
    previous_producer_id: the producer id before the newest change. next_producer_id: what takes over when the
    transaction is complete, because the epochs are exhausted. client_version: the transaction.version by whose
    rules the client acts.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    updated_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0

    @property
    def producer(self) -> Producer:
        """Give who may write."""
        return Producer(self.producer_id, self.producer_epoch)

    @property
    def successor(self) -> Producer:
        """Give who may write once the transaction that is ending is complete."""
        if self.next_producer_id != NO_PRODUCER_ID and self.client_version >= EPOCH_BUMP_VERSION:
            return Producer(self.next_producer_id, 0)
        return self.producer

    @property
    def is_ending(self) -> bool:
        """Say whether the outcome is decided and not yet complete."""
        return self.state in ENDING

    @property
    def is_exhausted(self) -> bool:
        """Say whether no later epoch of the producer id may be given to a client."""
        return is_exhausted(self.producer_epoch)

    def moved(self, state: TransactionState, now_ms: int, **changes: Any) -> TransactionMetadata:
        """Give the value in another state; raises UNKNOWN_SERVER_ERROR when there is no such move."""
        if self.state not in PREVIOUS_STATES[state]:
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"transactional id {self.transactional_id} is {self.state.spelled}, which nothing leads out of to "
                f"{state.spelled}",
            )
        return self._replace(state=state, updated_ms=now_ms, previous_producer_id=self.producer_id, **changes)


def created(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> TransactionMetadata:
    """Give a transactional id that nobody has used yet: its first initialisation makes the epoch 0."""
    return TransactionMetadata(transactional_id, producer_id, NO_EPOCH, timeout_ms, now_ms)
