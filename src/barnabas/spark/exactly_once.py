"""Exactly once: each task writes its part in a transaction and leaves it open; the driver commits all of them.

A part of a micro-batch also commits, in the same transaction, the batch's number as an offset of a group that is named
like the transactional id. Whoever runs the batch again sees there whether the part is done, and skips it; what was left
open is aborted when the part is begun anew. The driver commits the first part alone and then the others, so that as
long as the first is not done, none is. docs/decisions/spark_sink.md says why.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import pyarrow as pa
import structlog

from barnabas.client.admin.groups import CommittedOffset, GroupsAdmin
from barnabas.client.admin.transactions import TransactionsAdmin
from barnabas.client.cluster import Cluster
from barnabas.client.group_metadata import GroupMetadata
from barnabas.client.open_transaction import end_transaction
from barnabas.client.transactional_producer import TransactionalProducer
from barnabas.model.acl import AclOperation
from barnabas.model.topic_partition import TopicPartition
from barnabas.net.client import ChannelError
from barnabas.spark import attempts
from barnabas.spark.bridge import Bridge, borrow
from barnabas.spark.explain import RefusedError, SourceError, about, explained
from barnabas.spark.options import WriteOptions
from barnabas.spark.part import OVER, TIMEOUT, Part, Pending, RowsWritten, over, told
from barnabas.spark.row_task import DEFAULTS, Failures, RowTask
from barnabas.wire.errors import ApiError, ErrorCode

log: Final = structlog.get_logger("barnabas.spark.exactly_once")

_DEFAULTS: Final = DEFAULTS | {TIMEOUT: "600000"}
"""Ten minutes: a transaction is open until the slowest task of the batch is done."""
_AT_ONCE: Final = 64
"""How many transactions the driver ends at the same time."""
_ROWS: Final = "rows="


def write(options: WriteOptions, part: Part, batches: Iterable[pa.RecordBatch]) -> RowsWritten:
    """Write a task's rows and leave their transaction open; without rows there is none.

    When the part was committed before, its rows are only counted. SourceError when they are not as many as then, or
    when something cannot be written.
    """
    filled = (each for each in batches if each.num_rows)
    first = next(filled, None)
    if first is None:
        return RowsWritten(0, empty=part)
    rows = itertools.chain([first], filled)
    with _cluster(options) as bridge:
        with explained(bridge.config, AclOperation.READ):
            prepared = bridge.call(lambda cluster: attempts.prepared(cluster, part))
        if prepared is not None:
            _consume(rows)
            return prepared
        failures = Failures()

        async def make(cluster: Cluster) -> TransactionalProducer:
            config = cluster.config.with_properties(transactional_id=part.name)
            return TransactionalProducer(config, cluster=cluster, on_failure=failures.note)

        producer = bridge.call(make)
        try:
            with told(part, bridge.config, time.time()):
                done = bridge.call(lambda cluster: _takeover(cluster, producer, part))
                if done is not None:
                    return _count_again(part, done, rows)
                return _write(part, RowTask(bridge, options.topic, producer, failures), producer, rows)
        finally:
            bridge.call(lambda _: producer.close(flush=False))


def commit(options: WriteOptions, written: Sequence[RowsWritten], batch: int | None = None) -> None:
    """Commit what all tasks wrote. SourceError when a transaction is over; then nothing was committed, or a part of
    it, which a streaming query completes when it is started again."""
    pending = [each.pending for each in written if each.pending is not None]
    done = [each.done for each in written if each.done is not None]
    if not pending and not done:
        return
    with _cluster(options) as bridge:
        if done:
            bridge.call(lambda cluster: _check_fewer(cluster, done[0], len(written)))
        committed = bridge.call(lambda cluster: _commit(cluster, pending))
    failed = [(each, error) for each, error in zip(pending, committed, strict=True) if error is not None]
    if failed:
        some = len(pending) - len(failed)
        so_far = "Nothing was committed" if not some else f"{some} of {len(pending)} partitions were committed"
        remedy = (
            "what is committed stays, the rest will not be seen"
            if batch is None
            else "start the query, or the write, again: it writes what is missing, and nothing twice"
        )
        raise SourceError(f"{failed[0][1]}. {so_far}; {remedy}") from failed[0][1]


def abort(options: WriteOptions, written: Sequence[RowsWritten], running: Sequence[Part]) -> None:
    """Abort what is open, as far as that is possible: the rest ends by itself. running: parts of which a task may still
    run, or even begin after this; all are of one execution."""
    known = next((part for part in [*running, *(each.part for each in written)] if part is not None), None)

    async def end(cluster: Cluster) -> None:
        pending = [each.pending for each in written if each.pending is not None]
        aborted = asyncio.gather(*(_abort(cluster, each) for each in pending))
        try:
            async with _patience(cluster):
                if known is not None:
                    await attempts.give_up(cluster, known)
        finally:  # who has begun is shut out also where who is late cannot be told
            try:
                async with _patience(cluster):
                    await _shut_out(cluster, running)
            finally:
                await aborted

    try:
        with _cluster(options) as bridge:
            bridge.call(end)
    except (SourceError, TimeoutError) as e:  # the reason why it is aborted is the one to be seen
        log.warning("transactions may be left to end by transaction.timeout.ms", why=str(e) or "nobody answered")


# A task.


async def _takeover(cluster: Cluster, producer: TransactionalProducer, part: Part) -> CommittedOffset | None:
    """Shut earlier attempts out; give what is known of the part when it was committed before."""
    with about(part.name, part.prefix):
        await producer.init_transactions()  # when this is done, what was under way has its end: no offset is unstable
        await attempts.check_wanted(cluster, part)
        if part.batch is None:
            return None
        found = await GroupsAdmin(cluster).group_offsets(part.name, require_stable=True)
    newest = max(found.values(), default=CommittedOffset(0))
    if newest.offset > part.batch + 1:
        raise SourceError(
            f"{part}: batch {newest.offset - 1} of this query was committed already. The checkpoint is older than what "
            "was written: use the newest one, or a new one, with which the query starts from its starting offsets; a "
            "write of your own needs a larger txnVersion"
        )
    return newest if newest.offset == part.batch + 1 else None


def _consume(batches: Iterable[pa.RecordBatch]) -> int:
    """Take all rows, which Spark wants of a task, and count them."""
    return sum(batch.num_rows for batch in batches)


def _count_again(part: Part, done: CommittedOffset, batches: Iterable[pa.RecordBatch]) -> RowsWritten:
    rows = _consume(batches)
    if done.metadata.startswith(_ROWS) and done.metadata != f"{_ROWS}{rows}":
        raise SourceError(
            f"{part} was committed before with {done.metadata.removeprefix(_ROWS)} rows, and has {rows} now, so nobody "
            f"can say which are missing. {_NOT_AS_BEFORE}"
        )
    log.info("was committed by an earlier run", part=part.name, batch=part.batch, rows=rows)
    return RowsWritten(0, done=part)


_NOT_AS_BEFORE: Final = (
    "A batch that was committed in part must be run again with the plan it had (the same query, minPartitions and "
    "spark.sql.shuffle.partitions). If that cannot be, run this one batch with exactlyOnce=false: it is then written "
    "as a whole, a part of it twice"
)


def _write(
    part: Part, task: RowTask, producer: TransactionalProducer, batches: Iterable[pa.RecordBatch]
) -> RowsWritten:
    task.bridge.call(lambda _: producer.begin())
    opened_s = time.time()
    with told(part, task.bridge.config, opened_s):
        for batch in batches:
            task.take(batch)
        task.bridge.call(lambda _: producer.flush())
        task.failures.check()
        if part.batch is not None:
            _note_batch(part, task, producer, opened_s)
        transaction = task.bridge.call(lambda _: producer.hand_over())
    written = RowsWritten(task.rows, Pending(part, transaction, opened_s))
    topic = task.last_topic
    assert topic is not None
    task.bridge.call(lambda cluster: attempts.tell(cluster, written, topic))
    return written


def _note_batch(part: Part, task: RowTask, producer: TransactionalProducer, opened_s: float) -> None:
    """Have the batch's number committed with its records: as an offset, where every broker has a place for it."""
    assert part.batch is not None
    assert task.last_topic is not None
    where = TopicPartition(task.last_topic, 0)
    noted = CommittedOffset(part.batch + 1, metadata=f"{_ROWS}{task.rows}")
    with explained(task.bridge.config, AclOperation.READ):
        try:
            task.bridge.call(lambda _: producer.send_offsets_to_transaction({where: noted}, GroupMetadata(part.name)))
        except ApiError as e:
            if e.code in OVER:
                raise SourceError(over(part, task.bridge.config, opened_s)) from e
            task.bridge.call(lambda cluster: _end_refused(cluster, part))
            if e.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise RefusedError(e.code, where.topic) from e
            raise RefusedError(e.code, part.name, part.prefix) from e


