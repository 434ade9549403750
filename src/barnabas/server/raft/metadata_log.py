"""The metadata log on disk: `__cluster_metadata-0` with its segments, snapshots and `quorum-state`.

Plain calls that may block: `save`, `write_snapshot` and `clean` are the driver's, on its worker thread; reading is for
the start, for what other replicas wrote, and for answering them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from barnabas.core.raft.control import ControlState
from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.node import MAX_BATCH_BYTES
from barnabas.core.raft.ready import Entry, InstallSnapshot, LogRead, LogState, Ready, SnapshotInfo, SnapshotRead
from barnabas.core.raft.snapshot import KeptSnapshot, oldest_to_keep
from barnabas.model.topic_partition import OffsetAndEpoch, TopicPartition
from barnabas.model.uuid import METADATA_TOPIC_ID
from barnabas.storage import quorum_state, snapshots
from barnabas.storage.environment import LogEnvironment
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_loader import open_log
from barnabas.wire.control_records import decode_control
from barnabas.wire.errors import ProtocolError
from barnabas.wire.record_batch import Record, decode_batch, iter_headers, read_header
from barnabas.wire.records.snapshot_footer_record import SnapshotFooterRecord
from barnabas.wire.records.snapshot_header_record import SnapshotHeaderRecord

log = structlog.get_logger("kafka.raft")

METADATA_PARTITION: Final = TopicPartition("__cluster_metadata", 0)
_READ_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class MetadataLogSettings:
    """The keys of the metadata log: see `server.config_keys.quorum`.

    durable: what is appended reaches the disk before anybody is told; a node that never votes does without.
    """

    segment_bytes: int = 2**30
    segment_ms: int = 604_800_000
    snapshot_bytes: int = 20 * 1024 * 1024
    snapshot_interval_ms: int = 3_600_000
    retention_bytes: int = 100 * 1024 * 1024
    retention_ms: int = 604_800_000
    max_batch_bytes: int = MAX_BATCH_BYTES
    durable: bool = True


@dataclass(frozen=True, slots=True)
class LoadedBatch:
    """A batch read back. base_offset: of its first record; timestamp_ms: its newest."""

    base_offset: int
    end_offset: int
    epoch: int
    timestamp_ms: int
    control: bool
    records: tuple[Record, ...]
    size_bytes: int


class MetadataLogError(Exception):
    """The metadata log's directory is not consistent; says why. Nothing was changed."""


def read_batches(data: bytes) -> Iterator[LoadedBatch]:
    """Give the batches of a file or a stretch of one; ProtocolError when it is damaged."""
    for position, header in iter_headers(data):
        yield LoadedBatch(
            header.base_offset,
            header.last_offset + 1,
            header.leader_epoch,
            header.max_timestamp,
            header.is_control,
            tuple(decode_batch(data, position)),
            header.size,
        )


def read_snapshot_batches(data: bytes) -> Iterator[LoadedBatch]:
    """Give the batches of a whole snapshot file; ProtocolError when it is damaged, or lacks its header or footer."""
    first = last = None
    for batch in read_batches(data):
        if first is None:
            first = _control_type(batch)
            if first is not SnapshotHeaderRecord:
                raise ProtocolError("a snapshot does not begin with its header")
        last = batch
        yield batch
    if last is None or _control_type(last) is not SnapshotFooterRecord:
        raise ProtocolError("a snapshot does not end with its footer: it is not whole")


def _control_type(batch: LoadedBatch) -> type | None:
    found = decode_control(batch.records[0]) if batch.control and batch.records else None
    return None if found is None else type(found[1])


