"""Where a transactional producer stands: pure, without a socket or a clock (KIP-98, KIP-360, KIP-890).

The I/O is `transaction_manager`'s, the batches are `transactional_producer`'s; both ask here whether they may, and tell
here what came of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final

from barnabas.client.producer_id import NO_PRODUCER, ProducerId
from barnabas.client.transaction_errors import (
    IllegalTransactionStateError,
    TransactionError,
    Verdict,
)
from barnabas.model.topic_partition import TopicPartition


class Phase(Enum):
    """The states of Kafka's transactional producer."""

    UNINITIALIZED = auto()
    INITIALIZING = auto()
    READY = auto()
    IN_TRANSACTION = auto()
    COMMITTING = auto()
    ABORTING = auto()
    ABORTABLE_ERROR = auto()
    FATAL_ERROR = auto()


P = Phase
TRANSITIONS: Final[Mapping[Phase, frozenset[Phase]]] = {
    P.UNINITIALIZED: frozenset({P.INITIALIZING}),
    P.INITIALIZING: frozenset({P.READY, P.UNINITIALIZED, P.ABORTABLE_ERROR}),
    P.READY: frozenset({P.IN_TRANSACTION}),
    P.IN_TRANSACTION: frozenset({P.COMMITTING, P.ABORTING, P.ABORTABLE_ERROR}),
    P.COMMITTING: frozenset({P.READY, P.INITIALIZING, P.ABORTABLE_ERROR}),
    P.ABORTING: frozenset({P.READY, P.INITIALIZING}),
    P.ABORTABLE_ERROR: frozenset({P.ABORTING}),
    P.FATAL_ERROR: frozenset(),
}
"""What may follow what; FATAL_ERROR may follow everything."""
_ADVICE: Final = {
    P.UNINITIALIZED: "call init_transactions() first",
    P.INITIALIZING: "init_transactions() is not finished; call it again to wait for it",
    P.READY: "call begin() first",
    P.IN_TRANSACTION: "a transaction is open: commit() or abort() it first",
    P.COMMITTING: "the commit is not finished; call commit() again to wait for it",
    P.ABORTING: "the abort is not finished; call abort() again to wait for it",
    P.ABORTABLE_ERROR: "the transaction has failed; call abort()",
    P.FATAL_ERROR: "the producer is of no more use; close it",
}


