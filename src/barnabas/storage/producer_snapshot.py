"""Producer snapshots: a partition's producers as they were at an offset (`<offset>.snapshot`).

Kafka's file: version int16 (1), CRC-32C uint32 over the rest, then the entries. One is kept beside each segment's
first offset, and one at the end of a cleanly closed log, so that opening need not read old segments.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import structlog

from barnabas.storage.fs import FileSystem
from barnabas.storage.producer_state import BatchMetadata, ProducerEntry, ProducerState
from barnabas.wire.record_batch import crc32c

log = structlog.get_logger("kafka.storage.producer_snapshot")

SUFFIX: Final = ".snapshot"
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")


class CorruptSnapshotError(Exception):
    """A producer snapshot does not read as one; says which and why."""


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    """Give the bytes of a snapshot file."""
    rows = [
        _ENTRY.pack(
            e.producer_id,
            e.producer_epoch,
            e.last_sequence,
            e.last_data_offset,
            e.last_offset_delta,
            e.last_timestamp,
            e.coordinator_epoch,
            -1 if e.current_txn_first_offset is None else e.current_txn_first_offset,
        )
        for e in entries
    ]
    body = _COUNT.pack(len(rows)) + b"".join(rows)
    return _HEADER.pack(_VERSION, crc32c(body)) + body


def decode(data: bytes) -> list[ProducerEntry]:
    """Give the entries of a snapshot file; CorruptSnapshotError when it is not one."""
    if len(data) < _HEADER.size + _COUNT.size:
        raise CorruptSnapshotError(f"{len(data)} bytes are too few")
    version, crc = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshotError(f"version {version} is not {_VERSION}")
    body = data[_HEADER.size :]
    if crc32c(body) != crc:
        raise CorruptSnapshotError(f"its CRC is not {crc}")
    (count,) = _COUNT.unpack_from(body)
    if count * _ENTRY.size != len(body) - _COUNT.size:
        raise CorruptSnapshotError(f"{count} entries do not make {len(body)} bytes")
    entries = []
    for pid, epoch, sequence, offset, delta, timestamp, coordinator, txn in _ENTRY.iter_unpack(body[_COUNT.size :]):
        entry = ProducerEntry(pid, epoch, coordinator, timestamp, None if txn < 0 else txn)
        if offset >= 0:
            entry.add_batch(epoch, BatchMetadata(sequence, offset, delta, timestamp))
        entries.append(entry)
    return entries


class ProducerSnapshots:
    """The snapshot files of one partition, by offset. names: what its directory holds."""

    __slots__ = ("_directory", "_fs", "offsets")

    def __init__(self, fs: FileSystem, directory: Path, names: Iterable[str]) -> None:
        self._fs = fs
        self._directory = directory
        self.offsets: list[int] = sorted(
            int(name[: -len(SUFFIX)]) for name in names if name.endswith(SUFFIX) and name[: -len(SUFFIX)].isdigit()
        )

    def path(self, offset: int) -> Path:
        """Give the file of the snapshot at `offset`."""
        return self._directory / f"{offset:020d}{SUFFIX}"

    def take(self, state: ProducerState, *, sync: bool) -> int | None:
        """Write a snapshot at the state's end offset, if that is past the newest; gives the offset, None if not."""
        offset = state.map_end_offset
        if offset == 0 or (self.offsets and offset <= self.offsets[-1]):
            return None
        file = self._fs.open(self.path(offset), create=True)
        data = encode(state.entries.values())
        file.truncate(len(data))
        file.pwrite(data, 0)
        if sync:
            file.fsync()
        self.offsets.append(offset)
        return offset

    def flush(self, offset: int) -> None:
        """Make the snapshot at `offset` durable; nothing when it is gone already."""
        try:
            self._fs.open(self.path(offset)).fsync()
        except FileNotFoundError:
            pass

    def load_newest(self, state: ProducerState, log_start_offset: int, now_ms: int) -> None:
        """Fill an empty state from the newest readable snapshot; damaged ones are deleted and the next is tried."""
        while self.offsets:
            offset = self.offsets[-1]
            try:
                entries = decode(self._fs.read_bytes(self.path(offset)))
            except (CorruptSnapshotError, FileNotFoundError) as e:
                log.warning("producer snapshot deleted", path=str(self.path(offset)), reason=str(e))
                self.remove(offset)
                continue
            for entry in entries:
                if not state.is_expired(entry, now_ms):
                    state.load(entry)
            state.map_end_offset = offset
            return
        state.map_end_offset = log_start_offset

    def remove(self, offset: int) -> None:
        """Delete the snapshot at `offset`, if there is one."""
        if offset in self.offsets:
            self.offsets.remove(offset)
            self._fs.remove(self.path(offset))

    def remove_outside(self, start: int, end: int) -> None:
        """Delete the snapshots at or before `start` and after `end`."""
        for offset in [o for o in self.offsets if o <= start or o > end]:
            self.remove(offset)

    def remove_strays(self, segment_offsets: Iterable[int]) -> None:
        """Delete the snapshots that stand at no segment, but for the newest when it is past all segments."""
        known = set(segment_offsets)
        strays = [o for o in self.offsets if o not in known]
        if strays and known and strays[-1] > max(known):
            strays.pop()
        for offset in strays:
            self.remove(offset)

    def moved_to(self, directory: Path) -> None:
        """Take note that the partition's directory was renamed."""
        self._directory = directory
