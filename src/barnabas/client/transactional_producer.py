"""The producer whose records, and a group's offsets, become visible all together or not at all (KIP-98).

    async with TransactionalProducer(config) as producer:
        await producer.init_transactions()
        await producer.begin()
        await producer.send("flights", b"...")
        await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        await producer.commit()

AbortableTransactionError: `abort`, then begin anew. FatalTransactionError, of which ProducerFencedError is one: close.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from barnabas.client.accumulator import Batch, DeliveryError
from barnabas.client.admin.groups import CommittedOffset
from barnabas.client.cluster import Cluster
from barnabas.client.config import ClientConfig
from barnabas.client.group_metadata import GroupMetadata
from barnabas.client.open_transaction import OpenTransaction
from barnabas.client.producer import NAMED_TOPICS_VERSION, Producer
from barnabas.client.transaction_errors import (
    IllegalTransactionStateError,
    TransactionError,
    TransactionTimeoutError,
    Verdict,
    explained,
    of_failed_batch,
)
from barnabas.client.transaction_manager import TransactionManager
from barnabas.client.transaction_state import Phase, TransactionState
from barnabas.model.config import ConfigError
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.record_batch import BATCH_HEADER_SIZE, Record

_V1_PRODUCE: Final = 11
"""The newest Produce that means transaction.version 1: from 12 on brokers add partitions by themselves (KIP-890)."""

_SENDING_OFFSETS: Final = "send_offsets_to_transaction()"
_HASTE_S: Final = 3
"""How long a producer that is closed in a hurry tries to abort; else the coordinator does, in its own time."""


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """An operation that may outlast the call that began it. about: what it was called with."""

    what: str
    about: object
    task: asyncio.Task[None]


class TransactionalProducer(Producer):
    """Writes records in transactions, under `transactional.id`. Use as an async context manager: what is open at the
    end is aborted.

    `init_transactions`, `send_offsets_to_transaction`, `commit` and `abort` wait for max.block.ms at most; after a
    TransactionTimeoutError, or when they are cancelled, they go on, and calling the same again waits for the same.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        cluster: Cluster | None = None,
        on_failure: Callable[[TopicPartition, Sequence[Record], Exception], None] | None = None,
    ) -> None:
        super().__init__(config, cluster=cluster, on_failure=on_failure)
        transactional_id = config.text("transactional.id")
        if not transactional_id:
            raise ConfigError("transactional.id is not set: a producer of transactions needs a name that outlives it")
        if not self._idempotent:
            raise ConfigError("transactions need acks=all and enable.idempotence=true")
        self._transactional_id = transactional_id
        self._state = TransactionState(transactional_id)
        self._manager = TransactionManager.of_cluster(self._state, self.cluster)
        self._under_way: _UnderWay | None = None
        self._adding: asyncio.Task[None] | None = None

    @property
    def phase(self) -> Phase:
        """Give where the producer stands."""
        return self._state.phase

    async def init_transactions(self) -> None:
        """Get a producer id. Older producers with the same transactional id are fenced from now on, and what they left
        open is aborted or, where it was being committed, committed."""
        await self._finish("init_transactions()", self._initialize)

    async def begin(self) -> None:
        """Open a transaction."""
        self._check_nothing_under_way("begin()")
        self._state.begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, CommittedOffset | int], group: GroupMetadata
    ) -> None:
        """Commit a group's offsets with the transaction: where to read on, as `GroupConsumer.group_metadata` says who.

        AbortableTransactionError when the member is of the group no more.
        """
        made = {p: o if isinstance(o, CommittedOffset) else CommittedOffset(o) for p, o in offsets.items()}
        if self._under_way is None:
            self._state.check_open(_SENDING_OFFSETS)
        if made:
            work = partial(self._noting_errors, self._manager.add_offsets, made, group)
            await self._finish(_SENDING_OFFSETS, work, (made, group))

    async def commit(self) -> None:
        """Deliver everything that was sent, and make it visible. AbortableTransactionError when a record or offset was
        refused: nothing of the transaction will be seen once it is aborted."""
        await self._finish("commit()", self._commit)

    async def abort(self) -> None:
        """Make sure that nothing of the transaction is ever seen. What has not gone out yet is not sent."""
        before: asyncio.Task[None] | None = None
        if self._under_way is not None and self._under_way.what == _SENDING_OFFSETS:
            # What its caller gave up waiting for; should it come after the end, it would stay open for good.
            before, self._under_way = self._under_way.task, None
        await self._finish("abort()", partial(self._abort, before))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begin, then commit at the end of the block, or abort when it raises."""
        await self.begin()
        try:
            yield
            await self.commit()
        except BaseException:
            if self.phase in (Phase.IN_TRANSACTION, Phase.ABORTABLE_ERROR):
                await self.abort()
            raise

    async def hand_over(self) -> OpenTransaction:
        """Deliver everything that was sent, and leave the transaction open for `end_transaction`, here or elsewhere.

        What failed is raised as `commit` would. Afterwards there is nothing to do here but `close`.
        """
        self._check_nothing_under_way("hand_over()")
        if self.phase is not Phase.COMMITTING:
            self._state.ending(commit=True)
        await self._drained()
        if self._adding is not None:
            await asyncio.wait([self._adding])
        self._state.check()
        return OpenTransaction(self._state.transactional_id, self._state.producer, self._state.v2)

    async def close(self, *, flush: bool = True) -> None:
        """End the producer; what is open is aborted. Without flush that is tried for a few seconds only."""
        limit_s = self._config.integer("max.block.ms") / 1000 if flush else _HASTE_S
        with suppress(Exception):
            async with asyncio.timeout(limit_s):
                if self._under_way is not None:
                    await asyncio.wait([self._under_way.task])
                    self._under_way = None
                if self.phase in (Phase.IN_TRANSACTION, Phase.ABORTABLE_ERROR):
                    await self.abort()
        under_way = None if self._under_way is None else self._under_way.task
        tasks = [task for task in (self._adding, under_way) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await super().close(flush=False)

    # Operations that may outlast a caller.

    async def _finish(self, what: str, work: Callable[[], Coroutine[None, None, None]], about: object = None) -> None:
        if self._under_way is None:
            self._under_way = _UnderWay(what, about, asyncio.create_task(work(), name=what))
        elif (self._under_way.what, self._under_way.about) != (what, about):
            self._check_nothing_under_way(what)
        task = self._under_way.task
        wait_ms = self._config.integer("max.block.ms")
        try:
            async with asyncio.timeout(wait_ms / 1000) as limit:
                await asyncio.shield(task)
        except TimeoutError:
            if not limit.expired() or task.done():
                raise
            raise TransactionTimeoutError(
                f"{what} was not finished within max.block.ms={wait_ms}; it goes on: call it again to wait longer"
            ) from None
        finally:
            if task.done() and self._under_way is not None and self._under_way.task is task:
                self._under_way = None

    def _check_nothing_under_way(self, what: str) -> None:
        if self._under_way is not None:
            raise IllegalTransactionStateError(
                f"{what} makes no sense now: {self._under_way.what} is not finished; call it again to wait for it"
            )

    async def _initialize(self) -> None:
        await self._noting_errors(self._manager.initialize)
        self._identity = self._state.producer

    async def _commit(self) -> None:
        state = self._state
        if state.phase is not Phase.COMMITTING:  # else a lost connection has ended the attempt before
            state.ending(commit=True)
        await self._drained()
        state.check()
        await self._end(commit=True)

    async def _abort(self, before: asyncio.Task[None] | None = None) -> None:
        if self._state.phase is not Phase.ABORTING:
            self._state.ending(commit=False)
        self._give_up_unsent(DeliveryError("the transaction is being aborted"))
        if before is not None:
            await asyncio.wait([before])
        await self._drained()  # what may have been written must be known to be, lest it comes after the end
        if self._state.is_fatal:
            self._state.check()
        await self._end(commit=False)

    async def _end(self, *, commit: bool) -> None:
        if self._adding is not None:
            await asyncio.wait([self._adding])
        await self._noting_errors(partial(self._manager.end, commit=commit))
        self._identity = self._state.producer

    async def _drained(self) -> None:
        while any(queue.batches for queue in self._queues.values()):
            await self.flush()

    async def _noting_errors(self, work: Callable[..., Coroutine[None, None, None]], *about: object) -> None:
        """Do something that may fail the transaction, and let it fail what waits to be sent as well."""
        try:
            await work(*about)
        except TransactionError as e:
            self._give_up_unsent(e)
            raise

    # What the sender asks and tells.

    def _open_batch(self, where: TopicPartition) -> Batch:
        self._state.check_open("send()")
        return super()._open_batch(where)

    def _admits(self, batch: Batch) -> bool:
        state = self._state
        if batch.identity is None and state.phase not in (Phase.IN_TRANSACTION, Phase.COMMITTING):
            self._finish_failed(batch, state.error or DeliveryError("the transaction is being aborted"))
            return False
        if state.is_fatal:
            assert state.error is not None
            self._finish_failed(batch, state.error)
            return False
        if batch.identity is not None or state.admits(batch.partition):
            return True
        if self._adding is None:
            self._adding = asyncio.create_task(self._add_partitions(), name="add partitions to the transaction")
        return False

    async def _add_partitions(self) -> None:
        try:
            await self._manager.add_partitions()
        except TransactionError as e:
            self._give_up_unsent(e)
        except Exception as e:  # noqa: BLE001 - whatever it is, it belongs to the transaction: nobody awaits this
            code = e.code if isinstance(e, ApiError) else ErrorCode.UNKNOWN_SERVER_ERROR
            self._fail_transaction(Verdict.ABORT, code, f"adding partitions ({e})")
        finally:
            self._adding = None
            self._work.set()

    def _newest_version(self) -> int:
        return NAMED_TOPICS_VERSION if self._state.v2 else _V1_PRODUCE

    async def _identify(self) -> None:
        raise AssertionError("who has no producer id cannot begin a transaction")

    def _lost(self, batch: Batch, error: ApiError) -> None:
        self._finish_failed(batch, error)

    def _again_or_fail(self, batch: Batch, error: Exception, *, again: bool = False) -> None:
        if self._state.is_fatal:
            self._finish_failed(batch, error)
        else:
            super()._again_or_fail(batch, error, again=again)

    def _gave_up(self, batch: Batch, error: Exception) -> None:
        if isinstance(error, TransactionError) or (self._state.phase is Phase.ABORTING and not batch.tried):
            return  # a consequence, not a cause
        code = error.code if isinstance(error, ApiError) else ErrorCode.NETWORK_EXCEPTION
        self._fail_transaction(of_failed_batch(error), code, f"writing to {batch.partition}")

    def _fail_transaction(self, verdict: Verdict, code: ErrorCode, about: str) -> None:
        state = self._state
        error = explained(verdict, code, state.transactional_id, about)
        if state.fail(verdict, error):
            self._give_up_unsent(error)

    def _give_up_unsent(self, error: Exception) -> None:
        """Fail the batches that no broker can have: none of them was on its way."""
        for queue in self._queues.values():
            for batch in [
                b for b in queue.batches if b.identity is None and not (queue.busy and b is queue.batches[0])
            ]:
                queue.batches.remove(batch)
                self._waiting_bytes -= batch.size - BATCH_HEADER_SIZE
                self._fail(batch, error)
        self._room.set()
        self._work.set()
