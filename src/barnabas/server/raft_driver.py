"""Carries the Raft core: its disk, its clock, its worker thread, and whoever applies what is committed.

Group commit: while one write is on its way to the disk, proposals gather; the next write takes them all. The event
loop never waits for the disk. A write that fails ends the driver: nothing after it can be called durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from barnabas.core.raft.node import RaftNode
from barnabas.core.raft.ready import Leadership, Proposal, Ready
from barnabas.core.raft.snapshot import SnapshotTrigger
from barnabas.core.raft.snapshot_batches import snapshot_batches
from barnabas.model.ports import Clock
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.server.metadata_log import LoadedBatch, MetadataLog, MetadataLogSettings
from barnabas.wire.errors import ApiError

log = structlog.get_logger("kafka.raft")

_CLEAN_INTERVAL_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """What a snapshot is made of. id: the offset after the last record in it, and that one's epoch."""

    id: OffsetAndEpoch
    timestamp_ms: int
    values: Callable[[], Iterator[bytes]]


class StateMachine(Protocol):
    """Who applies the committed log. Called on the event loop, in the order of the log; nothing here may wait."""

    def restore(self, snapshot_id: OffsetAndEpoch, batches: Iterator[LoadedBatch]) -> None:
        """Begin with a snapshot; replaces all that was known."""
        ...

    def apply(self, batches: Iterator[LoadedBatch], end_offset: int) -> None:
        """Apply committed records that this replica did not propose in its present epoch."""
        ...

    def commit(self, end_offset: int) -> None:
        """Take note that everything up to `end_offset` is committed, own proposals included."""
        ...

    def lead(self, leadership: Leadership) -> None:
        """Begin to propose: everything before the epoch is applied."""
        ...

    def lose(self, reason: str) -> None:
        """Stop to propose; what is not committed stays undecided."""
        ...

    def snapshot_source(self) -> SnapshotSource | None:
        """Give what is committed now for a snapshot; None while there is nothing to write."""
        ...


class DriverFailedError(Exception):
    """The metadata log could not be written, so that this node cannot go on."""


class RaftDriver:
    """Runs one replica. `load` before anything, then `run` as a task until `stop`."""

    def __init__(
        self, node: RaftNode, files: MetadataLog, machine: StateMachine, clock: Clock, settings: MetadataLogSettings
    ) -> None:
        self._node = node
        self._files = files
        self._machine = machine
        self._clock = clock
        self._wake = asyncio.Event()
        self._stopping = False
        self._failure: BaseException | None = None
        self._applied = 0
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="metadata-log")
        self._trigger = SnapshotTrigger(
            settings.snapshot_bytes, settings.snapshot_interval_ms, since_ms=clock.monotonic_ms()
        )
        self._snapshot_task: asyncio.Task[None] | None = None
        self._next_clean_ms = clock.monotonic_ms() + _CLEAN_INTERVAL_MS
        self.max_group = 0
        """The most batches that one write has carried."""

    @property
    def node(self) -> RaftNode:
        """The replica, for those who describe it."""
        return self._node

    @property
    def files(self) -> MetadataLog:
        """The files, for those who describe them."""
        return self._files

    def load(self) -> None:
        """Give the state machine the newest snapshot; the log after it follows once it is known to be committed."""
        found = self._files.read_snapshot()
        if found is not None:
            snapshot_id, batches = found
            self._machine.restore(snapshot_id, batches)
            self._applied = snapshot_id.offset

    def propose(self, values: Sequence[bytes]) -> Proposal:
        """Append records as one batch; the state machine hears of the commit. Raises as `RaftNode.propose`."""
        if self._failure is not None:
            raise DriverFailedError("the metadata log has failed") from self._failure
        proposal = self._node.propose(values, self._clock.now_ms())
        self._wake.set()
        return proposal

    def stop(self) -> None:
        """Let `run` finish what was proposed, and end."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Carry the replica until `stop`; DriverFailedError when the disk fails."""
        self._wake.set()
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                self._node.tick(self._clock.now_ms())
                while ready := self._node.ready():
                    await self._carry(ready)
                if self._stopping:
                    return
                self._house_keeping()
        except (OSError, ApiError) as e:
            self._failure = e
            log.error("the metadata log cannot be written: this node stops", dir=str(self._files.dir), reason=str(e))
            raise DriverFailedError(f"the metadata log in {self._files.dir} cannot be written: {e}") from e
        finally:
            await self._end()

    async def _carry(self, ready: Ready) -> None:
        if ready.must_save:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._disk, self._files.save, ready)
            self.max_group = max(self.max_group, len(ready.entries))
            self._trigger.committed(sum(len(entry.data) for entry in ready.entries))
        if ready.high_watermark is not None:
            self._commit(ready.high_watermark, ready.leadership)
        if ready.leadership is not None:
            log.info("leads the metadata quorum", epoch=ready.leadership.epoch, start=ready.leadership.start_offset)
            self._machine.lead(ready.leadership)
        self._node.advance(ready, self._clock.now_ms())

    def _commit(self, high_watermark: int, leadership: Leadership | None) -> None:
        self._files.commit(high_watermark)
        if leadership is not None:
            # What stands before our own first proposal was written by earlier epochs: it comes from the disk.
            self._machine.apply(self._counted(self._files.read(self._applied, high_watermark)), high_watermark)
        self._applied = high_watermark
        self._machine.commit(high_watermark)

    def _counted(self, batches: Iterator[LoadedBatch]) -> Iterator[LoadedBatch]:
        for batch in batches:
            self._trigger.committed(batch.size_bytes)
            yield batch

    def _house_keeping(self) -> None:
        now = self._clock.monotonic_ms()
        running = self._snapshot_task is not None and not self._snapshot_task.done()
        reason = None if running else self._trigger.due(now)
        if reason is not None:
            self._snapshot_task = asyncio.create_task(self.snapshot(reason), name="metadata-snapshot")
        elif not running and now >= self._next_clean_ms:
            self._next_clean_ms = now + _CLEAN_INTERVAL_MS
            self._snapshot_task = asyncio.create_task(self._clean(), name="metadata-clean")

    async def snapshot(self, reason: str) -> None:
        """Write a snapshot of what is committed now, and delete what it makes needless."""
        source = self._machine.snapshot_source()
        self._trigger.written(self._clock.monotonic_ms())
        if source is None or source.id in self._files.snapshot_ids:
            return
        control = self._node.control
        last = source.id.offset - 1
        batches = snapshot_batches(
            source.values(),
            epoch=source.id.epoch,
            last_timestamp_ms=source.timestamp_ms,
            now_ms=self._clock.now_ms(),
            kraft_version=control.kraft_version.at(last),
            voters=control.voters.at(last),
        )
        log.info("writing a metadata snapshot", offset=source.id.offset, epoch=source.id.epoch, because=reason)
        try:
            await asyncio.to_thread(self._files.write_snapshot, source.id, batches)
            await self._clean()
        except OSError as e:
            # The log still has everything: a failed snapshot costs space and start-up time, not data.
            log.error("a metadata snapshot failed", offset=source.id.offset, reason=str(e))

    async def _clean(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._disk, self._files.clean, self._clock.now_ms())
        self._node.control.trim_to(self._files.start_offset)

    async def _end(self) -> None:
        self._node.resign()
        self._machine.lose("the node stops" if self._failure is None else f"the metadata log failed: {self._failure}")
        if self._snapshot_task is not None:
            await asyncio.wait([self._snapshot_task])
        self._disk.shutdown(wait=True)
        if self._failure is None:
            self._files.close()
