"""The metadata log's snapshots on disk: `<end offset>-<epoch>.checkpoint` files beside the segments (KIP-630)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.storage.fs import FileSystem

_NAME: Final = re.compile(r"(\d{20})-(\d{10})([^.]*)\.checkpoint(\.part|\.deleted)?")


def snapshot_path(log_dir: Path, snapshot_id: OffsetAndEpoch) -> Path:
    """Give where a snapshot stands; its id is the offset after the last record it contains, and that one's epoch."""
    return log_dir / f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}.checkpoint"


def list_snapshots(log_dir: Path, fs: FileSystem) -> list[OffsetAndEpoch]:
    """Give the finished snapshots, oldest first."""
    found = []
    for name in fs.listdir(log_dir):
        match = _NAME.fullmatch(name)
        if match is not None and not match[3] and match[4] is None:
            found.append(OffsetAndEpoch(int(match[1]), int(match[2])))
    return sorted(found)


class PartialSnapshot:
    """A snapshot that is being written: a `.part` file that becomes the snapshot when it is whole."""

    def __init__(self, log_dir: Path, snapshot_id: OffsetAndEpoch, fs: FileSystem) -> None:
        """Begin with an empty file, whatever was there."""
        self.id = snapshot_id
        self._fs = fs
        self._path = snapshot_path(log_dir, snapshot_id)
        self._partial = self._path.with_name(self._path.name + ".part")
        fs.remove(self._partial)
        self._file = fs.open(self._partial, create=True)

    @property
    def size_bytes(self) -> int:
        """Give what it holds by now."""
        return self._file.size()

    def write(self, data: bytes, position: int) -> None:
        """Write a stretch of it."""
        self._file.pwrite(data, position)

    def finish(self) -> Path:
        """Make it count, durably; give its path."""
        self._file.fsync()
        self._fs.rename(self._partial, self._path)
        self._fs.fsync_dir(self._path.parent)
        return self._path


def write_snapshot(log_dir: Path, snapshot_id: OffsetAndEpoch, batches: Iterable[bytes], fs: FileSystem) -> Path:
    """Write a snapshot so that it is there whole or not at all, durably; give its path."""
    partial = PartialSnapshot(log_dir, snapshot_id, fs)
    position = 0
    for batch in batches:
        partial.write(batch, position)
        position += len(batch)
    return partial.finish()


def remove_leftovers(log_dir: Path, fs: FileSystem) -> list[str]:
    """Delete what a crash left: unfinished snapshots and such as were about to go. Gives their names."""
    gone = []
    for name in fs.listdir(log_dir):
        match = _NAME.fullmatch(name)
        if match is not None and (match[3] or match[4]):
            fs.remove(log_dir / name)
            gone.append(name)
    return gone
