"""Sparse indexes of a segment: offset -> file position, and timestamp -> offset.

The files are Kafka's: big-endian entries, offsets relative to the segment's first. Kafka reserves the whole size and
cuts it when the segment is closed or rolled; we write only what is there, which it reads as well. Entries gather in
memory and reach the file with `save`, before the segment is flushed, rolled or closed: whatever a crash takes is
past the recovery point, where both Kafka and we rebuild. Loaded on first use, dropped again by `unload`.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Final

from barnabas.storage.fs import FileSystem

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
MAX_RELATIVE_OFFSET: Final = 2**31 - 1

_OFFSET_ENTRY: Final = struct.Struct(">iI")
_TIME_ENTRY: Final = struct.Struct(">qi")


class OffsetIndex:
    """Entries (last offset of a batch, where that batch begins in the file), both strictly growing."""

    __slots__ = ("_fs", "_offsets", "_positions", "_saved", "base_offset", "max_entries", "path")

    def __init__(self, fs: FileSystem, path: Path, base_offset: int, max_bytes: int) -> None:
        self._fs = fs
        self.path = path
        self.base_offset = base_offset
        self.max_entries = max_bytes // OFFSET_ENTRY_BYTES
        self._offsets: array[int] | None = None
        self._positions: array[int] = array("I")
        self._saved = 0

    def load(self) -> array[int]:
        """Read the file; gives the relative offsets."""
        raw = array("I")
        try:
            data = self._fs.read_bytes(self.path)
        except FileNotFoundError:
            data = b""
        raw.frombytes(data[: len(data) // OFFSET_ENTRY_BYTES * OFFSET_ENTRY_BYTES])
        if sys.byteorder == "little":
            raw.byteswap()
        self._saved = len(raw) // 2
        offsets, self._positions = raw[0::2], raw[1::2]
        # A writer that died leaves reserved zeros at the end; a real entry is never the segment's first offset.
        while offsets and (offsets[-1] == 0 or (len(offsets) > 1 and offsets[-1] <= offsets[-2])):
            offsets.pop()
            self._positions.pop()
        self._offsets = offsets
        return offsets

    @property
    def offsets(self) -> array[int]:
        return self.load() if self._offsets is None else self._offsets

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def is_full(self) -> bool:
        offsets = self._offsets
        return len(self.load() if offsets is None else offsets) >= self.max_entries

    @property
    def last_offset(self) -> int:
        """Give the offset of the last entry; the segment's first when there is none."""
        offsets = self.offsets
        return self.base_offset + offsets[-1] if offsets else self.base_offset

    def append(self, offset: int, position: int) -> None:
        """Add an entry past the last; ValueError when it does not grow or does not fit in 31 bits."""
        relative = offset - self.base_offset
        offsets = self.offsets
        if not 0 <= relative <= MAX_RELATIVE_OFFSET or (offsets and relative <= offsets[-1]):
            raise ValueError(f"{self.path}: offset {offset} does not follow {self.last_offset}")
        offsets.append(relative)
        self._positions.append(position)

    def lookup(self, offset: int) -> int:
        """Give the file position of the last entry at or before `offset`, 0 when there is none."""
        relative = offset - self.base_offset
        if relative < 0:
            return 0
        at = bisect_right(self.offsets, min(relative, MAX_RELATIVE_OFFSET))
        return self._positions[at - 1] if at else 0

    def entry(self, n: int) -> tuple[int, int]:
        """Give entry `n` as (offset, position)."""
        return self.base_offset + self.offsets[n], self._positions[n]

    def upper_bound_offset(self, position: int, length: int) -> int | None:
        """Give an offset at or past which `length` bytes from `position` surely end; None when none is indexed."""
        offsets = self.offsets
        at = bisect_left(self._positions, position + length)
        return self.base_offset + offsets[at] if at < len(offsets) else None

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or past `offset`, in memory and in the file."""
        offsets = self.offsets
        keep = bisect_left(offsets, max(0, offset - self.base_offset))
        del offsets[keep:]
        del self._positions[keep:]
        self._cut_file(keep)

    def reset(self) -> None:
        """Drop all entries, without reading the file."""
        self._offsets = array("I")
        self._positions = array("I")
        self._saved = sys.maxsize
        self._cut_file(0)

    def _cut_file(self, entries: int) -> None:
        if self._saved > entries:
            self._fs.open(self.path, create=True).truncate(entries * OFFSET_ENTRY_BYTES)
            self._saved = entries

    def save(self, *, sync: bool = False) -> None:
        """Write the entries that the file lacks, and make the file exist."""
        if self._offsets is None:
            return
        # The second array is appended to last: entries before its end are whole, also while another thread appends.
        start, end = self._saved, len(self._positions)
        if start == end and not sync and self._fs.exists(self.path):
            return
        file = self._fs.open(self.path, create=True)
        if start > end:
            file.truncate(end * OFFSET_ENTRY_BYTES)
        elif start < end:
            pairs = map(_OFFSET_ENTRY.pack, self._offsets[start:end], self._positions[start:end])
            file.pwrite(b"".join(pairs), start * OFFSET_ENTRY_BYTES)
        self._saved = end
        if sync:
            file.fsync()

    def unload(self) -> None:
        """Save and forget the entries; the next use loads them again."""
        self.save()
        self._offsets = None
        self._positions = array("I")


class TimeIndex:
    """Entries (largest timestamp so far, last offset of its batch), both growing."""

    __slots__ = ("_fs", "_offsets", "_saved", "_timestamps", "base_offset", "max_entries", "path")

    def __init__(self, fs: FileSystem, path: Path, base_offset: int, max_bytes: int) -> None:
        self._fs = fs
        self.path = path
        self.base_offset = base_offset
        self.max_entries = max_bytes // TIME_ENTRY_BYTES
        self._timestamps: array[int] | None = None
        self._offsets: array[int] = array("i")
        self._saved = 0

    def load(self) -> array[int]:
        """Read the file; gives the timestamps."""
        timestamps, offsets = array("q"), array("i")
        try:
            data = self._fs.read_bytes(self.path)
        except FileNotFoundError:
            data = b""
        data = data[: len(data) // TIME_ENTRY_BYTES * TIME_ENTRY_BYTES]
        for timestamp, offset in _TIME_ENTRY.iter_unpack(data):
            if timestamps and (timestamp <= timestamps[-1] or offset < offsets[-1]):
                break
            timestamps.append(timestamp)
            offsets.append(offset)
        self._saved = len(data) // TIME_ENTRY_BYTES
        self._offsets = offsets
        self._timestamps = timestamps
        return timestamps

    @property
    def timestamps(self) -> array[int]:
        return self.load() if self._timestamps is None else self._timestamps

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def is_full(self) -> bool:
        # One entry is kept back for the one that rolling adds.
        timestamps = self._timestamps
        return len(self.load() if timestamps is None else timestamps) >= self.max_entries - 1

    @property
    def last(self) -> tuple[int, int]:
        """Give (timestamp, offset) of the last entry; (-1, first offset of the segment) when there is none."""
        timestamps = self.timestamps
        if not timestamps:
            return -1, self.base_offset
        return timestamps[-1], self.base_offset + self._offsets[-1]

    def maybe_append(self, timestamp: int, offset: int, *, closing: bool = False) -> None:
        """Add an entry when its timestamp is larger than the last. closing: the one kept back may be used."""
        timestamps = self.timestamps
        last_timestamp, last_offset = self.last
        if timestamp <= last_timestamp or offset < last_offset:
            return
        if len(timestamps) >= self.max_entries - (0 if closing else 1):
            return
        timestamps.append(timestamp)
        self._offsets.append(offset - self.base_offset)

    def lookup(self, timestamp: int) -> int:
        """Give the offset of the last entry whose timestamp is at most this; the segment's first when there is none."""
        at = bisect_right(self.timestamps, timestamp)
        return self.base_offset + self._offsets[at - 1] if at else self.base_offset

    def entry(self, n: int) -> tuple[int, int]:
        """Give entry `n` as (timestamp, offset)."""
        return self.timestamps[n], self.base_offset + self._offsets[n]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or past `offset`, in memory and in the file."""
        timestamps = self.timestamps
        keep = bisect_left(self._offsets, offset - self.base_offset)
        del timestamps[keep:]
        del self._offsets[keep:]
        self._cut_file(keep)

    def reset(self) -> None:
        """Drop all entries, without reading the file."""
        self._timestamps = array("q")
        self._offsets = array("i")
        self._saved = sys.maxsize
        self._cut_file(0)

    def _cut_file(self, entries: int) -> None:
        if self._saved > entries:
            self._fs.open(self.path, create=True).truncate(entries * TIME_ENTRY_BYTES)
            self._saved = entries

    def save(self, *, sync: bool = False) -> None:
        """Write the entries that the file lacks, and make the file exist."""
        if self._timestamps is None:
            return
        # The second array is appended to last: entries before its end are whole, also while another thread appends.
        start, end = self._saved, len(self._offsets)
        if start == end and not sync and self._fs.exists(self.path):
            return
        file = self._fs.open(self.path, create=True)
        if start > end:
            file.truncate(end * TIME_ENTRY_BYTES)
        elif start < end:
            pairs = map(_TIME_ENTRY.pack, self._timestamps[start:end], self._offsets[start:end])
            file.pwrite(b"".join(pairs), start * TIME_ENTRY_BYTES)
        self._saved = end
        if sync:
            file.fsync()

    def unload(self) -> None:
        """Save and forget the entries; the next use loads them again."""
        self.save()
        self._timestamps = None
        self._offsets = array("i")
