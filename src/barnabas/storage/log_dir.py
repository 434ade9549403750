"""One log directory: its lock, its identity, its clean-shutdown marker and its offset checkpoints."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from uuid import uuid4

import structlog

from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import Uuid
from barnabas.storage import checkpoint
from barnabas.storage.fs import FileSystem
from barnabas.storage.meta_properties import (
    MetaProperties,
    MetaVersion,
    read_meta_properties,
    write_meta_properties,
)

log = structlog.get_logger("kafka.log.dirs")

LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
FUTURE_SUFFIX: Final = "-future"
"""Of a copy that is to take the place of a log in another directory (KIP-113)."""
_MAX_NAME: Final = 255
_PARTITION: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
_RENAMED: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)\.[^.]+(?P<suffix>-delete|-stray|-future)")


class LogDirLockedError(Exception):
    """Another process, or another node of this one, uses the directory."""


def partition_of(name: str) -> TopicPartition | None:
    """Give the partition whose log a sub-directory of this name holds; None for any other name."""
    match = _PARTITION.fullmatch(name)
    return TopicPartition(match["topic"], int(match["partition"])) if match is not None else None


def future_of(name: str) -> TopicPartition | None:
    """Give the partition that a directory of this name holds a future log of; None for any other name."""
    match = _RENAMED.fullmatch(name)
    if match is None or match["suffix"] != FUTURE_SUFFIX:
        return None
    return TopicPartition(match["topic"], int(match["partition"]))


def suffix_of(name: str) -> str | None:
    """Give `-delete`, `-stray` or `-future` when a log was renamed to be so, else None."""
    match = _RENAMED.fullmatch(name)
    return match["suffix"] if match is not None else None


def renamed(partition: TopicPartition, suffix: str) -> str:
    """Give a name for a log that is on its way, in or out, which never existed before and fits in a directory entry."""
    tail = f"-{partition.partition}.{uuid4().hex}{suffix}"
    return partition.topic[: _MAX_NAME - len(tail)] + tail


class LogDir:
    """See the module. offline: why the directory is not used any more, None while it is."""

    def __init__(self, path: Path, fs: FileSystem) -> None:
        self.path = path
        self.fs = fs
        self.offline: OSError | None = None
        self.properties: MetaProperties | None = None
        self.was_clean = False
        self.clean_broker_epoch = -1
        """The broker epoch of the last clean stop, -1 when not known (KIP-966)."""
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        self._release: Callable[[], None] | None = None
        self._writing = threading.Lock()
        self._written: dict[str, dict[TopicPartition, int]] = {}

    def __repr__(self) -> str:
        return f"LogDir({self.path})"

    @property
    def directory_id(self) -> Uuid | None:
        """Give the id that the controller knows the directory by (KIP-858); None when it has none."""
        return self.properties.directory_id if self.properties is not None else None

    def acquire(self, version: MetaVersion = MetaVersion.KRAFT) -> None:
        """Lock the directory, made if need be, and read whose it is; OSError, LogDirLockedError, or as it reads.

        version: of what kind of cluster it has to be.
        """
        self.fs.make_dirs(self.path)
        self._release = self.fs.lock(self.path / LOCK_FILE)
        if self._release is None:
            raise LogDirLockedError(f"{self.path} is in use: another process, or another node, holds {LOCK_FILE}")
        self.properties = read_meta_properties(self.path, self.fs, version)

    def adopt(self, cluster_id: str, node_id: int, version: MetaVersion = MetaVersion.KRAFT) -> None:
        """Make an unformatted directory this node's; with a fresh id, which Kafka's have in KRaft only."""
        directory_id = Uuid(uuid4().bytes) if version is MetaVersion.KRAFT else None
        self.properties = MetaProperties(cluster_id, node_id, directory_id, version)
        write_meta_properties(self.path, self.properties, self.fs)

    def take_clean_marker(self) -> None:
        """Read and delete the marker of a clean stop: a crash from here on counts as one."""
        marker = self.path / CLEAN_SHUTDOWN_FILE
        try:
            text = self.fs.read_bytes(marker)
        except FileNotFoundError:
            return
        self.was_clean = True
        try:
            self.clean_broker_epoch = int(json.loads(text)["brokerEpoch"])
        except (ValueError, KeyError, TypeError):
            self.clean_broker_epoch = -1
        self.fs.remove(marker)
        self.fs.fsync_dir(self.path)

    def mark_clean(self, broker_epoch: int) -> None:
        """Write the marker of a clean stop."""
        text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        self.fs.write_durably(self.path / CLEAN_SHUTDOWN_FILE, text.encode())

    def read_checkpoints(self) -> None:
        """Read the offsets written last; a damaged file counts as empty, with a warning, as in Kafka."""
        self.recovery_points = self._read(checkpoint.RECOVERY_POINT)
        self.log_start_offsets = self._read(checkpoint.LOG_START)
        self.high_watermarks = self._read(checkpoint.HIGH_WATERMARK)
        self.cleaner_offsets = self._read(checkpoint.CLEANER)

    def _read(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoint.read_offsets(self.fs, self.path / name)
        except checkpoint.CheckpointError as e:
            log.warning("checkpoint ignored", path=str(self.path / name), reason=str(e))
            return {}

    def write_checkpoint(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace a checkpoint file, unless it says so already."""
        with self._writing:
            if self._written.get(name) != offsets:
                checkpoint.write_offsets(self.fs, self.path / name, offsets)
                self._written[name] = dict(offsets)

    def disk_space(self) -> tuple[int, int]:
        """Give the bytes of the volume, and those still usable; OSError."""
        return self.fs.disk_space(self.path)

    def release(self) -> None:
        """Let others have the directory."""
        if self._release is not None:
            self._release()
            self._release = None