class MetadataLog:
    """The files; made by `open`."""

    def __init__(self, env: LogEnvironment, directory: Path, settings: MetadataLogSettings, files: Log) -> None:
        self._env = env
        self._settings = settings
        self._log = files
        self._snapshots = snapshots.list_snapshots(directory, env.fs)
        self._partial: snapshots.PartialSnapshot | None = None
        self.dir: Final = directory

    @classmethod
    def open(cls, env: LogEnvironment, parent: Path, settings: MetadataLogSettings) -> MetadataLog:
        """Open the log in a data directory, cutting a torn tail; MetadataLogError when what is left has a hole."""
        directory = parent / str(METADATA_PARTITION)
        env.fs.make_dirs(directory)
        for name in snapshots.remove_leftovers(directory, env.fs):
            log.info("deleted a snapshot that a crash left unfinished", file=name, dir=str(directory))
        config = LogConfig.of(
            {
                "max.message.bytes": str(settings.max_batch_bytes),
                "internal.segment.bytes": str(settings.segment_bytes),
                "segment.ms": str(settings.segment_ms),
                "retention.ms": "-1",
                "retention.bytes": "-1",
            }
        )
        files = open_log(env, directory, METADATA_PARTITION, config, topic_id=METADATA_TOPIC_ID)
        if files.recovered_bytes_cut:
            log.warning(
                "cut the torn tail of the metadata log", bytes=files.recovered_bytes_cut, end=files.log_end_offset
            )
        self = cls(env, directory, settings, files)
        self._check()
        return self

    @property
    def env(self) -> LogEnvironment:
        """Give the environment of the log."""
        return self._env

    @property
    def log(self) -> Log:
        """Give the log itself, to look at."""
        return self._log

    def _check(self) -> None:
        newest = self._snapshots[-1] if self._snapshots else OffsetAndEpoch(0, 0)
        if self._log.log_start_offset > newest.offset:
            raise MetadataLogError(
                f"{self.dir}: the log starts at {self._log.log_start_offset}, but the newest snapshot ends at "
                f"{newest.offset}: the records between are gone"
            )
        # A crash between a fetched snapshot and the log that it replaces: what it holds is committed, the log is older.
        if newest.offset > self._log.log_end_offset or newest.epoch > (self._log.leader_epochs.latest_epoch or 0):
            self._begin_at(newest)

    def _begin_at(self, snapshot_id: OffsetAndEpoch) -> None:
        self._log.truncate_fully_and_start_at(snapshot_id.offset)
        self._log.leader_epochs.clear()
        self._log.leader_epochs.assign(snapshot_id.epoch, snapshot_id.offset)

    @property
    def snapshot_ids(self) -> tuple[OffsetAndEpoch, ...]:
        """Give the snapshots there are, oldest first."""
        return tuple(self._snapshots)

    @property
    def end(self) -> OffsetAndEpoch:
        """Give the offset after the last record, and that one's epoch."""
        epoch = self._log.leader_epochs.latest_epoch
        snapshot = self._snapshots[-1].epoch if self._snapshots else 0
        return OffsetAndEpoch(self._log.log_end_offset, max(snapshot, 0 if epoch is None else epoch))

    def state(self) -> LogState:
        """Give what stands on disk, for a replica that starts."""
        end = self._log.log_end_offset
        return LogState(
            start_offset=self._log.log_start_offset,
            end_offset=end,
            epochs=tuple((epoch, start) for epoch, start in self._log.leader_epochs.entries if start < end),
            snapshots=tuple(self.snapshot_info(s) for s in self._snapshots),
        )

    @property
    def start_offset(self) -> int:
        """Give the offset of the first record that is still in the log."""
        return self._log.log_start_offset

    @property
    def size_bytes(self) -> int:
        """Give the bytes of all segments."""
        return self._log.size

    @property
    def files(self) -> Log:
        """Give the log itself, for those who only read or measure it."""
        return self._log

    # -- the start

    def load_election(self) -> ElectionState | None:
        """Give what `quorum-state` says, None when there is none yet."""
        data = quorum_state.read_quorum_state(self.dir, self._env.fs)
        return None if data is None else ElectionState.from_data(data)

    def read_snapshot(self) -> tuple[OffsetAndEpoch, Iterator[LoadedBatch]] | None:
        """Give the newest snapshot and its batches, None when there is none."""
        if not self._snapshots:
            return None
        newest = self._snapshots[-1]
        data = self._env.fs.read_bytes(snapshots.snapshot_path(self.dir, newest))
        return newest, read_snapshot_batches(data)

    def load_control(self, control: ControlState) -> None:
        """Take the voters and kraft.version from the newest snapshot and the log after it."""
        found = self.read_snapshot()
        start = 0
        if found is not None:
            start = found[0].offset
            for batch in found[1]:
                _replay_control(control, batch, start - 1)
        for batch in self.read(start, self._log.log_end_offset):
            _replay_control(control, batch, None)

    def read(self, start: int, end: int) -> Iterator[LoadedBatch]:
        """Give the batches of the log from the one that begins at `start`, up to `end`."""
        offset = max(start, self._log.log_start_offset)
        while offset < end:
            region = self._log.read(offset, _READ_BYTES, max_offset=end, min_one_batch=True).records
            data = _whole_batches(region.read())
            if not data:
                return
            for batch in read_batches(data):
                yield batch
                offset = batch.end_offset

    # -- answering other replicas

    def read_records(self, read: LogRead) -> bytes:
        """Give whole batches for a Fetch; ApiError OFFSET_OUT_OF_RANGE when the log was cut meanwhile."""
        found = self._log.read(read.start_offset, read.max_bytes, max_offset=read.end_offset, min_one_batch=True)
        return _whole_batches(found.records.read())

    def read_snapshot_part(self, read: SnapshotRead) -> bytes:
        """Give bytes of a snapshot; FileNotFoundError when it is gone."""
        file = self._env.fs.open(snapshots.snapshot_path(self.dir, read.id), write=False)
        return file.pread(read.max_bytes, read.position)

    # -- writing

    def save(self, ready: Ready) -> None:
        """Make durable what a Ready asks for, in its order; OSError or ApiError when the disk does not."""
        if ready.election is not None:
            data = ready.election.to_data(ready.kraft_version, ready.voter_ids)
            quorum_state.write_quorum_state(self.dir, data, 1 if ready.kraft_version > 0 else 0, self._env.fs)
        if ready.truncate_to is not None:
            self._log.truncate_to(ready.truncate_to)
        if ready.snapshot is not None:
            self._take_in(ready.snapshot)
        if ready.entries:
            for run in self._runs(ready.entries):
                self._log.append_as_follower(memoryview(bytearray().join(run)))
            if self._settings.durable:
                self._log.flush()

    def _runs(self, entries: Sequence[Entry]) -> Iterator[list[bytes]]:
        """Give batches in runs that fit a segment: one write each."""
        run: list[bytes] = []
        size = 0
        for entry in entries:
            if run and size + len(entry.data) > self._settings.segment_bytes:
                yield run
                run, size = [], 0
            run.append(entry.data)
            size += len(entry.data)
        yield run

    def _take_in(self, stretch: InstallSnapshot) -> None:
        if stretch.position == 0 or self._partial is None or self._partial.id != stretch.id:
            self._partial = snapshots.PartialSnapshot(self.dir, stretch.id, self._env.fs)
        self._partial.write(stretch.data, stretch.position)
        if stretch.last:
            self._partial.finish()
            self._partial = None
            self._begin_at(stretch.id)
            gone = [s for s in self._snapshots if s != stretch.id]
            self._snapshots = [stretch.id]
            for snapshot_id in gone:
                self._env.fs.remove(snapshots.snapshot_path(self.dir, snapshot_id))

    def commit(self, high_watermark: int) -> None:
        """Let the files know what is committed."""
        self._log.update_high_watermark(high_watermark)

    # -- snapshots

    def snapshot_info(self, snapshot_id: OffsetAndEpoch) -> SnapshotInfo:
        """Give how large a whole snapshot is."""
        return SnapshotInfo(snapshot_id, self._env.fs.size(snapshots.snapshot_path(self.dir, snapshot_id)))

    def write_snapshot(self, snapshot_id: OffsetAndEpoch, batches: Iterable[bytes]) -> Path:
        """Write a snapshot durably; it counts from now on."""
        path = snapshots.write_snapshot(self.dir, snapshot_id, batches, self._env.fs)
        self._snapshots = sorted({*self._snapshots, snapshot_id})
        return path

    def clean(self, now_ms: int) -> int:
        """Delete old snapshots, and segments that lie before the oldest that stays; gives how many snapshots went."""
        kept = [
            KeptSnapshot(s, self._env.fs.size(snapshots.snapshot_path(self.dir, s)), self._timestamp_of(s))
            for s in self._snapshots
        ]
        settings = self._settings
        oldest = oldest_to_keep(kept, self._log.size, now_ms, settings.retention_bytes, settings.retention_ms)
        self._env.deletes.run(self._env.fs, self._env.clock.monotonic_ms())
        if oldest is None or not self._log.log_start_offset < oldest.offset <= self._log.high_watermark:
            return 0
        gone = [s for s in self._snapshots if s < oldest]
        self._log.delete_records_before(oldest.offset)
        self._log.apply_retention(now_ms)
        self._snapshots = [s for s in self._snapshots if s >= oldest]
        for snapshot_id in gone:
            self._env.fs.remove(snapshots.snapshot_path(self.dir, snapshot_id))
        log.info("deleted old metadata snapshots", count=len(gone), log_start=oldest.offset)
        return len(gone)

    def _timestamp_of(self, snapshot_id: OffsetAndEpoch) -> int:
        file = self._env.fs.open(snapshots.snapshot_path(self.dir, snapshot_id), write=False)
        head = file.pread(64 * 1024, 0)
        found = decode_control(next(iter(decode_batch(head[: read_header(head, 0).size]))))
        opening = None if found is None else found[1]
        return opening.last_contained_log_timestamp if isinstance(opening, SnapshotHeaderRecord) else 0

    def close(self) -> None:
        """Flush and close."""
        self._log.close()


def _replay_control(control: ControlState, batch: LoadedBatch, at: int | None) -> None:
    if not batch.control:
        return
    for record in batch.records:
        found = decode_control(record)
        if found is not None:
            control.replay(record.offset if at is None else at, found[1])


def _whole_batches(data: bytes) -> bytes:
    """Give `data` without a batch that a read cut in two."""
    position = 0
    while len(data) - position >= 12:
        end = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if end > len(data):
            break
        position = end
    return data[:position]
