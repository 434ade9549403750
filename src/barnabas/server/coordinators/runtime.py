"""The runtime of a coordinator's shard: load by replay, decide, append, answer when committed, and keep its deadlines.

Steps that are taken in one turn of the event loop share a batch. State is ahead of the log for that long;
when the batch is not taken, the shard goes back to what the log holds and everybody who waited is refused.
What is part of a producer's transaction is a batch of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, Final, Generic, TypeVar

import structlog

from barnabas.core.coordinators.shard import NO_PRODUCER, At, Shard
from barnabas.core.coordinators.step import Now, Producer, Step
from barnabas.core.replicated import Replicated
from barnabas.model.ports import Clock
from barnabas.server.coordinators.coordinator_log import CoordinatorLog
from barnabas.storage.producer_verification import VerificationGuard
from barnabas.wire.batch_writer import BatchBuilder
from barnabas.wire.coordinator_records import CoordinatorRecord, UnknownRecord, encode_coordinator_record
from barnabas.wire.errors import ApiError, ErrorCode, ProtocolError
from barnabas.wire.record_batch import (
    Compression,
    ControlType,
    Record,
    control_batch,
    decode_batch,
    decode_control,
    iter_headers,
)
from barnabas.wire.records.end_txn_marker import EndTxnMarker

S = TypeVar("S", bound=Shard[Any])
I = TypeVar("I")  # noqa: E741
R = TypeVar("R")
Ask = Callable[[S, Now], Step[R]]
_RECORD_OVERHEAD_BYTES: Final = 40
"""More than a record's own fields and its part of the batch header can take."""

_OF_PRODUCERS: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE)


class ShardState(Enum):
    """LOADING until the log is replayed; CLOSED for good."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How shards use their logs.

    linger_ms: how long writes gather into a batch; none or less: as long as the loop's turn lasts.
    commit_timeout_ms: how long a batch may take to be committed before everybody who waits for it is told that it
    takes too long; it stays in the log, and counts once it is committed.
    """

    load_buffer_bytes: int = 5 * 1024 * 1024
    compression: Compression = Compression.NONE
    linger_ms: int = -1
    commit_timeout_ms: int = 5_000


@dataclass(frozen=True, slots=True)
class Kind:
    """What is special about the shards of one topic.

    what: they hold, in the plural, for the log. decode: gives a record of the topic. refusal: what a client is told
    for an error of the log.
    """

    what: str
    logger: str
    decode: Callable[[bytes, bytes | None], CoordinatorRecord | UnknownRecord]
    refusal: Callable[[ErrorCode], ErrorCode]


@dataclass(frozen=True, slots=True)
class Marker:
    """How a producer's transaction ends: what its coordinator has a partition write (KIP-98, KIP-890)."""

    producer: Producer
    commit: bool
    coordinator_epoch: int
    transaction_version: int = 0

    def batch(self, now_ms: int) -> bytearray:
        """Give the control batch."""
        kind = ControlType.COMMIT if self.commit else ControlType.ABORT
        batch = control_batch(
            [(kind, EndTxnMarker(coordinator_epoch=self.coordinator_epoch))],
            timestamp=now_ms,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            transactional=True,
        )
        return bytearray(batch)


_Waiter = Callable[[ErrorCode], None]
"""Is told that records are committed (NONE), or why they are not. It may be told again, which then counts no more."""


@dataclass(slots=True)
class _Batch:
    """What is decided but not in the log yet. image: what the shard holds with it, and with nothing that is later."""

    image: Any = None
    records: BatchBuilder = field(default_factory=BatchBuilder)
    size: int = 0
    waiters: list[_Waiter] = field(default_factory=list)
    producer: Producer | None = None
    guard: VerificationGuard | None = None


