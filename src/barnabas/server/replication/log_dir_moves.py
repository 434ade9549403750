"""Replicas that move between directories of this broker: copied in the background, then swapped (KIP-113, KIP-858).

The copy is the future log. It follows the current one as a follower does its leader, truncations included, within a
rate. Once it has all, the controller is told of the new directory; when that has agreed, and the copy has all still,
it takes the place of the log it was made from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from barnabas.core.replication.truncation import divergence, truncation
from barnabas.model.topic_partition import OffsetAndEpoch, TopicPartition
from barnabas.model.uuid import Uuid
from barnabas.storage.log import Log
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.server.replication.partition import Partition
    from barnabas.server.replication.partitions import Partitions
    from barnabas.server.replication.quota import ReplicationQuota
    from barnabas.storage.log_dir import LogDir
    from barnabas.storage.log_dirs import LogDirs

log = structlog.get_logger("kafka.server.ReplicaAlterLogDirs")

CHUNK_BYTES: Final = 1 << 20
LOOK_S: Final = 0.1
"""How long to wait while a quota is used up, or a log is not to be had."""
MAX_NAME: Final = 255
FUTURE_TAIL: Final = len(".") + 32 + len("-future")


class _Copied(NamedTuple):
    """What one round found. size: bytes copied; complete: there was nothing left to copy."""

    size: int
    complete: bool


Assign = Callable[[Uuid, int, Uuid], Awaitable[None]]
"""Tells the controller in which directory a partition's replica is; returns once that has agreed."""


class LogDirMoves:
    """The moves of a broker. `at_once`: how many copy side by side."""

    def __init__(
        self, log_dirs: LogDirs, partitions: Partitions, quota: ReplicationQuota, assign: Assign, at_once: int
    ) -> None:
        self._log_dirs = log_dirs
        self._partitions = partitions
        self._quota = quota
        self._assign = assign
        self._room = asyncio.Semaphore(at_once)
        self._moves: dict[TopicPartition, asyncio.Task[None]] = {}
        self.failed: set[TopicPartition] = set()
        """Partitions whose last move was given up as it could not go on."""

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self._moves

    def __len__(self) -> int:
        return len(self._moves)

    def lag(self) -> int:
        """Give by how many records the copy that is furthest behind lags."""
        pairs = [(p.log, p.future) for p in self._partitions if p.future is not None]
        return max((current.log_end_offset - future.log_end_offset for current, future in pairs), default=0)

    def dead_count(self) -> int:
        """Give the number of moves that have come to an end by a defect."""
        return sum(task.done() for task in self._moves.values())

    def request(self, tp: TopicPartition, path: str) -> ErrorCode:
        """Begin to move a replica to the directory `path`, or give up what would move it elsewhere."""
        if len(f"{tp}") + FUTURE_TAIL > MAX_NAME:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        directory = self._log_dirs.find_directory(path)
        if directory is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if directory.offline is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._partitions.find(tp)
        if partition is None:
            self._log_dirs.prefer(tp, directory)
            return ErrorCode.REPLICA_NOT_AVAILABLE
        if partition.log.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        try:
            self._redirect(partition, directory)
        except ApiError as e:
            return e.code
        return ErrorCode.NONE

    def _redirect(self, partition: Partition, directory: LogDir) -> None:
        tp, future = partition.tp, partition.future
        if future is not None and future.dir.parent != directory.path:
            self.cancel(tp)
            future = None
        if future is not None or partition.log.dir.parent == directory.path:
            return
        if self._log_dirs.offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "while a directory is offline, nothing moves")
        self._begin(partition, self._log_dirs.make_future(tp, directory))

    def resume(self, partition: Partition) -> None:
        """Go on with what was moving when this node ended."""
        future = self._log_dirs.futures.get(partition.tp)
        if future is None or partition.tp in self._moves:
            return
        if future.topic_id not in (None, partition.topic_id) or future.dir.parent == partition.log.dir.parent:
            self._log_dirs.drop_future(partition.tp)
        else:
            self._begin(partition, future)

    def _begin(self, partition: Partition, future: Log) -> None:
        partition.future = future
        self.failed.discard(partition.tp)
        log.info("moving", partition=str(partition.tp), source=str(partition.log.dir), target=str(future.dir.parent))
        task = asyncio.get_running_loop().create_task(self._move(partition, future), name=f"move {partition.tp}")
        self._moves[partition.tp] = task

    def cancel(self, tp: TopicPartition) -> None:
        """Give up a move, and what was copied."""
        task = self._moves.pop(tp, None)
        self.failed.discard(tp)
        if task is not None:
            task.cancel()
        partition = self._partitions.find(tp)
        if partition is not None:
            partition.future = None
        self._log_dirs.drop_future(tp)

    async def close(self) -> None:
        """Stop copying; what was copied stays, and is gone on with after the next start."""
        tasks = list(self._moves.values())
        self._moves.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # --- one move

    async def _move(self, partition: Partition, future: Log) -> None:
        try:
            async with self._room:
                await self._until_complete(partition, future)
                directory = self._log_dirs.find_directory(str(future.dir.parent))
                if directory is not None and directory.directory_id is not None:
                    await self._assign(partition.topic_id, partition.tp.partition, directory.directory_id)
                while not self._promoted(partition, future):
                    await self._until_complete(partition, future)
        except (ApiError, OSError) as e:
            log.error("cannot move", partition=str(partition.tp), why=str(e))
            partition.future = None
            self.failed.add(partition.tp)
        self._moves.pop(partition.tp, None)

    async def _until_complete(self, partition: Partition, future: Log) -> None:
        while True:
            if self._quota.used_up():
                await asyncio.sleep(LOOK_S)
                continue
            try:
                copied = await asyncio.to_thread(_copy, partition.log, future)
            except ApiError as e:
                if e.code is ErrorCode.KAFKA_STORAGE_ERROR:
                    raise
                await asyncio.sleep(LOOK_S)  # it was cut while we read it
                continue
            self._quota.record(copied.size)
            if copied.complete:
                return

    def _promoted(self, partition: Partition, future: Log) -> bool:
        """Put the copy in the log's place if it has everything still: nothing else runs meanwhile."""
        current = partition.log
        if not _equal(current, future):
            return False
        future.update_high_watermark(current.high_watermark)
        future.cleaner_offset = current.cleaner_offset
        partition.log = self._log_dirs.promote(partition.tp)
        partition.future = None
        partition.wake()
        log.info("moved", partition=str(partition.tp), path=str(future.dir))
        return True


