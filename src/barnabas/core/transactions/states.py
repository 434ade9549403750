"""The states of a transactional id, and which may follow which. KIP-98, KIP-890."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """The value is how Kafka stores it.

    EMPTY: no transaction since the producer was initialised. ONGOING: partitions were added. PREPARE_*: how the
    transaction ends is decided, its markers are being written. COMPLETE_*: they are written. DEAD and
    PREPARE_EPOCH_FENCE are in no log that Kafka writes: its coordinator has them in mind between two records.
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def spelled(self) -> str:
        """Give how Kafka prints it, PrepareCommit for instance."""
        return self.name.title().replace("_", "")


EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, DEAD, PREPARE_EPOCH_FENCE = (
    TransactionState
)

SETTLED: Final = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
"""No transaction is open: one may begin, the producer may be initialised, the id may expire."""

ENDING: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
"""The outcome is decided, and nothing but that outcome may follow."""

PREVIOUS_STATES: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    EMPTY: SETTLED,
    ONGOING: SETTLED | {ONGOING},
    PREPARE_COMMIT: frozenset({ONGOING}),
    PREPARE_ABORT: SETTLED | {ONGOING},
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
    DEAD: frozenset(),
    PREPARE_EPOCH_FENCE: frozenset(),
}

BY_SPELLING: Final = {state.spelled: state for state in TransactionState}