class ShardRuntime(Generic[S, I]):
    """Runs one shard on one partition's log. Belongs to one event loop; nothing here is for other threads."""

    def __init__(
        self,
        kind: Kind,
        shard: S,
        partition: CoordinatorLog,
        clock: Clock,
        *,
        name: str,
        settings: LogSettings,
    ) -> None:
        self._kind = kind
        self._logger = structlog.get_logger(kind.logger)
        self.shard = shard
        self.state = ShardState.LOADING
        self.load_time_ms = 0
        self.on_commit: Callable[[], None] | None = None
        """Called when the committed state has changed, as long as this serves, and all that was loaded is committed."""
        self._loaded_to = 0
        self._log = partition
        self._clock = clock
        self._name = name
        self._settings = settings
        self._replicated: Replicated[I, _Waiter] = Replicated(shard.image)
        self._batch = _Batch()
        self._next_offset = 0
        self._appending = False
        self._left_alone = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0

    # loading and unloading

    async def load(self) -> None:
        """Replay the log, then serve. A log that cannot be read leaves the shard FAILED, which is logged."""
        started = self._clock.monotonic_ms()
        end = self._log.log_end_offset
        try:
            if self._log.log_start_offset < end:
                await asyncio.to_thread(self._replay, self._log.log_start_offset, end)
        except (ApiError, ProtocolError, OSError) as e:
            self.state = ShardState.FAILED
            self._logger.error(f"cannot load {self._kind.what}", partition=self._name, error=str(e))
            return
        if self.state is not ShardState.LOADING:
            return
        self._next_offset = self._loaded_to = end
        self._replicated = Replicated(self.shard.image, end - 1)
        self._replicated.committed_offset = min(end, self._log.high_watermark) - 1
        self._log.when_committed(self._committed)
        self.state = ShardState.ACTIVE
        now = self._now()
        self._take(self.shard.loaded(now), now)
        self._arm()
        self._tell_of_commit()
        self.load_time_ms = self._clock.monotonic_ms() - started
        if self._left_alone:
            # Of protocols that are not served, or records of a newer Kafka: the log keeps them.
            self._logger.warning("records of a kind not served here", partition=self._name, records=self._left_alone)
        say = self._logger.info if end else self._logger.debug
        what, held = self._kind.what, self.shard.held()
        say(f"{what} loaded", partition=self._name, **{what.replace(" ", "_"): held}, records=end, ms=self.load_time_ms)

    def _replay(self, offset: int, end: int) -> None:
        while offset < end and self.state is ShardState.LOADING:
            data, next_offset = self._log.read(offset, self._settings.load_buffer_bytes)
            if next_offset <= offset:
                return  # compaction has taken what stood between here and the end
            self._replay_batches(data)
            offset = next_offset

    def _replay_batches(self, data: bytes) -> None:
        for pos, header in iter_headers(data, partial_tail=True):
            if header.is_control:
                for record in decode_batch(data, pos):
                    self._replay_marker(record, header.producer_id)
                continue
            producer = header.producer_id if header.is_transactional else NO_PRODUCER
            for record in decode_batch(data, pos):
                self._replay_record(record, At(record.offset, producer, record.timestamp))

    def _replay_marker(self, record: Record, producer_id: int) -> None:
        control = decode_control(record)
        if control is not None and control[0] in (ControlType.COMMIT, ControlType.ABORT):
            self.shard.end_transaction(producer_id, commit=control[0] is ControlType.COMMIT)

    def _replay_record(self, record: Record, at: At) -> None:
        decoded = self._kind.decode(record.key or b"", record.value)
        if isinstance(decoded, UnknownRecord) or not self.shard.replay(decoded, at):
            self._left_alone += 1

    def close(self) -> None:
        """Stop serving: whoever waits is sent to find the coordinator again."""
        if self.state is ShardState.CLOSED:
            return
        was_active = self.state is ShardState.ACTIVE
        self.state = ShardState.CLOSED
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._batch = self._batch, _Batch()
        for waiter in (*self._replicated.roll_back(), *batch.waiters):
            waiter(ErrorCode.NOT_COORDINATOR)
        if was_active:
            self._log.forget(self._committed)
            self._deliver(self.shard.unload(self._now()))
        self._replicated = Replicated(self.shard.image)

    # requests

    def submit(self, ask: Ask[S, R], *, guard: VerificationGuard | None = None) -> asyncio.Future[R]:
        """Let the shard take a step; the future gives the response once all the step depends on is committed.

        guard: of the verified transaction that the step's records are part of.
        """
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        try:
            self._check_active()
            now = self._now()
            self._take(ask(self.shard, now), now, future, guard)
        except ApiError as e:
            _refuse(future, self._kind.refusal(e.code), e.message)
        self._arm()
        return future

    def submit_parking(self, ask: Callable[[S, Now, asyncio.Future[R]], Step[None]]) -> asyncio.Future[R]:
        """The same for a request that the shard parks; it gets the future as the waiter to reply to."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        try:
            self._check_active()
            now = self._now()
            self._take(ask(self.shard, now, future), now)
        except ApiError as e:
            _refuse(future, self._kind.refusal(e.code), e.message)
        self._arm()
        return future

    def end_transaction(self, marker: Marker) -> asyncio.Future[None]:
        """Write a transaction's marker; the future gives None once it is committed.

        What is wrong with the log it says as the log does, for it answers a transaction's coordinator, not a client.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._check_active()
            self._flush_now()
            last_offset = self._append(
                marker.batch(self._clock.now_ms()), transaction_version=marker.transaction_version
            )
            self.shard.end_transaction(marker.producer.producer_id, commit=marker.commit)
            self._appended(last_offset, self.shard.image, [partial(_settle, future)])
        except ApiError as e:
            _refuse(future, e.code, e.message)
        return future

    def committed_image(self) -> I:
        """Give what is committed; raises NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS."""
        self._check_active()
        return self._replicated.committed

    def _check_active(self) -> None:
        if self.state is ShardState.LOADING:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self.state is not ShardState.ACTIVE:
            raise ApiError(ErrorCode.NOT_COORDINATOR)

    # steps

    def _take(
        self,
        step: Step[Any],
        now: Now,
        future: asyncio.Future[Any] | None = None,
        guard: VerificationGuard | None = None,
    ) -> None:
        """Carry a step out: send, put aside what must be appended, and remember who waits for that."""
        if step.replies:
            self._deliver(step)
        if step.records:
            try:
                self._put_aside(step, now, guard)
            except ApiError as e:
                self._resume(step, e.code)
                raise
        if step.resume is not None:
            self._wait(_once(partial(self._resume, step)))
        if future is not None:
            self._wait(partial(self._conclude, future, step.response))

    def _conclude(self, future: asyncio.Future[Any], response: object, error: ErrorCode) -> None:
        if future.done():
            return
        if error is ErrorCode.NONE:
            future.set_result(response)
        else:
            _refuse(future, self._kind.refusal(error))

    def _deliver(self, step: Step[Any]) -> None:
        for reply in step.replies:
            assert isinstance(reply.waiter, asyncio.Future)
            _answer(reply.waiter, reply.response)

    def _resume(self, step: Step[Any], error: ErrorCode) -> None:
        if step.resume is not None:
            now = self._now()
            self._take(step.resume(self._kind.refusal(error), now), now)
            self._arm()

    def _wait(self, waiter: _Waiter) -> None:
        if self._batch.records.count:
            self._batch.waiters.append(waiter)
        elif not self._replicated.wait(waiter):
            waiter(ErrorCode.NONE)

    # appending

    def _put_aside(self, step: Step[Any], now: Now, guard: VerificationGuard | None) -> None:
        if step.producer is None:
            self._gather(step, now, None)
            return
        # A batch of its own, and written at once: whoever fences the producer must not refuse what others decided.
        self._flush_now()
        self._gather(step, now, guard)
        self._flush_now()

    def _gather(self, step: Step[Any], now: Now, guard: VerificationGuard | None) -> None:
        producer_id = NO_PRODUCER if step.producer is None else step.producer.producer_id
        encoded = [(record, *encode_coordinator_record(record)) for record in step.records]
        room = self._log.max_batch_bytes - _RECORD_OVERHEAD_BYTES * 2
        for group in [encoded] if step.atomic else [[one] for one in encoded]:
            size = _size(group)
            if self._batch.size + size > room:
                self._flush_now()
            batch = self._batch
            if not batch.records.count:
                batch.producer, batch.guard = step.producer, guard
                self._flush_later()
            for record, key, value in group:
                if step.replay:
                    self.shard.replay(record, At(self._next_offset, producer_id, now.wall_ms))
                self._next_offset += 1
                batch.records.add(now.wall_ms, key, value)
            batch.size += size
            batch.image = self.shard.image
            if size > room:
                self._flush_now()  # it may fit once it is compressed; when it does not, all of it is undone

    def _flush_later(self) -> None:
        loop = asyncio.get_running_loop()
        if self._settings.linger_ms > 0:
            loop.call_later(self._settings.linger_ms / 1000, self._flush)
        else:
            loop.call_soon(self._flush)

    def _flush_now(self) -> None:
        error = self._flush()
        if error is not ErrorCode.NONE:
            raise ApiError(error)  # what comes now was decided on what has just been undone

    def _flush(self) -> ErrorCode:
        """Append what was put aside; what the log does not take is undone, and the error given."""
        batch = self._batch
        if not batch.records.count or self.state is not ShardState.ACTIVE:
            return ErrorCode.NONE
        self._batch = _Batch()
        try:
            last_offset = self._append(self._encoded(batch), guard=batch.guard)
        except ApiError as e:
            # That a producer is fenced, or too late, is its own affair.
            say = self._logger.info if e.code in _OF_PRODUCERS else self._logger.error
            say(f"{self._kind.what} not stored", partition=self._name, records=batch.records.count, error=str(e))
            self._undo(batch, e.code)
            return e.code
        self._appended(last_offset, batch.image, batch.waiters)
        return ErrorCode.NONE

    def _encoded(self, batch: _Batch) -> bytearray:
        compression, producer = self._settings.compression, batch.producer
        if producer is None:
            return batch.records.batch(compression=compression)
        return batch.records.batch(
            compression=compression,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transactional=True,
        )

    def _append(self, batch: bytearray, *, transaction_version: int = 0, guard: VerificationGuard | None = None) -> int:
        # What the log commits at once is looked at when it is known what stands there, by `_appended`.
        self._appending = True
        try:
            return self._log.append(batch, transaction_version=transaction_version, guard=guard)
        finally:
            self._appending = False

    def _appended(self, last_offset: int, image: I, waiters: list[_Waiter]) -> None:
        self._next_offset = last_offset + 1
        self._replicated.appended(last_offset, image)
        told = self._replicated.commit(self._log.high_watermark - 1)
        if self._replicated.committed_offset >= last_offset:
            told += waiters
        else:
            for waiter in waiters:
                self._replicated.wait(waiter)
            self._expect_commit(waiters)
        self._tell(told)

    def _undo(self, batch: _Batch, error: ErrorCode) -> None:
        self.shard.image = self._replicated.newest
        self._next_offset = self._log.log_end_offset
        for waiter in batch.waiters:
            waiter(error)
        self._arm()

    def _committed(self) -> None:
        if not self._appending:
            self._tell(self._replicated.commit(self._log.high_watermark - 1))

    def _tell(self, committed: list[_Waiter]) -> None:
        for waiter in committed:
            waiter(ErrorCode.NONE)
        if self.on_commit is not None:
            self._tell_of_commit()

    def _tell_of_commit(self) -> None:
        if self.on_commit is None or self.state is not ShardState.ACTIVE:
            return
        # What was loaded may be taken back by a later leader until it is committed: nobody is told of it before.
        if self._log.high_watermark >= self._loaded_to:
            self.on_commit()

    def _expect_commit(self, waiters: list[_Waiter]) -> None:
        def too_late() -> None:
            for waiter in waiters:
                waiter(ErrorCode.REQUEST_TIMED_OUT)

        asyncio.get_running_loop().call_later(self._settings.commit_timeout_ms / 1000, too_late)

    # time

    def _now(self) -> Now:
        return Now(self._clock.now_ms(), self._clock.monotonic_ms())

    def _arm(self) -> None:
        """See that we wake for the next deadline; one that moved away costs at most a wake too many."""
        due = self.shard.next_deadline_ms() if self.state is ShardState.ACTIVE else None
        if due is None or (self._timer is not None and self._timer_at_ms <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_ms = max(0, due - self._clock.monotonic_ms())
        self._timer_at_ms = due
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            for step, now in self._due_steps():
                self._take_timed(step, now)
        finally:
            self._arm()

    def _take_timed(self, step: Step[None], now: Now) -> None:
        try:
            self._take(step, now)
        except ApiError as e:
            self._logger.error("a timed step was not stored", partition=self._name, error=str(e))

    def _due_steps(self) -> Iterator[tuple[Step[None], Now]]:
        while self.state is ShardState.ACTIVE and (step := self.shard.tick(now := self._now())) is not None:
            yield step, now


def _size(records: Sequence[tuple[CoordinatorRecord, bytes, bytes | None]]) -> int:
    size = _RECORD_OVERHEAD_BYTES * len(records)
    for _, key, value in records:
        size += len(key) + len(value or b"")
    return size


def _once(told: _Waiter) -> _Waiter:
    """Give a waiter that hands on the first thing it is told, and nothing else."""
    waiting = [told]

    def tell(error: ErrorCode) -> None:
        if waiting:
            waiting.pop()(error)

    return tell


def _settle(future: asyncio.Future[None], error: ErrorCode) -> None:
    if error is ErrorCode.NONE:
        _answer(future, None)
    else:
        _refuse(future, error)


def _answer(future: asyncio.Future[Any], response: object) -> None:
    if not future.done():
        future.set_result(response)


def _refuse(future: asyncio.Future[Any], error: ErrorCode, message: str | None = None) -> None:
    if not future.done():
        future.set_exception(ApiError(error, message))
