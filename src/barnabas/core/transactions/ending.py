"""How a transaction ends: EndTxn v0-5, fencing, and what is left to do when markers are to be written.

KIP-98; KIP-890 for clients of transaction.version 2, whose epoch grows with the end of each transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.core.coordinators.step import Producer
from barnabas.core.transactions.image import TransactionImage
from barnabas.core.transactions.metadata import (
    EPOCH_BUMP_VERSION,
    MAX_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
)
from barnabas.core.transactions.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    SETTLED,
)
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.end_txn import EndTxnRequest

NewProducerId = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Ending:
    """A transaction whose outcome is decided: the markers to write, and what `marked` recognises it by.

    offset: of the record that decided it. Clients whose epoch stays may end the next transaction in all else equally,
    while markers of this one are still being sent again.
    """

    transactional_id: str
    producer: Producer
    commit: bool
    partitions: frozenset[TopicPartition]
    coordinator_epoch: int
    transaction_version: int
    offset: int


class Decided:
    """Outcomes that were decided and that nobody has been told of yet, in the order of their records.

    This is beside the images, which alone are right: what the log did not take is found out when it is looked at.
    """

    def __init__(self) -> None:
        self._offsets: dict[str, int] = {}

    def note(self, metadata: TransactionMetadata, offset: int) -> None:
        """Take in how a transactional id stands by the record at the offset."""
        self._offsets.pop(metadata.transactional_id, None)
        if metadata.is_ending:
            self._offsets[metadata.transactional_id] = offset

    def take(self, newest: TransactionImage, committed: TransactionImage, coordinator_epoch: int) -> list[Ending]:
        """Give, once each, those that are committed. Costs in proportion to them."""
        if not self._offsets:
            return []
        taken, over = [], []
        for name, offset in self._offsets.items():
            if committed.ending.get(name) == offset:
                taken.append(ending_of(committed.transactions[name], offset, coordinator_epoch))
            elif newest.ending.get(name) == offset:
                break  # neither it nor what comes after it is committed
            over.append(name)
        for name in over:
            del self._offsets[name]
        return taken


def ending_of(metadata: TransactionMetadata, offset: int, coordinator_epoch: int) -> Ending:
    """Give the markers of a transaction that is ending. offset: of the record that decided so."""
    return Ending(
        metadata.transactional_id,
        metadata.producer,
        metadata.state is PREPARE_COMMIT,
        metadata.partitions,
        coordinator_epoch,
        metadata.client_version,
        offset,
    )


def client_version(version: int) -> int:
    """Give the transaction.version by whose rules a client acts that sends this version of EndTxn."""
    return EPOCH_BUMP_VERSION if version >= 5 else 0


def ended(
    metadata: TransactionMetadata | None, request: EndTxnRequest, by: int, new_producer_id: NewProducerId, now_ms: int
) -> TransactionMetadata | None:
    """Give the transactional id after a client's EndTxn, None when that outcome stands already.

    by: the client's transaction.version. Raises INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED,
    CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE, and what new_producer_id raises.
    """
    if not request.transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if metadata is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    asked = Producer(request.producer_id, request.producer_epoch)
    if by >= EPOCH_BUMP_VERSION:
        begins = _check_bumping(metadata, asked, commit=request.committed)
    else:
        begins = _check(metadata, asked, commit=request.committed)
    return prepared(metadata, by, new_producer_id, now_ms, commit=request.committed) if begins else None


def _check(metadata: TransactionMetadata, asked: Producer, *, commit: bool) -> bool:
    """Say whether the end begins now; False when it was already reached. For clients whose epoch stays."""
    if metadata.producer_id != asked.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if metadata.producer_epoch != asked.epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if metadata.is_ending:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if metadata.state in SETTLED:
        if metadata.state is _outcome(commit=commit):
            return False
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    return True


def _check_bumping(metadata: TransactionMetadata, asked: Producer, *, commit: bool) -> bool:
    """The same for clients whose epoch grows with each end: the epoch tells a retry from the next end.

    Settled, by the client's epoch (the epoch before is a retry) and what it asks for::

                          abort                       commit
                          before        now           before        now
        EMPTY             fenced        aborts        fenced        invalid
        COMPLETE_ABORT    done          aborts        invalid       invalid
        COMPLETE_COMMIT   invalid       aborts        done          invalid
    """
    if metadata.is_ending:
        # First of all: the client may know the next producer id already, which is not in force yet.
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    after_rotation = (
        metadata.previous_producer_id == asked.producer_id
        and asked.epoch == MAX_EPOCH - 1
        and metadata.producer_epoch == 0
    )
    is_retry = after_rotation or metadata.producer_epoch == asked.epoch + 1
    if metadata.producer_id != asked.producer_id and not after_rotation:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    completed = metadata.state in (COMPLETE_COMMIT, COMPLETE_ABORT)
    if metadata.producer_epoch != asked.epoch and not (completed and is_retry):
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if metadata.state not in SETTLED:
        return True
    if completed and is_retry:
        if metadata.state is _outcome(commit=commit):
            return False
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    if commit:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    return True  # an abort of a transaction that the coordinator never heard of: its writes may be on their way


def prepared(
    metadata: TransactionMetadata, by: int, new_producer_id: NewProducerId, now_ms: int, *, commit: bool
) -> TransactionMetadata:
    """Give the transactional id with the outcome decided, the epoch bumped by the rules of transaction.version `by`."""
    state = PREPARE_COMMIT if commit else PREPARE_ABORT
    if by < EPOCH_BUMP_VERSION:
        return metadata.moved(state, now_ms, next_producer_id=NO_PRODUCER_ID, client_version=0)
    return metadata.moved(
        state,
        now_ms,
        # At the last epoch already: whoever fenced it by older rules left it there, and it must still end.
        producer_epoch=min(metadata.producer_epoch + 1, MAX_EPOCH),
        next_producer_id=new_producer_id() if metadata.is_exhausted else NO_PRODUCER_ID,
        started_ms=metadata.started_ms if metadata.state is ONGOING else now_ms,
        client_version=by,
    )


def fenced(
    metadata: TransactionMetadata, server_version: int, new_producer_id: NewProducerId, now_ms: int
) -> TransactionMetadata:
    """Give the transactional id with its open transaction being aborted, and its producer's epoch of the past.

    server_version: the finalised transaction.version; its rules hold, whoever the client is. The bumped epoch is
    nobody's: the next initialisation bumps it once more.
    """
    if server_version >= EPOCH_BUMP_VERSION:
        return prepared(metadata, server_version, new_producer_id, now_ms, commit=False)
    aborting = prepared(metadata, 0, new_producer_id, now_ms, commit=False)
    return aborting._replace(producer_epoch=min(metadata.producer_epoch + 1, MAX_EPOCH))


def completed(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """Give the transactional id after its markers are written: the successor takes over."""
    producer = metadata.successor
    return metadata.moved(
        COMPLETE_COMMIT if metadata.state is PREPARE_COMMIT else COMPLETE_ABORT,
        now_ms,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
    )


def _outcome(*, commit: bool) -> object:
    return COMPLETE_COMMIT if commit else COMPLETE_ABORT