class TransactionState:
    """One producer's transactions.

    producer: who it is now. v2: whether brokers add partitions by themselves and EndTxn gives the next epoch
    (transaction.version 2, KIP-890). can_bump: whether the coordinator gives a new epoch to whom asks (KIP-360).
    must_bump: whether one is to be asked for before the next transaction. started: whether the coordinator may know of
    this transaction, so that it has to be ended there. partitions: those that records may go to; unadded: those that
    the coordinator has to be told of first.
    """

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.phase = Phase.UNINITIALIZED
        self.producer = NO_PRODUCER
        self.v2 = False
        self.can_bump = False
        self.must_bump = False
        self.started = False
        self.partitions: set[TopicPartition] = set()
        self.unadded: set[TopicPartition] = set()
        self.error: TransactionError | None = None

    @property
    def failed(self) -> bool:
        """Say whether the transaction or the producer is lost."""
        return self.phase in (Phase.ABORTABLE_ERROR, Phase.FATAL_ERROR)

    @property
    def is_fatal(self) -> bool:
        """Say whether the producer is lost."""
        return self.phase is Phase.FATAL_ERROR

    def check(self) -> None:
        """Raise what the transaction or the producer failed with, if it did."""
        if self.error is not None and self.failed:
            raise self.error

    # The life of a producer.

    def starting(self) -> None:
        """Begin to ask for a producer id; IllegalTransactionStateError when it has one."""
        self.check()
        if self.phase is not Phase.UNINITIALIZED:
            raise self._illegal("init_transactions()")
        self._to(Phase.INITIALIZING)

    def identified(self, producer: ProducerId, *, v2: bool, can_bump: bool) -> None:
        """Take the producer id and epoch that the coordinator gave: at first, or as the bump that was asked for."""
        self.producer, self.v2, self.can_bump = producer, v2, can_bump
        self.must_bump = False
        self._to(Phase.READY)

    def begin(self) -> None:
        """Open a transaction; IllegalTransactionStateError when one is open or there is no producer id."""
        self.check()
        if self.phase is not Phase.READY:
            raise self._illegal("begin()")
        self._to(Phase.IN_TRANSACTION)

    def check_open(self, what: str) -> None:
        """Raise unless a transaction is open. what: the call that needs it, such as `send()`."""
        if self.phase is not Phase.IN_TRANSACTION:
            self.check()
            raise self._illegal(what)

    def ending(self, *, commit: bool) -> None:
        """Begin to commit or to abort. Commit raises what the transaction failed with; abort is the way out of it."""
        if commit:
            self.check_open("commit()")
            self._to(Phase.COMMITTING)
            return
        if self.phase is not Phase.ABORTABLE_ERROR:
            self.check_open("abort()")
        self.unadded.clear()
        self._to(Phase.ABORTING)

    def ended(self, given: ProducerId | None, *, v2: bool) -> bool:
        """Take the coordinator's word that the transaction has its end; say whether a new epoch is to be asked for.

        given: the producer's next id and epoch, when the answer had one. v2: what holds from the next transaction on.
        Who goes over to version 2 needs a new epoch, for brokers know the old one's partitions.
        """
        if given is not None:
            self.producer, self.must_bump = given, False
        if v2 and not self.v2:
            self.must_bump = True
        self.v2 = v2
        self.started = False
        self.partitions.clear()
        self.unadded.clear()
        self.error = None
        self._to(Phase.INITIALIZING if self.must_bump else Phase.READY)
        return self.must_bump

    # Within a transaction.

    def admits(self, partition: TopicPartition) -> bool:
        """Say whether records may go to a partition now; if not, it waits in `unadded` to be added."""
        if partition in self.partitions:
            return True
        if self.v2:
            self.partitions.add(partition)
            self.started = True
            return True
        self.unadded.add(partition)
        return False

    def added(self, partitions: Iterable[TopicPartition]) -> None:
        """Take the coordinator's word that it has added partitions."""
        partitions = set(partitions)
        self.partitions |= partitions
        self.unadded -= partitions
        self.started = True

    def adding_offsets(self) -> None:
        """Note that a group's offsets are about to be in the transaction."""
        self.started = True

    # What goes wrong.

    def fail(self, verdict: Verdict, error: TransactionError) -> bool:
        """Take a verdict of ABORT or worse; say whether the producer has come into an error state by it.

        While the transaction is being aborted anyway, only what is fatal counts. BUMP is fatal where no coordinator
        gives new epochs.
        """
        if self.is_fatal:
            return False
        if verdict is Verdict.BUMP:
            if not self.v2:
                self.must_bump = True
            if not self.v2 and not self.can_bump:
                verdict = Verdict.FATAL
        if verdict is Verdict.FATAL:
            self.phase, self.error = Phase.FATAL_ERROR, error
            return True
        if self.phase is Phase.INITIALIZING and self.producer is NO_PRODUCER:
            self._to(Phase.UNINITIALIZED)  # nothing is lost: init_transactions may be called again
            return False
        if self.phase in (Phase.ABORTING, Phase.ABORTABLE_ERROR, Phase.READY):
            return False
        self.error = error
        self._to(Phase.ABORTABLE_ERROR)
        return True

    def _to(self, phase: Phase) -> None:
        if phase not in TRANSITIONS[self.phase]:
            raise IllegalTransactionStateError(f"{self.phase.name} cannot become {phase.name}")
        self.phase = phase

    def _illegal(self, what: str) -> IllegalTransactionStateError:
        return IllegalTransactionStateError(f"{what} makes no sense now: {_ADVICE[self.phase]}")