def _equal(current: Log, future: Log) -> bool:
    return (
        future.log_end_offset == current.log_end_offset
        and future.leader_epochs.latest_epoch == _last_written_epoch(current)
        and _cut(current, future) is None
    )


def _last_written_epoch(current: Log) -> int | None:
    """Give the epoch of the last record; a leader knows of its own before there is one."""
    return current.leader_epochs.epoch_for_offset(current.log_end_offset - 1)


def _copy(current: Log, future: Log) -> _Copied:
    """Copy one chunk, cutting first what the current log has not (any more). Runs on a thread of its own."""
    if future.log_end_offset < current.log_start_offset:
        future.truncate_fully_and_start_at(current.log_start_offset)
    cut = _cut(current, future)
    if cut is not None:
        future.truncate_to(cut)
        return _Copied(0, False)
    if future.log_end_offset >= current.log_end_offset:
        return _Copied(0, True)
    region = current.read(future.log_end_offset, CHUNK_BYTES).records
    data = memoryview(bytearray(region.read()))
    _begin_before(future, data)
    future.append_as_follower(data)
    future.update_high_watermark(current.high_watermark)
    start = min(current.log_start_offset, future.high_watermark)
    if start > future.log_start_offset:
        future.delete_records_before(start)
    return _Copied(len(data), False)


def _cut(current: Log, future: Log) -> int | None:
    """Give where the copy must be cut, as the current log was cut since; None when it need not."""
    end, epoch = future.log_end_offset, future.leader_epochs.latest_epoch
    if epoch is None or end == future.log_start_offset:
        return None
    try:
        found = divergence(
            lambda asked: current.leader_epochs.end_offset_for(asked, current.log_end_offset),
            current.log_start_offset,
            end,
            epoch,
        )
    except ApiError:
        return future.log_start_offset
    if found is None:
        return None
    leader = OffsetAndEpoch(found[1], found[0])
    ends = future.leader_epochs
    return truncation(lambda asked: ends.end_offset_for(asked, end), end, future.high_watermark, leader).offset


def _begin_before(future: Log, data: memoryview) -> None:
    """Let an empty copy begin with the whole batch that holds the current log's start."""
    first = int.from_bytes(data[:8], "big")
    if future.log_end_offset == future.log_start_offset and first < future.log_end_offset:
        future.truncate_fully_and_start_at(first)
