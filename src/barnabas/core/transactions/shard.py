"""One partition of `__transaction_state` as a machine: requests, deadlines and log records in, `Step`s out.

Hard state is the image and changes by replay alone. Every answer, a refusal too, is a step's response: it waits until
all that it was decided on is committed, so that nobody is fenced by an epoch that then never came to be.

What Kafka refuses while a record is on its way. Its coordinator decides on what is committed, so it must send
away (CONCURRENT_TRANSACTIONS) whoever comes between a decision and its commit. Here the second decision sees the
first, and its answer waits for both: two initialisations at once get two epochs, an AddPartitionsToTxn may follow
another before that is answered. None of this could be told from a coordinator with a faster disk. What remains is the
time from the prepared to the complete outcome, which ends with markers in other logs: then all that would change the
transactional id (InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn) is CONCURRENT_TRANSACTIONS, before a
look at the producer id, because EndTxn was answered already with a producer id that is not in force until then.
EndTxn of clients before transaction.version 2 looks at the producer first, in Kafka too. As in Kafka, an
EndTxn for the other outcome hears INVALID_TXN_STATE only once the first is complete.

An InitProducerId that finds an open transaction begins its abort; it is CONCURRENT_TRANSACTIONS once that is committed.
Kafka keeps in mind that a fencing failed to be written, so as not to bump the epoch twice; here what was not written
did not happen, and what takes too long is in the image all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from barnabas.core.coordinators.deadlines import Deadlines
from barnabas.core.coordinators.shard import At
from barnabas.core.coordinators.step import Now, Producer, Step
from barnabas.core.transactions import ending, expiry, init_producer_id, partitions, records
from barnabas.core.transactions.bumps import Bumps
from barnabas.core.transactions.config import TransactionConfig
from barnabas.core.transactions.ending import Decided, Ending
from barnabas.core.transactions.errors import in_version
from barnabas.core.transactions.expiry import Timeouts
from barnabas.core.transactions.image import REPLAYS, TransactionImage
from barnabas.core.transactions.metadata import EPOCH_BUMP_VERSION, NO_EPOCH, NO_PRODUCER_ID, TransactionMetadata
from barnabas.core.transactions.states import PREPARE_ABORT
from barnabas.core.transactions.tally import Tally
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.coordinator_records import CoordinatorRecord
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.records.transaction_log_key import TransactionLogKey

ABORTS_A_PASS: Final = 100
EXPIRIES_A_PASS: Final = 1_000
PAUSE_MS: Final = 10
"""Between two parts of a pass, so that requests get in."""

_ABORTS: Final = ("abort-timed-out",)
_EXPIRIES: Final = ("remove-expired",)


class TransactionShard:
    """The transactional ids of one partition, as of one of its leader's epochs."""

    def __init__(
        self,
        config: TransactionConfig,
        coordinator_epoch: int,
        next_producer_id: Callable[[], int],
        transaction_version: Callable[[], int],
        tally: Tally | None = None,
    ) -> None:
        """next_producer_id: raises COORDINATOR_LOAD_IN_PROGRESS when none is at hand.

        transaction_version: gives the finalised level. tally: where to count, the shard's own unless it is shared.
        """
        self.config = config
        self.coordinator_epoch = coordinator_epoch
        self.tally = tally or Tally()
        self.image = TransactionImage()
        self._next_producer_id = next_producer_id
        self._transaction_version = transaction_version
        self._bumps = Bumps()
        self._timeouts = Timeouts()
        self._decided = Decided()
        self._deadlines: Deadlines[Callable[[Now], Step[None]]] = Deadlines()
        self._to_visit: list[str] = []

    # the log

    def replay(self, record: CoordinatorRecord, at: At) -> bool:
        """Take one record in; False for kinds that this release does not know: they stay in the log."""
        if not isinstance(record.key, TransactionLogKey):
            return False
        self.image = REPLAYS.replay(self.image, record.key, record.value, at)
        name = record.key.transactional_id
        metadata = self.image.transactions.get(name)
        if metadata is None:
            self._timeouts.forget(name)
        else:
            self._timeouts.note(metadata)
            self._decided.note(metadata, at.offset)
        return True

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Nothing: no record of this topic is part of a transaction."""

    def loaded(self, now: Now) -> Step[None]:
        """Begin to serve. What was ending is what `decided` gives first."""
        self._plan(_ABORTS, self._abort_timed_out, now, self.config.abort_timed_out_interval_ms)
        self._plan(_EXPIRIES, self._remove_expired, now, self.config.remove_expired_interval_ms)
        return Step()

    def unload(self, now: Now) -> Step[None]:
        """Stop serving."""
        self._deadlines.clear()
        self._to_visit.clear()
        self._bumps, self._timeouts, self._decided = Bumps(), Timeouts(), Decided()
        self.image = TransactionImage()
        return Step()

    def held(self) -> int:
        """Give how many transactional ids there are."""
        return len(self.image.transactions)

    # requests

    def init_producer_id(self, request: InitProducerIdRequest, version: int, now: Now) -> Step[InitProducerIdResponse]:
        """Make the client the only producer of a transactional id: InitProducerId v0-6.

        CONCURRENT_TRANSACTIONS when a transaction has to end first; if it was open, its abort begins by this.
        """
        try:
            asked = init_producer_id.wanted(request, self.config)
            metadata = self.image.transactions.get(asked.transactional_id)
            after = init_producer_id.initialised(
                metadata, asked, self._bumps, self._transaction_version(), self._next_producer_id, now.wall_ms
            )
        except ApiError as e:
            return Step(response=_not_initialised(in_version(e.code, version, 4)))
        if metadata is not None and after.state is PREPARE_ABORT:
            response = _not_initialised(ErrorCode.CONCURRENT_TRANSACTIONS)
            return Step((self._ended(metadata, after),), response)
        response = InitProducerIdResponse(producer_id=after.producer_id, producer_epoch=after.producer_epoch)
        return Step((self._record(after),), response)

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        added: Iterable[TopicPartition],
        version: int,
        now: Now,
    ) -> Step[ErrorCode]:
        """Take partitions into a transaction, which begins by the first: AddPartitionsToTxn v0-5.

        The answer holds for each of the partitions.
        """
        by = partitions.client_version(version)
        return self._add(transactional_id, producer, frozenset(added), by, version, now)

    def add_offsets(
        self, transactional_id: str, producer: Producer, of_group: TopicPartition, version: int, now: Now
    ) -> Step[ErrorCode]:
        """Take a group's offsets into a transaction: AddOffsetsToTxn v0-4. of_group: in `__consumer_offsets`.

        Only clients before transaction.version 2 ask for this.
        """
        return self._add(transactional_id, producer, frozenset({of_group}), 0, version, now)

    def _add(
        self,
        transactional_id: str,
        producer: Producer,
        added: frozenset[TopicPartition],
        by: int,
        version: int,
        now: Now,
    ) -> Step[ErrorCode]:
        if not transactional_id:
            return Step(response=ErrorCode.INVALID_REQUEST)
        try:
            metadata = self.image.transactions.get(transactional_id)
            after = partitions.added(metadata, producer, added, by, now.wall_ms)
        except ApiError as e:
            return Step(response=in_version(e.code, version, 2))
        return Step(() if after is None else (self._record(after),), ErrorCode.NONE)

    def verify_partitions(
        self, transactional_id: str, producer: Producer, asked: Iterable[TopicPartition]
    ) -> Step[Mapping[TopicPartition, ErrorCode]]:
        """Say which partitions are in the transaction that is open: AddPartitionsToTxn v4-5 with verify_only."""
        asked = frozenset(asked)
        if not transactional_id:
            return Step(response=dict.fromkeys(asked, ErrorCode.INVALID_REQUEST))
        try:
            metadata = self.image.transactions.get(transactional_id)
            return Step(response=partitions.verified(metadata, producer, asked))
        except ApiError as e:
            return Step(response=dict.fromkeys(asked, e.code))

    def end_txn(self, request: EndTxnRequest, version: int, now: Now) -> Step[EndTxnResponse]:
        """Decide how a transaction ends: EndTxn v0-5. Since v5 the answer says who the producer is from now on."""
        by = ending.client_version(version)
        metadata = self.image.transactions.get(request.transactional_id)
        try:
            after = ending.ended(metadata, request, by, self._next_producer_id, now.wall_ms)
        except ApiError as e:
            return Step(response=EndTxnResponse(error_code=in_version(e.code, version, 2)))
        assert metadata is not None
        made = () if after is None else (self._ended(metadata, after),)
        response = EndTxnResponse()
        if by >= EPOCH_BUMP_VERSION:
            response.producer_id, response.producer_epoch = (after or metadata).successor
        return Step(made, response)

    # endings

    def decided(self, committed: TransactionImage) -> list[Ending]:
        """Give, once each, transactions whose outcome is decided for good: their markers are to be written."""
        return self._decided.take(self.image, committed, self.coordinator_epoch)

    def marked(self, done: Ending, now: Now) -> Step[None]:
        """Take in that all markers are written; nothing happens when that is known already, or of another time."""
        offset = self.image.ending.get(done.transactional_id)
        if offset is None:
            return Step()
        metadata = self.image.transactions[done.transactional_id]
        if ending.ending_of(metadata, offset, self.coordinator_epoch) != done:
            return Step()
        return Step((self._record(ending.completed(metadata, now.wall_ms)),))

    # time

    def next_deadline_ms(self) -> int | None:
        """Give when, on the monotonic clock, `tick` has something to do next."""
        return self._deadlines.next_ms()

    def tick(self, now: Now) -> Step[None] | None:
        """Do the one most overdue thing, or give None when nothing is due. Call until None."""
        action = self._deadlines.pop_due(now.monotonic_ms)
        return None if action is None else action(now)

    def _plan(self, key: tuple[str, ...], action: Callable[[Now], Step[None]], now: Now, in_ms: int) -> None:
        self._deadlines.schedule(key, now.monotonic_ms + in_ms, action)

    def _abort_timed_out(self, now: Now) -> Step[None]:
        made = []
        for transactional_id in self._timeouts.late(self.image, now.wall_ms, ABORTS_A_PASS):
            metadata = self.image.transactions[transactional_id]
            try:
                after = ending.fenced(metadata, self._transaction_version(), self._next_producer_id, now.wall_ms)
            except ApiError:
                continue  # it needs a producer id and there is none: the next pass tries again
            made.append(self._ended(metadata, after))
        self.tally.time_outs += len(made)
        more = len(made) == ABORTS_A_PASS
        self._plan(_ABORTS, self._abort_timed_out, now, PAUSE_MS if more else self.config.abort_timed_out_interval_ms)
        return Step(tuple(made), atomic=False)

    def _remove_expired(self, now: Now) -> Step[None]:
        if not self._to_visit:
            self._to_visit = sorted(self.image.transactions)
        visited, self._to_visit = self._to_visit[:EXPIRIES_A_PASS], self._to_visit[EXPIRIES_A_PASS:]
        gone = expiry.expired(self.config, self.image, visited, now.wall_ms)
        for transactional_id in gone:
            self._bumps.forget(transactional_id)
        self.tally.ids_expired += len(gone)
        pause_ms = PAUSE_MS if self._to_visit else self.config.remove_expired_interval_ms
        self._plan(_EXPIRIES, self._remove_expired, now, pause_ms)
        return Step(tuple(records.tombstone(transactional_id) for transactional_id in gone), atomic=False)

    # records

    def _ended(self, before: TransactionMetadata, after: TransactionMetadata) -> CoordinatorRecord:
        """Write down how a transaction ends, and who its producer was if that may still ask (KIP-360)."""
        if after.client_version >= EPOCH_BUMP_VERSION:
            self._bumps.note(after.transactional_id, before.producer, after.successor)
        if after.state is PREPARE_ABORT:
            self.tally.aborts += 1
        else:
            self.tally.commits += 1
        return self._record(after)

    def _record(self, metadata: TransactionMetadata) -> CoordinatorRecord:
        return records.transaction(metadata, self._transaction_version())


def _not_initialised(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)
