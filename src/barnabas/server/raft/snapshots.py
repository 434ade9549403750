"""When snapshots of the metadata are written, and what goes when they are: on this node, whoever leads (KIP-630)."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Final

import structlog

from barnabas.core.raft.node import RaftNode
from barnabas.core.raft.snapshot import SnapshotTrigger
from barnabas.core.raft.snapshot_batches import snapshot_batches
from barnabas.model.ports import Clock
from barnabas.server.raft.metadata_log import MetadataLog, MetadataLogSettings
from barnabas.server.raft.progress import StateMachine
from barnabas.wire.errors import ApiError

log = structlog.get_logger("kafka.raft")

_CLEAN_INTERVAL_MS: Final = 60_000


class SnapshotKeeper:
    """See the module. disk: the thread that alone changes the log; at most one piece of work is under way."""

    def __init__(
        self,
        node: RaftNode,
        files: MetadataLog,
        machine: StateMachine,
        clock: Clock,
        settings: MetadataLogSettings,
        disk: Executor,
    ) -> None:
        self._node = node
        self._files = files
        self._machine = machine
        self._clock = clock
        self._disk = disk
        self.trigger = SnapshotTrigger(
            settings.snapshot_bytes, settings.snapshot_interval_ms, since_ms=clock.monotonic_ms()
        )
        self._task: asyncio.Task[None] | None = None
        self._next_clean_ms = clock.monotonic_ms() + _CLEAN_INTERVAL_MS
        self.newest_bytes = 0
        """How large the last snapshot was that was made since the start."""
        self._newest_ms = clock.monotonic_ms()

    def look(self) -> None:
        """Begin what is due."""
        now = self._clock.monotonic_ms()
        running = self._task is not None and not self._task.done()
        reason = None if running else self.trigger.due(now)
        if reason is not None:
            self._task = asyncio.create_task(self.write(reason), name="metadata-snapshot")
        elif not running and now >= self._next_clean_ms:
            self._next_clean_ms = now + _CLEAN_INTERVAL_MS
            self._task = asyncio.create_task(self._clean(), name="metadata-clean")

    async def write(self, reason: str) -> None:
        """Write a snapshot of what is committed now, and delete what it makes needless."""
        source = self._machine.snapshot_source()
        self.trigger.written(self._clock.monotonic_ms())
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
            written = self._files.snapshot_info(source.id)
            if self._files.snapshot_ids[-1] == source.id:
                self._node.snapshot_written(written)
            self.newest_bytes, self._newest_ms = written.size_bytes, self._clock.monotonic_ms()
            await self._clean()
        except (OSError, ApiError) as e:
            # The log still has everything: a failed snapshot costs space and start-up time, not data.
            log.error("a metadata snapshot failed", offset=source.id.offset, reason=str(e))

    def newest_age_ms(self) -> int:
        """Give how long ago that was; since the start before the first one."""
        return self._clock.monotonic_ms() - self._newest_ms

    async def finish(self) -> None:
        """Wait for what is under way."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _clean(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._disk, self._files.clean, self._clock.now_ms())
        self._node.log_trimmed(self._files.start_offset)