# The driver.


async def _commit(cluster: Cluster, pending: Sequence[Pending]) -> list[SourceError | ApiError | None]:
    """Commit the first, then the others if that went well; say how each went."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(each: Pending) -> SourceError | ApiError | None:
        wait_ms = cluster.config.integer("max.block.ms")
        try:
            async with limit, asyncio.timeout(wait_ms / 1000):
                with told(each.part, cluster.config, each.opened_s), about(each.part.name, each.part.prefix):
                    await end_transaction(cluster, each.transaction, commit=True)
        except TimeoutError:
            return SourceError(f"{each.part}: nobody answered to the commit within max.block.ms={wait_ms}")
        except (SourceError, ApiError) as e:
            return e
        return None

    first, others = pending[:1], pending[1:]
    outcome = [await one(each) for each in first]
    if any(outcome):
        return [*outcome, *(SourceError("not tried") for _ in others)]
    return [*outcome, *await asyncio.gather(*(one(each) for each in others))]


async def _abort(cluster: Cluster, each: Pending) -> None:
    with suppress(ApiError, TimeoutError):
        async with _patience(cluster):
            await end_transaction(cluster, each.transaction, commit=False)


async def _check_fewer(cluster: Cluster, part: Part, count: int) -> None:
    """Raise when the earlier run of a batch had committed parts that this run does not have."""
    admin = GroupsAdmin(cluster)
    assert part.batch is not None
    stem = part.name.removesuffix(str(part.number))
    for group in [each.group_id for each in await admin.list_groups() if each.group_id.startswith(stem)]:
        number = group.removeprefix(stem)
        if not number.isdigit() or int(number) < count:
            continue
        await TransactionsAdmin(cluster).fence_producers([group])  # what that run left open has its end with this
        offsets = (await admin.group_offsets(group, require_stable=True)).values()
        if any(each.offset == part.batch + 1 for each in offsets):
            raise SourceError(
                f"batch {part.batch} was committed in part when it had a partition {number}, and has {count} "
                f"partitions now. {_NOT_AS_BEFORE}"
            )


async def _shut_out(cluster: Cluster, parts: Iterable[Part]) -> None:
    """Have what is open in these parts aborted. ApiError when one of them is refused."""
    outcomes = await TransactionsAdmin(cluster).fence_producers([part.name for part in parts])
    for outcome in outcomes.values():
        if isinstance(outcome, ApiError):
            raise outcome


async def _end_refused(cluster: Cluster, part: Part) -> None:
    """End a task's own transaction, which its producer cannot abort after a refusal."""
    with suppress(ApiError, ChannelError, TimeoutError):
        async with _patience(cluster):
            await _shut_out(cluster, [part])


def _patience(cluster: Cluster) -> asyncio.Timeout:
    """Give how long the cluster may take to end transactions: max.block.ms."""
    return asyncio.timeout(cluster.config.integer("max.block.ms") / 1000)


@contextmanager
def _cluster(options: WriteOptions) -> Iterator[Bridge]:
    with borrow(_DEFAULTS | dict(options.client)) as bridge, explained(bridge.config, AclOperation.WRITE):
        yield bridge
