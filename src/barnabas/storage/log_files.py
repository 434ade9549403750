"""The files of a partition's log: rolled, flushed, cut, aged, renamed and deleted.

Offsets: log start <= last stable offset <= high watermark <= log end. A failing disk is told to the environment,
and every later call answers KAFKA_STORAGE_ERROR. `flush`, `apply_retention` and compaction may run on other threads
than the appends: `lock` is held while the list of segments or the end of the log changes, never during an fsync.
Where both locks are taken, `_flush_lock` comes first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import structlog

from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import Uuid
from barnabas.storage import log_retention, partition_metadata, producer_recovery
from barnabas.storage.batch_scan import CorruptBatchError
from barnabas.storage.environment import LogEnvironment
from barnabas.storage.leader_epochs import LeaderEpochs
from barnabas.storage.log_config import LogConfig
from barnabas.storage.producer_snapshot import ProducerSnapshots
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.segment import DELETED_SUFFIX, SWAP_SUFFIX, Segment
from barnabas.storage.segments import SegmentList
from barnabas.wire.errors import ApiError, ErrorCode

log = structlog.get_logger("kafka.log")

T = TypeVar("T")


class LogFiles:
    """See the module. `segments`, `producers` and `leader_epochs` are for others to read, not to change."""

    def __init__(
        self,
        env: LogEnvironment,
        directory: Path,
        topic_partition: TopicPartition,
        topic_id: Uuid | None,
        config: LogConfig,
        segments: SegmentList,
        producers: ProducerState,
        snapshots: ProducerSnapshots,
        leader_epochs: LeaderEpochs,
        *,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
    ) -> None:
        self.env = env
        self.dir = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.segments = segments
        self.producers = producers
        self.leader_epochs = leader_epochs
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset
        self.recovery_point = recovery_point
        self.last_flush_ms = env.clock.now_ms()
        self.cleaner_offset: int | None = None
        """Up to where the log is compacted; None when it never was."""
        self.recovered_bytes_cut = 0
        """Bytes of a torn tail that opening this log cut off."""
        self.first_lost: int | None = None
        """The first record that a crash lost although it kept later ones; None when there is none."""
        self.lock = threading.RLock()
        """Held while the list of segments or the end of the log changes."""
        self._flush_lock = threading.Lock()
        self._snapshots = snapshots
        self._unflushed = 0
        self._unflushed_snapshots: list[int] = []
        self._name = str(topic_partition)
        self._identity_synced = recovery_point > 0
        self._offline = False
        self._closed = False
        self._now_ms = env.clock.now_ms

    # -- state

    @property
    def size(self) -> int:
        """Give the bytes of all segments' records."""
        return self.segments.size

    @property
    def last_stable_offset(self) -> int:
        """Give the offset below which no transaction is open; between the log's start and the high watermark."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    @property
    def is_offline(self) -> bool:
        return self._offline

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def unflushed_records(self) -> int:
        """Give how many records were appended since the last flush."""
        return self._unflushed

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, within the log's start and end; gives what it became."""
        offset = max(self.log_start_offset, min(offset, self.log_end_offset))
        self.high_watermark = offset
        if self.producers.unreplicated_txns:
            self.producers.on_high_watermark(offset)
        return offset

    def identify(self, topic_id: Uuid) -> None:
        """Record the topic id of a log that came without one."""
        with self.lock:
            partition_metadata.write(self.env.fs, self.dir, topic_id)
            self.topic_id, self._identity_synced = topic_id, False

    def mark_offline(self) -> None:
        """Refuse everything from now on: the log's directory has failed."""
        self._offline = True

    def _failed(self, what: str, error: OSError) -> ApiError:
        self._offline = True
        log.error("disk failure", partition=self._name, dir=str(self.dir.parent), while_=what, reason=str(error))
        self.env.on_io_error(self.dir.parent, error)
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{what} {self._name} failed: {error}")

    def check_usable(self) -> None:
        """KAFKA_STORAGE_ERROR when the directory has failed or the log is closed."""
        if self._offline or self._closed:
            state = "on a failed disk" if self._offline else "closed"
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._name} is {state}")

    def guarded(self, what: str, action: Callable[[], T]) -> T:
        """Give what `action` gives; a disk failure in it takes the directory offline."""
        self.check_usable()
        try:
            return action()
        except OSError as e:
            raise self._failed(what, e) from e
        except CorruptBatchError as e:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{self._name}: {e}") from e

    # -- growing

    def roll(self, next_offset: int | None = None) -> Segment:
        """Begin a new segment at the log's end (or at `next_offset`, past it); the old one is flushed by `flush`."""
        with self.lock:
            active = self.segments.active
            base = max(self.log_end_offset, next_offset or 0)
            if base == active.base_offset:
                return active
            active.seal()
            segment = Segment(self.env.fs, self.dir, base, self.config, self._now_ms())
            segment.jitter_ms = self.draw_jitter()
            self.segments.add(segment)
            self.producers.map_end_offset = base
            taken = self._snapshots.take(self.producers, sync=False)
            if taken is not None:
                self._unflushed_snapshots.append(taken)
            return segment

    def draw_jitter(self) -> int:
        """Give by how much the next segment ends early, by chance."""
        bound = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return self.env.jitter(bound) if bound > 0 else 0

    def flush(self) -> None:
        """Force all that was appended before the call to the disk, and move the recovery point there."""
        self.guarded("flushing", lambda: self._flush(sealed_only=False))

    def flush_sealed(self) -> None:
        """Flush the segments before the active one: what Kafka does in the background after rolling."""
        if self.recovery_point < self.segments.active.base_offset:
            self.guarded("flushing", lambda: self._flush(sealed_only=True))

    def _flush(self, *, sealed_only: bool) -> None:
        with self._flush_lock:
            with self.lock:
                start = self.recovery_point
                end = self.segments.active.base_offset if sealed_only else self.log_end_offset
                unflushed = self._unflushed
                snapshots, self._unflushed_snapshots = self._unflushed_snapshots, []
            if end <= start:
                return
            begin = perf_counter()
            if not self._identity_synced:
                partition_metadata.sync(self.env.fs, self.dir)
                self._identity_synced = True
            # From here on the batches before `end` are not looked at when the log is opened after a crash.
            self.leader_epochs.sync(end)
            for snapshot in snapshots:
                self._snapshots.flush(snapshot)
            segments = self.segments.between(start, end)
            for segment in segments:
                segment.flush()
            if any(s.base_offset >= start for s in segments):
                self.env.fs.fsync_dir(self.dir)
                self.env.fs.fsync_dir(self.dir.parent)
            with self.lock:
                # A truncation may have cut below what was flushed.
                self.recovery_point = max(self.recovery_point, min(end, self.log_end_offset))
                if not sealed_only:
                    self._unflushed -= unflushed
                self.last_flush_ms = self._now_ms()
            self.env.flushed((perf_counter() - begin) * 1000)

    # -- shrinking

    def delete_records_before(self, offset: int) -> int:
        """Move the log's start up to `offset` (-1: the high watermark); gives the start. Segments go with retention."""
        self.check_usable()
        with self.lock:
            if offset == -1:
                offset = self.high_watermark
            if offset > self.high_watermark or offset < 0:
                raise ApiError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"the start of {self._name} cannot move to {offset}: its high watermark is {self.high_watermark}",
                )
            if offset > self.log_start_offset:
                self.guarded("moving the start of", lambda: self._start_at(offset))
            return self.log_start_offset

    def _start_at(self, offset: int) -> None:
        self.log_start_offset = offset
        if self.leader_epochs.truncate_from_start(offset):
            self.leader_epochs.save()
        self.producers.on_high_watermark(offset)
        self.producers.map_end_offset = max(self.producers.map_end_offset, offset)

    def truncate_to(self, offset: int) -> bool:
        """Cut the log so that it ends at `offset`; says whether anything was cut."""
        with self._flush_lock, self.lock:
            if offset >= self.log_end_offset:
                # An epoch in which we led and wrote nothing is cut too: the next leader knows nothing of it, and says
                # so again and again to a follower that names it as its last.
                self.guarded("truncating", self._forget_empty_epochs)
                return False
            self.guarded("truncating", lambda: self._truncate(offset))
            return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything, and begin anew at `offset` (a follower that was too far behind, a snapshot was loaded)."""
        with self._flush_lock, self.lock:
            self.guarded("truncating", lambda: self._restart(offset))

    def _truncate(self, offset: int) -> None:
        log.info("truncating", partition=self._name, offset=offset, log_end_offset=self.log_end_offset)
        if self.segments[0].base_offset > offset:
            self._restart(offset)
            return
        self.drop_segments([s for s in self.segments if s.base_offset > offset], "truncation")
        self.segments.active.truncate_to(offset)
        # Durable at once: what was cut must not come back after a power failure, behind what is written next.
        self.segments.active.flush()
        self.env.fs.fsync_dir(self.dir)
        self._end_at(offset, min(self.log_start_offset, offset))
        producer_recovery.rebuild(
            self.producers, self._snapshots, self.segments, self.log_start_offset, offset, self._now_ms()
        )
        self.producers.on_high_watermark(self.high_watermark)

    def _restart(self, offset: int) -> None:
        log.info("starting anew", partition=self._name, offset=offset)
        # Deleted at once, not renamed: the new segment may carry an old one's name.
        old = list(self.segments)
        for segment in old:
            segment.remove()
        self.segments.replace(old, [Segment(self.env.fs, self.dir, offset, self.config, self._now_ms())])
        self.env.fs.fsync_dir(self.dir)
        self._end_at(offset, offset)
        self._snapshots.remove_outside(2**63 - 1, 0)
        self.producers.clear(offset)

    def _end_at(self, offset: int, start: int) -> None:
        self.log_end_offset = offset
        self.log_start_offset = start
        self.high_watermark = max(start, min(self.high_watermark, offset))
        self.recovery_point = min(self.recovery_point, offset)
        if self.cleaner_offset is not None:
            self.cleaner_offset = min(self.cleaner_offset, offset)
        self._forget_empty_epochs()

    def _forget_empty_epochs(self) -> None:
        if self.leader_epochs.truncate_from_end(self.log_end_offset):
            self.leader_epochs.save()

    def apply_retention(self, now_ms: int) -> int:
        """Drop the segments that are due by the log's start, its size or their age; gives how many."""

        def apply() -> int:
            dropped = self._age_out(log_retention.before_log_start(self), "log start offset")
            if self.config.delete:
                dropped += self._age_out(log_retention.by_size(self), "retention.bytes")
                dropped += self._age_out(log_retention.by_age(self, now_ms), "retention.ms")
            return dropped

        with self.lock:
            return self.guarded("deleting segments of", apply)

    def _age_out(self, segments: list[Segment], reason: str) -> int:
        if not segments:
            return 0
        if len(segments) == len(self.segments):
            self.roll()
        following = self.segments.after(segments[-1])
        if following is not None and following.base_offset > self.log_start_offset:
            self._start_at(following.base_offset)
        self.drop_segments(segments, reason)
        return len(segments)

    def drop_segments(self, segments: Collection[Segment], reason: str) -> None:
        """Take segments out of the log: renamed to `.deleted` at once, deleted after `file.delete.delay.ms`."""
        if not segments:
            return
        self.segments.replace(segments)
        due_ms = self.env.clock.monotonic_ms() + self.config.file_delete_delay_ms
        for segment in segments:
            log.info("segment dropped", partition=self._name, segment=segment.base_offset, why=reason)
            segment.change_suffix(DELETED_SUFFIX)
            self.env.deletes.add(due_ms, segment.files())
            self._snapshots.remove(segment.base_offset)

    def swap_in(self, cleaned: Segment, old: Collection[Segment]) -> bool:
        """Put a cleaned segment (flushed, ending in `.cleaned`) in the place of those it was made from.

        False, and nothing is done, when those are not all in the log any more.
        """
        with self._flush_lock, self.lock:
            if not {id(s) for s in old} <= {id(s) for s in self.segments} or self.segments.active in old:
                return False
            self.guarded("swapping segments of", lambda: self._swap(cleaned, old))
            return True

    def _swap(self, cleaned: Segment, old: Collection[Segment]) -> None:
        cleaned.change_suffix(SWAP_SUFFIX)
        # From here on a crash is finished forwards: opening the log takes the swap file and drops the old ones.
        due_ms = self.env.clock.monotonic_ms() + self.config.file_delete_delay_ms
        self.segments.replace(old, [cleaned])
        for segment in old:
            segment.change_suffix(DELETED_SUFFIX)
            self.env.deletes.add(due_ms, segment.files())
            if segment.base_offset != cleaned.base_offset:
                self._snapshots.remove(segment.base_offset)
        cleaned.change_suffix("")
        self.env.fs.fsync_dir(self.dir)

    # -- ending

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that were silent for `producer.id.expiration.ms`; gives how many."""
        with self.lock:
            return self.producers.expire(now_ms)

    def update_config(self, config: LogConfig) -> None:
        """Take another configuration from now on."""
        self.config = config

    def close(self, *, clean: bool = True) -> None:
        """Let go of the files; clean: with indexes saved, a producer snapshot at the end, and everything flushed."""
        if self._closed:
            return
        if clean and not self._offline:
            self.flush()
        with self._flush_lock, self.lock:
            if clean and not self._offline:
                self.guarded("closing", self._seal_all)
            self._closed = True

    def _seal_all(self) -> None:
        self._snapshots.take(self.producers, sync=True)
        for segment in self.segments:
            segment.seal()

    def moved_to(self, directory: Path) -> None:
        """Take note that the log's directory was renamed."""
        with self.lock:
            self.dir = directory
            for segment in self.segments:
                segment.moved_to(directory)
            self._snapshots.moved_to(directory)
            self.leader_epochs.moved_to(directory)

    def delete(self) -> None:
        """Delete the log's directory with all in it, at once. Regions given out stay readable."""
        with self._flush_lock, self.lock:
            self._closed = True
            try:
                self.env.fs.remove_tree(self.dir)
            except OSError as e:
                raise self._failed("deleting", e) from e
