"""All logs of a node over its `log.dirs`: opened, made, deleted, maintained; failing directories go offline.

Kafka's LogManager. Nothing here runs by itself: the `*_pass` methods are the background work, which the server calls
on worker threads at the intervals of its configuration. The metadata log lies in one of the directories, but is the
raft driver's. A log that moves to another directory has a future log there, which takes its place in the end (KIP-113).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import structlog

from barnabas.model.ports import Clock
from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import RESERVED_UUIDS, Uuid
from barnabas.storage import checkpoint
from barnabas.storage.checkpoint import CheckpointError
from barnabas.storage.cleaner import CleanerSettings, CleaningResult
from barnabas.storage.compaction import Compaction
from barnabas.storage.environment import DelayedDeletes, LogEnvironment
from barnabas.storage.fs import FileSystem, OsFileSystem
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_dir import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    STRAY_SUFFIX,
    LogDir,
    future_of,
    partition_of,
    renamed,
    suffix_of,
)
from barnabas.storage.log_loader import open_log
from barnabas.storage.meta_properties import MetaPropertiesError, MetaVersion
from barnabas.storage.partition_metadata import InconsistentTopicIdError
from barnabas.wire.errors import ApiError, ErrorCode

log = structlog.get_logger("kafka.log.dirs")

METADATA_TOPIC: Final = "__cluster_metadata"
_CLOSING_THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class LogDirsSettings:
    """What the server's configuration says of its directories. file_delete_delay_ms: of whole logs."""

    producer_expiration_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000


def ignore_offline(directory: LogDir) -> None:
    """Do nothing about a failed directory."""


