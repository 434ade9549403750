"""Opening a partition's log: leftovers of a crash are cleared, unflushed segments checked, the torn tail cut.

After a clean stop nothing is read but the end of the newest segment. Otherwise every segment from the recovery point
on is checked batch by batch; what follows the last good batch goes, and a log line says how many bytes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import structlog

from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import Uuid
from barnabas.storage import partition_metadata, producer_recovery
from barnabas.storage.batch_scan import CorruptBatchError
from barnabas.storage.environment import LogEnvironment
from barnabas.storage.fs import FileSystem
from barnabas.storage.leader_epochs import LeaderEpochs
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.producer_snapshot import ProducerSnapshots
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.segment import CLEANED_SUFFIX, DELETED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, Segment
from barnabas.storage.segments import SegmentList
from barnabas.storage.transaction_index import CorruptIndexError
from barnabas.wire.record_batch import BatchHeader

log = structlog.get_logger("kafka.log.loader")

_SEGMENT_FILE: Final = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex)(\.deleted|\.cleaned|\.swap)?")


def open_log(
    env: LogEnvironment,
    directory: Path,
    topic_partition: TopicPartition,
    config: LogConfig,
    *,
    topic_id: Uuid | None = None,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
) -> Log:
    """Open the log in `directory`, made if it is not there. OSError when the disk fails.

    UnsupportedFormatError when unflushed records are of a message format before 2.

    topic_id: recorded in `partition.metadata` when the file is missing; ValueError when it says another.
    clean: the directory was closed properly, so that nothing needs checking. recovery_point, log_start_offset:
    from the log directory's checkpoints.
    """
    env.fs.make_dirs(directory)
    topic_id = partition_metadata.reconcile(env.fs, directory, topic_id)
    loader = _Loader(env, directory, topic_partition, config, clean, recovery_point, log_start_offset)
    return loader.load(topic_id)


class _Loader:
    def __init__(
        self,
        env: LogEnvironment,
        directory: Path,
        topic_partition: TopicPartition,
        config: LogConfig,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
    ) -> None:
        self.env = env
        self.fs: FileSystem = env.fs
        self.directory = directory
        self.topic_partition = topic_partition
        self.config = config
        self.clean = clean
        self.recovery_point = recovery_point
        self.start = log_start_offset
        self.now_ms = env.clock.now_ms()
        self.segments = SegmentList()
        self.cut_bytes = 0
        self.first_lost: int | None = None

    def load(self, topic_id: Uuid | None) -> Log:
        """Give the opened log."""
        _clear_leftovers(self.fs, self.directory)
        self.epochs = LeaderEpochs.load(self.fs, self.directory, self.recovery_point)
        before = self.epochs.entries
        names = self.fs.listdir(self.directory)
        self.snapshots = ProducerSnapshots(self.fs, self.directory, names)
        self._open_segments(names)
        if not self.clean:
            self._recover_unflushed()
        end = self._end_offset()
        self.segments.active.created_ms = self.now_ms
        start = max(self.start, self.segments[0].base_offset)
        self.epochs.truncate_from_end(end)
        self.epochs.truncate_from_start(start)
        # What was only cut off is cut off again at the next start: a start with many logs should not wait for the disk.
        if not set(self.epochs.entries) <= set(before):
            self.epochs.save()
        producers = ProducerState(str(self.topic_partition), self.env.producer_expiration_ms)
        self.snapshots.remove_strays(self.segments.base_offsets)
        producer_recovery.rebuild(producers, self.snapshots, self.segments, start, end, self.now_ms)
        opened = Log(
            self.env, self.directory, self.topic_partition, topic_id, self.config, self.segments, producers,
            self.snapshots, self.epochs,
            log_start_offset=start,
            log_end_offset=end,
            recovery_point=end if self.clean else min(self.recovery_point, end),
        )  # fmt: skip
        opened.recovered_bytes_cut = self.cut_bytes
        opened.first_lost = self.first_lost
        self.segments.active.jitter_ms = opened.draw_jitter()
        return opened

    def _open_segments(self, names: list[str]) -> None:
        logs = {name[:20] for name in names if _is(name, "log")}
        for name in names:
            match = _SEGMENT_FILE.fullmatch(name)
            if match is not None and match[1] not in logs:
                log.warning("orphaned index deleted", partition=str(self.topic_partition), file=name)
                self.fs.remove(self.directory / name)
        for base in sorted(logs):
            segment = self._segment(int(base))
            self.segments.add(segment)
            if self.clean or segment.base_offset < self.recovery_point:
                self._check_indexes(segment, set(names))

    def _segment(self, base_offset: int) -> Segment:
        segment = Segment(self.fs, self.directory, base_offset, self.config, self.now_ms)
        segment.created_ms = segment.modified_ms
        return segment

    def _check_indexes(self, segment: Segment, names: set[str]) -> None:
        if segment.path(INDEX_SUFFIX).name not in names:
            self._rebuild(segment, "its index is missing")
            return
        try:
            segment.txn_index.check(segment.base_offset)
        except CorruptIndexError as e:
            self._rebuild(segment, str(e))

    def _rebuild(self, segment: Segment, why: str) -> None:
        log.warning("segment checked anew", partition=str(self.topic_partition), segment=segment.base_offset, why=why)
        self._recover(segment)

    def _recover(self, segment: Segment) -> int:
        """Check a segment, rebuilding indexes, epochs and producers on the way; gives the bytes cut."""
        producers = ProducerState(str(self.topic_partition), self.env.producer_expiration_ms)
        producer_recovery.rebuild(
            producers, self.snapshots, self.segments, self.start, segment.base_offset, self.now_ms
        )

        def each(header: BatchHeader, batch: memoryview) -> None:
            latest = self.epochs.latest_epoch
            if header.leader_epoch >= 0 and (latest is None or header.leader_epoch > latest):
                self.epochs.assign_unsaved(header.leader_epoch, header.base_offset)
            aborted = producers.replay(header, batch)
            if aborted is not None:
                segment.txn_index.append(aborted)

        cut = segment.recover(each)
        self.snapshots.take(producers, sync=False)
        if cut:
            self.cut_bytes += cut
            log.warning(
                "torn tail cut",
                partition=str(self.topic_partition),
                segment=segment.base_offset,
                bytes=cut,
                log_end_offset=producers.map_end_offset,
            )
        return cut

    def _recover_unflushed(self) -> None:
        if len(self.segments) and not self.config.compact:
            first = self.segments[0].base_offset
            if first > max(self.start, self.recovery_point):
                self._missing(self.start, first - 1)
        unflushed = self.segments.from_offset(self.recovery_point)
        for n, segment in enumerate(unflushed):
            if n and not self.config.compact:
                self._report_hole(unflushed[n - 1], segment)
            if self._recover(segment):
                beyond = unflushed[n + 1 :]
                if beyond:
                    self._drop(beyond, "they follow a damaged segment")
                return

    def _report_hole(self, before: Segment, segment: Segment) -> None:
        end = before.read_next_offset()
        if end < segment.base_offset:
            self._missing(end, segment.base_offset - 1)

    def _missing(self, first: int, last: int) -> None:
        # The disk kept a later write and lost an earlier one. As Kafka, we keep what is there; who follows a leader
        # that has all of it cuts there.
        log.warning("offsets missing", partition=str(self.topic_partition), first=first, last=last)
        if self.first_lost is None:
            self.first_lost = first

    def _drop(self, segments: tuple[Segment, ...], why: str) -> None:
        size = sum(s.size for s in segments)
        self.cut_bytes += size
        log.warning(
            "segments deleted",
            partition=str(self.topic_partition),
            segments=[s.base_offset for s in segments],
            bytes=size,
            why=why,
        )
        self.segments.replace(segments)
        for segment in segments:
            segment.remove()
            self.snapshots.remove(segment.base_offset)
        self.fs.fsync_dir(self.directory)

    def _end_offset(self) -> int:
        if len(self.segments):
            end = self._read_end()
            if end >= self.start:
                return end
            self._drop(tuple(self.segments), f"they end at {end}, before the log's start {self.start}")
            self.epochs.clear()
            self.epochs.save()
        self.segments.add(self._segment(self.start))
        return self.start

    def _read_end(self) -> int:
        active = self.segments.active
        try:
            return active.read_next_offset()
        except CorruptBatchError as e:
            self._rebuild(active, str(e))
            return active.read_next_offset()


def _is(name: str, kind: str) -> bool:
    match = _SEGMENT_FILE.fullmatch(name)
    return match is not None and match[2] == kind and match[3] is None


def _clear_leftovers(fs: FileSystem, directory: Path) -> None:
    """Finish what a crash interrupted: deletions and swaps go on, a half-written compaction is undone."""
    swaps, cleaned = [], []
    for name in fs.listdir(directory):
        match = _SEGMENT_FILE.fullmatch(name)
        if name.endswith(DELETED_SUFFIX):
            fs.remove(directory / name)
        elif match is not None and match[3] == CLEANED_SUFFIX:
            cleaned.append(int(match[1]))
            fs.remove(directory / name)
        elif match is not None and match[3] == SWAP_SUFFIX:
            swaps.append((int(match[1]), name))
    # A swap begins when no file of the group is `.cleaned` any more.
    undone = min(cleaned, default=2**63)
    for base, name in list(swaps):
        if base >= undone:
            fs.remove(directory / name)
            swaps.remove((base, name))
    _finish_swap(fs, directory, swaps)


def _finish_swap(fs: FileSystem, directory: Path, swaps: list[tuple[int, str]]) -> None:
    for base, name in swaps:
        if not name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            continue
        segment = Segment(fs, directory, base, LogConfig(), 0, SWAP_SUFFIX)
        end = segment.read_next_offset()
        for old in fs.listdir(directory):
            match = _SEGMENT_FILE.fullmatch(old)
            if match is not None and match[3] is None and base <= int(match[1]) < end:
                log.info("compacted segment deleted", dir=str(directory), file=old)
                fs.remove(directory / old)
    for _, name in swaps:
        fs.rename(directory / name, directory / name.removesuffix(SWAP_SUFFIX))
