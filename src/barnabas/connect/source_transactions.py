"""A source's transactions: records, and where the source is once they are there, seen together or not at all (KIP-618).

One task calls everything. Where transactions end is decided in `core.connect.boundaries`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import structlog

from barnabas.client.transaction_errors import ProducerFencedError
from barnabas.connect.connector import ConnectError, FencedError
from barnabas.connect.herder_port import ConnectorOffset
from barnabas.connect.runtime import Preflight, SourceOffsets
from barnabas.connect.transactional import TransactionalWriter
from barnabas.core.connect.boundaries import Boundaries, TransactionBoundary, Verdict, Wish
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.core.connect.json_converter import encode_json
from barnabas.model.ports import Clock
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.record_batch import Record

log = structlog.get_logger("barnabas.connect.task")

_FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})


class TransactionWishes:
    """`connector.TransactionContext`: what a connector said, until the worker takes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said: set[Wish] = set()

    def commit(self) -> None:
        """Have the transaction end after the batch."""
        with self._lock:
            self._said.add(Wish.COMMIT)

    def abort(self) -> None:
        """Have the transaction dropped after the batch."""
        with self._lock:
            self._said.add(Wish.ABORT)

    def take(self) -> Wish:
        """Give what was said since the last time; ConnectError for both at once."""
        with self._lock:
            said, self._said = self._said, set()
        if len(said) > 1:
            raise ConnectError("the connector wants the same transaction to be committed and to be aborted")
        return said.pop() if said else Wish.NOTHING


def boundaries_of(config: Mapping[str, str], flush_interval_ms: int) -> Boundaries:
    """Give where a connector's transactions end. flush_interval_ms: the worker's `offset.flush.interval.ms`."""
    kind = TransactionBoundary(config.get("transaction.boundary", TransactionBoundary.POLL).lower().strip())
    return Boundaries(kind, int(config.get("transaction.boundary.interval.ms") or flush_interval_ms))


class SourceTransactions:
    """The transactions of one task. store: of its offsets; on_end: told how many records a committed one had."""

    def __init__(
        self,
        task: ConnectorTaskId,
        writer: TransactionalWriter,
        boundaries: Boundaries,
        store: SourceOffsets,
        clock: Clock,
        on_end: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._task = task
        self._writer = writer
        self._boundaries = boundaries
        self._store = store
        self._clock = clock
        self._on_end = on_end
        self._begun = False
        self._open = False
        self._partial = False
        self._records = 0
        self._offsets: dict[bytes, ConnectorOffset] = {}
        self._lock = asyncio.Lock()
        self.wishes = TransactionWishes()

    @property
    def context(self) -> TransactionWishes | None:
        """Give what the connector says where transactions end with, None unless that is its to say."""
        return self.wishes if self._boundaries.kind is TransactionBoundary.CONNECTOR else None

    async def begin(self, preflight: Preflight) -> None:
        """Shut out everybody else who may write for this task; then its offsets may be read.

        HerderError, ConflictError when the task must not begin; ConnectError when brokers refuse.
        """
        await preflight.fence()
        async with self._explained():
            await self._writer.init_transactions()
        await preflight.check()

    async def write(self, topic: str, records: Iterable[tuple[int | None, Record]]) -> int:
        """Take records into the transaction, each with its partition if it names one; give how many there were."""
        if topic == self._store.topic:
            raise ConnectError(
                f"the task writes to {topic!r}, where its own offsets are; with exactly.once.source.support=enabled it "
                "would wait for its own transaction to end: have it write to another topic"
            )
        count = 0
        async with self._lock, self._explained():
            self._partial = True
            await self._ensure_open()
            for partition, record in records:
                await self._writer.send(
                    topic, record.value, key=record.key, partition=partition, headers=record.headers
                )
                count += 1
            self._records += count
        return count

    async def batch_done(self, offsets: Sequence[ConnectorOffset]) -> bool:
        """Take where the source is after a batch, and end the transaction if it ends here; say whether it did."""
        async with self._lock:
            self._partial = False
            for offset in offsets:
                self._offsets[partition_name(offset)] = offset
            now_ms = self._clock.monotonic_ms()
            if not self._begun:
                self._begun, self._boundaries = True, self._boundaries.begun(now_ms)
            self._boundaries, verdict = self._boundaries.after_batch(self.wishes.take(), now_ms)
            return await self._do(verdict)

    async def idle(self) -> None:
        """End the transaction if its time is over, where nothing is new; no effect while a batch is under way."""
        if not self._partial:
            await self.batch_done([])

    async def finish(self) -> None:
        """End the transaction where the task pauses or ends, unless the connector has not said so.

        One with a part of a batch that came to nothing stays open, and is never seen.
        """
        async with self._lock:
            if not self._partial:
                await self._do(self._boundaries.at_end(self.wishes.take()))
            self._begun = False

    async def close(self) -> None:
        """Let go of everything; what is open is never seen."""
        await self._writer.close(flush=False)

    async def _do(self, verdict: Verdict) -> bool:
        if verdict is Verdict.GO_ON:
            return False
        async with self._explained():
            if verdict is Verdict.ABORT and self._open:
                log.info("a connector has a transaction dropped", task=str(self._task), records=self._records)
                self._open, self._records = False, 0
                await self._writer.abort()
            return await self._commit()

    async def _commit(self) -> bool:
        if not self._open and not self._offsets:
            return False
        await self._ensure_open()
        for record in self._store.records(self._task.connector, list(self._offsets.values())):
            await self._writer.send(self._store.topic, record.value, key=record.key)
        await self._writer.commit()
        self._on_end(self._records)
        kept = list(self._offsets.values())
        self._open, self._records, self._offsets = False, 0, {}
        await self._store.follow(self._task.connector, kept)
        return True

    async def _ensure_open(self) -> None:
        if not self._open:
            await self._writer.begin()
            self._open = True

    @asynccontextmanager
    async def _explained(self) -> AsyncIterator[None]:
        """Turn what the producer raises into what the task fails with: nothing of this can be tried again here."""
        try:
            yield
        except ConnectError:
            raise
        except ApiError as e:
            if isinstance(e, ProducerFencedError) or e.code in _FENCED:
                raise FencedError(
                    f"task {self._task} may not write any more. Either it runs elsewhere by now: then nothing needs to "
                    "be done. Or its transaction took longer than producer.override.transaction.timeout.ms: then set "
                    "that higher, or have transactions end earlier (transaction.boundary=poll, or a shorter "
                    f"transaction.boundary.interval.ms), and restart it. Nothing of the transaction is seen: {e}"
                ) from e
            raise ConnectError(f"task {self._task} could not write in a transaction; nothing of it is seen: {e}") from e
        except Exception as e:
            raise ConnectError(
                f"task {self._task} could not write in a transaction; nothing of it is seen: {e!r}"
            ) from e


def partition_name(offset: ConnectorOffset) -> bytes:
    """Give what tells a source's partitions apart, whatever the order of their fields."""
    return encode_json({name: offset.partition[name] for name in sorted(offset.partition)})