class LogDirs:
    """See the module. on_offline: told each directory that fails, once; called on the thread that met the failure."""

    def __init__(
        self,
        paths: Sequence[Path],
        clock: Clock,
        *,
        topic_config: Callable[[str], LogConfig] = lambda topic: LogConfig(),
        on_offline: Callable[[LogDir], None] = ignore_offline,
        settings: LogDirsSettings | None = None,
        fs: FileSystem | None = None,
        rng: Random | None = None,
    ) -> None:
        self._fs = fs if fs is not None else OsFileSystem()
        self._clock = clock
        self._settings = settings or LogDirsSettings()
        self._rng = rng or Random()
        self._on_offline = on_offline
        self._lock = threading.RLock()
        self._logs: dict[TopicPartition, Log] = {}
        self._in_dir: dict[Path, dict[TopicPartition, Log]] = {path: {} for path in paths}
        self._futures: dict[TopicPartition, Log] = {}
        self._preferred: dict[TopicPartition, Path] = {}
        self._compaction = Compaction(self._cleaned)
        self.topic_config = topic_config
        """Gives a topic's configuration, overrides over the node's defaults."""
        self.deletes = DelayedDeletes()
        self.directories = tuple(LogDir(path, self._fs) for path in paths)
        self._env = LogEnvironment(
            fs=self._fs,
            clock=clock,
            deletes=self.deletes,
            jitter=self._rng.randrange,
            on_io_error=self._failed,
            producer_expiration_ms=self._settings.producer_expiration_ms,
        )

    @property
    def env(self) -> LogEnvironment:
        """Give what the logs share."""
        return self._env

    @property
    def compaction(self) -> Compaction:
        """Give what compacts the logs, and what it has done."""
        return self._compaction

    # -- opening

    def acquire(
        self,
        cluster_id: str | None = None,
        node_id: int | None = None,
        version: MetaVersion = MetaVersion.KRAFT,
    ) -> None:
        """Lock the directories and check whose they are. A directory that fails goes offline.

        LogDirLockedError when another process has one; MetaPropertiesError when one belongs to another cluster or
        node, or to another kind of cluster than `version` says, when two have one id, or when none is formatted.
        Unformatted directories beside a formatted one are made this node's; with cluster_id and node_id, as in
        ZooKeeper mode, where nobody formats, all of them may be empty.
        """
        try:
            for directory in self.directories:
                try:
                    directory.acquire(version)
                except OSError as e:
                    self._failed(directory.path, e)
            self._check_identity(cluster_id, node_id, version)
        except BaseException:
            self.release()
            raise

    def _check_identity(self, cluster_id: str | None, node_id: int | None, version: MetaVersion) -> None:
        seen: dict[Uuid, LogDir] = {}
        for directory in self.online:
            own = directory.properties
            if own is None:
                continue
            cluster_id = cluster_id if cluster_id is not None else own.cluster_id
            node_id = node_id if node_id is not None else own.node_id
            if (own.cluster_id, own.node_id) != (cluster_id, node_id):
                raise MetaPropertiesError(
                    f"{directory.path} belongs to node {own.node_id} of cluster {own.cluster_id}, "
                    f"not to node {node_id} of cluster {cluster_id}: give the node its old id, or another directory"
                )
            if own.directory_id is not None and own.directory_id in seen:
                raise MetaPropertiesError(
                    f"{directory.path} and {seen[own.directory_id].path} have one directory.id, {own.directory_id}"
                )
            if own.directory_id is not None:
                seen[own.directory_id] = directory
        if cluster_id is None or node_id is None:
            raise MetaPropertiesError(f"none of {[str(d.path) for d in self.directories]} is formatted")
        for directory in self.online:
            if directory.properties is None:
                self._on(directory, lambda d=directory: d.adopt(cluster_id, node_id, version))  # type: ignore[misc]

    def load(self, is_stray: Callable[[TopicPartition, Uuid | None], bool] = lambda tp, topic_id: False) -> None:
        """Open every log there is; logs that were renamed for deletion go on dying.

        is_stray: says of a log whether the metadata knows nothing of it here; it is renamed and left out.
        """
        for directory in self.online:
            self._on(directory, lambda d=directory: self._load_dir(d, is_stray))  # type: ignore[misc]

    def _load_dir(self, directory: LogDir, is_stray: Callable[[TopicPartition, Uuid | None], bool]) -> None:
        directory.take_clean_marker()
        directory.read_checkpoints()
        names = [n for n in self._fs.listdir(directory.path) if self._fs.is_dir(directory.path / n)]
        found = [(name, tp) for name in names if (tp := partition_of(name)) and tp.topic != METADATA_TOPIC]
        log.info("loading", dir=str(directory.path), logs=len(found), clean=directory.was_clean)
        for name in names:
            if suffix_of(name) == DELETE_SUFFIX:
                self.deletes.add(self._clock.monotonic_ms(), [directory.path / name])
        for _, tp in found:
            opened = self._open_found(directory, tp)
            if is_stray(tp, opened.topic_id):
                self._rename_away(opened, STRAY_SUFFIX)
            elif tp in self._logs:
                self._choose(directory, self._logs[tp], opened)
            else:
                self._add(directory, opened)
        for name in names:
            tp = future_of(name)
            if tp is not None:
                self._load_future(directory, name, tp)

    def _choose(self, directory: LogDir, first: Log, second: Log) -> None:
        """Keep the longer of two logs of one partition, one of which was moving when this node ended."""
        tp = first.topic_partition
        if first.topic_id is None or first.topic_id != second.topic_id:
            raise MetaPropertiesError(f"{tp} is in both {first.dir} and {second.dir}; delete one of them")
        shorter = min(first, second, key=lambda one: one.log_end_offset)
        log.warning("two logs of one partition", partition=str(tp), set_aside=str(shorter.dir))
        if shorter is first:
            del self._in_dir[first.dir.parent][tp]
            self._add(directory, second)
        self._rename_away(shorter, STRAY_SUFFIX)

    def _load_future(self, directory: LogDir, name: str, tp: TopicPartition) -> None:
        """Open a future log; one whose partition has moved on is left to die."""
        if tp in self._futures:
            self.deletes.add(self._clock.monotonic_ms(), [directory.path / name])
            return
        path, config = directory.path / name, self.topic_config(tp.topic)
        self._futures[tp] = open_log(self._env, path, tp, config, clean=directory.was_clean)

    def _open_found(self, directory: LogDir, tp: TopicPartition) -> Log:
        try:
            opened = open_log(
                self._env,
                directory.path / str(tp),
                tp,
                self.topic_config(tp.topic),
                clean=directory.was_clean,
                recovery_point=directory.recovery_points.get(tp, 0),
                log_start_offset=directory.log_start_offsets.get(tp, 0),
            )
        except CheckpointError as e:
            raise OSError(str(e)) from e
        opened.update_high_watermark(directory.high_watermarks.get(tp, 0))
        opened.cleaner_offset = directory.cleaner_offsets.get(tp)
        return opened

    # -- directories

    @property
    def online(self) -> list[LogDir]:
        """Give the directories that work."""
        return [d for d in self.directories if d.offline is None]

    @property
    def offline(self) -> list[LogDir]:
        """Give the directories that have failed."""
        return [d for d in self.directories if d.offline is not None]

    def directory_of(self, tp: TopicPartition) -> LogDir | None:
        """Give the directory that a partition's log is in; None when there is no log."""
        found = self._logs.get(tp)
        return self._directory(found.dir.parent) if found is not None else None

    def logs_in(self, directory: LogDir) -> list[Log]:
        """Give the logs of a directory."""
        with self._lock:
            return list(self._in_dir[directory.path].values())

    def find_directory(self, path: str) -> LogDir | None:
        """Give the directory of that path, as `log.dirs` spells it or in full; None when it is none of ours."""
        wanted = Path(path).absolute()
        return next((d for d in self.directories if d.path.absolute() == wanted), None)

    def _directory(self, path: Path) -> LogDir | None:
        return next((d for d in self.directories if d.path == path), None)

    def _on(self, directory: LogDir, action: Callable[[], None]) -> None:
        """Do something to a directory; it goes offline when its disk fails at it."""
        try:
            action()
        except OSError as e:
            self._failed(directory.path, e)
        except ApiError as e:
            if e.code != ErrorCode.KAFKA_STORAGE_ERROR:
                raise

    def fail(self, path: Path, error: OSError) -> None:
        """Take a directory offline (an administrator, or a failure met elsewhere)."""
        self._failed(path, error)

    def _failed(self, path: Path, error: OSError) -> None:
        with self._lock:
            directory = self._directory(path)
            if directory is None or directory.offline is not None:
                return
            directory.offline = error
            lost = self.logs_in(directory) + self.futures_in(directory)
            for one in lost:
                one.mark_offline()
        log.error("log directory offline", dir=str(path), reason=str(error), logs=len(lost))
        self._on_offline(directory)

    # -- logs

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        """Give every open log; take a copy to iterate while others may change it."""
        return self._logs

    def get(self, tp: TopicPartition) -> Log | None:
        """Give a partition's log, or None."""
        return self._logs.get(tp)

    def get_or_create(
        self, tp: TopicPartition, topic_id: Uuid, config: LogConfig, directory_id: Uuid | None = None
    ) -> Log:
        """Give a partition's log, made in the directory named, else in the one with the fewest logs.

        ApiError: KAFKA_STORAGE_ERROR when no directory works, INCONSISTENT_TOPIC_ID when the log there is another's.
        """
        with self._lock:
            found = self._logs.get(tp)
            if found is not None:
                if found.topic_id is None:
                    found.guarded("identifying", lambda: found.identify(topic_id))
                if found.topic_id != topic_id:
                    raise ApiError(
                        ErrorCode.INCONSISTENT_TOPIC_ID, f"{tp} is here with the id {found.topic_id}, not {topic_id}"
                    )
                return found
            directory = self._directory_for_new(directory_id, self._preferred.pop(tp, None))
            try:
                # Checkpoints of a log that had the name before say nothing of this one.
                created = open_log(self._env, directory.path / str(tp), tp, config, topic_id=topic_id)
            except OSError as e:
                self._failed(directory.path, e)
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"making the log of {tp} failed: {e}") from e
            except InconsistentTopicIdError as e:
                raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID, str(e)) from e
            self._add(directory, created)
            return created

    def _add(self, directory: LogDir, one: Log) -> None:
        self._logs[one.topic_partition] = one
        self._in_dir[directory.path][one.topic_partition] = one

    def _directory_for_new(self, directory_id: Uuid | None, preferred: Path | None) -> LogDir:
        online = self.online
        if preferred is not None and directory_id in (None, *RESERVED_UUIDS):
            online = [d for d in online if d.path == preferred] or online
        if directory_id is not None and directory_id not in RESERVED_UUIDS:
            online = [d for d in online if d.directory_id == directory_id] or online
        if not online:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "every log directory is offline")
        return min(online, key=lambda d: len(self._in_dir[d.path]))

    def delete(self, tp: TopicPartition) -> None:
        """Delete a partition's log: renamed at once, its files go after `file.delete.delay.ms`."""
        self.drop_future(tp)
        with self._lock:
            gone = self._logs.pop(tp, None)
            if gone is not None:
                del self._in_dir[gone.dir.parent][tp]
        if gone is not None and not gone.is_offline:
            self._rename_away(gone, DELETE_SUFFIX)

    def _rename_away(self, gone: Log, suffix: str) -> None:
        target = gone.dir.with_name(renamed(gone.topic_partition, suffix))
        try:
            gone.close(clean=False)
            with gone.lock:
                self._fs.rename(gone.dir, target)
                gone.moved_to(target)
            self._fs.fsync_dir(target.parent)
        except OSError as e:
            self._failed(gone.dir.parent, e)
            return
        log.info("log renamed", partition=str(gone.topic_partition), path=str(target))
        if suffix == DELETE_SUFFIX:
            delay = min(gone.config.file_delete_delay_ms, self._settings.file_delete_delay_ms)
            self.deletes.add(self._clock.monotonic_ms() + delay, [target])

    # -- moving between directories

    def prefer(self, tp: TopicPartition, directory: LogDir) -> None:
        """Make the log of a partition there, should it be made one day and nobody say where."""
        if tp not in self._logs:
            self._preferred[tp] = directory.path

    @property
    def futures(self) -> Mapping[TopicPartition, Log]:
        """Give the future logs, by the partition whose log they are to replace."""
        return self._futures

    def futures_in(self, directory: LogDir) -> list[Log]:
        """Give the future logs of a directory."""
        return [one for one in list(self._futures.values()) if one.dir.parent == directory.path]

    def make_future(self, tp: TopicPartition, directory: LogDir) -> Log:
        """Make an empty log that is to take the place of a partition's; ApiError when that directory fails."""
        current = self._logs[tp]
        path = directory.path / renamed(tp, FUTURE_SUFFIX)
        try:
            made = open_log(self._env, path, tp, current.config, topic_id=current.topic_id)
        except OSError as e:
            self._failed(directory.path, e)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"making a future log of {tp} failed: {e}") from e
        with self._lock:
            self._futures[tp] = made
        return made

    def drop_future(self, tp: TopicPartition) -> None:
        """Delete a partition's future log, if it has one."""
        with self._lock:
            gone = self._futures.pop(tp, None)
        if gone is not None and not gone.is_offline:
            self._rename_away(gone, DELETE_SUFFIX)

    def promote(self, tp: TopicPartition) -> Log:
        """Let the future log take the place of the current one, which is deleted; gives it. OSError, or ApiError."""
        with self._lock:
            future, current = self._futures[tp], self._logs[tp]
            future.check_usable()
            future.flush()
            target = future.dir.with_name(str(tp))
            with future.lock:
                self._fs.rename(future.dir, target)
                future.moved_to(target)
            self._fs.fsync_dir(target.parent)
            # Should we end here, the next start finds two logs, and keeps the longer.
            self._rename_away(current, DELETE_SUFFIX)
            del self._futures[tp]
            del self._in_dir[self._path_of(current, tp)][tp]
            self._logs[tp] = self._in_dir[target.parent][tp] = future
            return future

    def _path_of(self, current: Log, tp: TopicPartition) -> Path:
        return next(path for path, logs in self._in_dir.items() if logs.get(tp) is current)

    def update_config(self, topic: str, config: LogConfig) -> None:
        """Give the open logs of a topic another configuration."""
        for tp, one in [*self._logs.items(), *self._futures.items()]:
            if tp.topic == topic:
                one.update_config(config)

    # -- background work

    def _each(self, action: Callable[[Log], object]) -> None:
        for one in list(self._logs.values()):
            if one.is_offline or one.is_closed:
                continue
            try:
                action(one)
            except ApiError as e:
                log.warning("log skipped", partition=str(one.topic_partition), reason=e.message)

    def retention_pass(self) -> int:
        """Drop the segments that are due, and forget silent producers; gives how many segments went."""
        now_ms = self._clock.now_ms()
        dropped = 0

        def age(one: Log) -> None:
            nonlocal dropped
            dropped += one.apply_retention(now_ms)
            one.expire_producers(now_ms)

        self._each(age)
        return dropped

    def deletion_pass(self) -> int:
        """Delete the files and directories whose delay is over; gives how many entries were."""
        return self.deletes.run(self._fs, self._clock.monotonic_ms())

    def flush_pass(self) -> None:
        """Flush segments that were rolled, and logs whose `flush.ms` is over."""
        now_ms = self._clock.now_ms()

        def flush(one: Log) -> None:
            if one.unflushed_records and now_ms - one.last_flush_ms >= one.config.flush_ms:
                one.flush()
            else:
                one.flush_sealed()

        self._each(flush)

    def clean_pass(self, settings: CleanerSettings | None = None) -> list[CleaningResult]:
        """Compact the logs that need it, the filthiest first, until none does; gives what was done to each."""
        return self._compaction.run(self._logs, self._clock.now_ms(), settings or CleanerSettings())

    def _cleaned(self, one: Log) -> None:
        directory = self.directory_of(one.topic_partition)
        if directory is not None:
            self._on(directory, lambda: self._write_cleaner_offsets(directory))

    def _write_cleaner_offsets(self, directory: LogDir) -> None:
        offsets = {one.topic_partition: at for one in self.logs_in(directory) if (at := one.cleaner_offset) is not None}
        directory.write_checkpoint(checkpoint.CLEANER, offsets)

    def checkpoint_pass(self) -> None:
        """Write the recovery points, log starts and high watermarks of each directory, where they changed."""
        for directory in self.online:
            self._on(directory, lambda d=directory: self._write_checkpoints(d))  # type: ignore[misc]

    def _write_checkpoints(self, directory: LogDir) -> None:
        logs = self.logs_in(directory)
        directory.write_checkpoint(checkpoint.RECOVERY_POINT, _offsets(logs, lambda one: one.recovery_point))
        directory.write_checkpoint(checkpoint.HIGH_WATERMARK, _offsets(logs, lambda one: one.high_watermark))
        moved = [one for one in logs if one.log_start_offset > one.segments[0].base_offset]
        directory.write_checkpoint(checkpoint.LOG_START, _offsets(moved, lambda one: one.log_start_offset))
        self._write_cleaner_offsets(directory)

    # -- closing

    def close(self, *, clean: bool = True, broker_epoch: int = -1) -> None:
        """Close every log and let go of the directories; clean: flushed, checkpointed, and marked as stopped so."""
        for directory in self.online:
            if clean:
                self._on(directory, lambda d=directory: self._close_dir(d, broker_epoch))  # type: ignore[misc]
            else:
                for one in self.logs_in(directory) + self.futures_in(directory):
                    one.close(clean=False)
        with self._lock:
            self._logs.clear()
            self._futures.clear()
            for logs in self._in_dir.values():
                logs.clear()
        self.release()

    def _close_dir(self, directory: LogDir, broker_epoch: int) -> None:
        # Side by side, because the disk takes many syncs together almost as fast as one.
        with ThreadPoolExecutor(_CLOSING_THREADS) as pool:
            logs = self.logs_in(directory) + self.futures_in(directory)
            for done in [pool.submit(one.close) for one in logs]:
                done.result()
        self._write_checkpoints(directory)
        if directory.offline is None:
            directory.mark_clean(broker_epoch)

    def release(self) -> None:
        """Let go of the directories' locks."""
        for directory in self.directories:
            directory.release()


def _offsets(logs: Iterable[Log], offset: Callable[[Log], int]) -> dict[TopicPartition, int]:
    return {one.topic_partition: offset(one) for one in logs}
