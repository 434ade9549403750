"""The aborted transactions of a segment: what a READ_COMMITTED fetch must leave out (`.txnindex`).

Kafka's file: version int16 (0), then producer id, first offset, last offset and last stable offset, int64 each.
It exists only once there is an entry.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.storage.fs import FileSystem

_ENTRY: Final = struct.Struct(">hqqqq")
_LAST_OFFSET: Final = attrgetter("last_offset")


class AbortedTxn(NamedTuple):
    """One aborted transaction in one partition; last_offset: of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class CorruptIndexError(Exception):
    """An index file contradicts itself or its segment; it is rebuilt from the records."""


class TransactionIndex:
    """Entries in the order of their markers; small, so that the whole is held in memory once read."""

    __slots__ = ("_entries", "_fs", "path")

    def __init__(self, fs: FileSystem, path: Path) -> None:
        self._fs = fs
        self.path = path
        self._entries: list[AbortedTxn] | None = None

    @property
    def entries(self) -> list[AbortedTxn]:
        if self._entries is None:
            try:
                data = self._fs.read_bytes(self.path)
            except FileNotFoundError:
                data = b""
            data = data[: len(data) // _ENTRY.size * _ENTRY.size]
            entries = []
            for version, *fields in _ENTRY.iter_unpack(data):
                if version != 0:
                    raise CorruptIndexError(f"{self.path}: entry version {version} is not known")
                entries.append(AbortedTxn(*fields))
            self._entries = entries
        return self._entries

    def append(self, txn: AbortedTxn) -> None:
        """Add an entry, written at once; ValueError when its marker is not past the last."""
        entries = self.entries
        if entries and txn.last_offset <= entries[-1].last_offset:
            raise ValueError(f"{self.path}: {txn} does not follow {entries[-1]}")
        self._fs.open(self.path, create=True).pwrite(_ENTRY.pack(0, *txn), len(entries) * _ENTRY.size)
        entries.append(txn)

    def collect(self, fetch_offset: int, upper_bound: int) -> tuple[list[AbortedTxn], bool]:
        """Give the transactions that touch [fetch_offset, upper_bound), and whether later segments need no look.

        Costs in proportion to them: entries that end before the offset are not looked at.
        """
        entries, found = self.entries, []
        for at in range(bisect_left(entries, fetch_offset, key=_LAST_OFFSET), len(entries)):
            txn = entries[at]
            if txn.first_offset < upper_bound:
                found.append(txn)
            if txn.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def check(self, base_offset: int) -> None:
        """CorruptIndexError when an entry ends before the segment begins."""
        for txn in self.entries:
            if txn.last_offset < base_offset:
                raise CorruptIndexError(f"{self.path}: {txn} ends before the segment begins at {base_offset}")

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose marker is at or past `offset`."""
        keep = sum(1 for txn in self.entries if txn.last_offset < offset)
        if keep < len(self.entries):
            del self.entries[keep:]
            self._fs.open(self.path).truncate(keep * _ENTRY.size)

    def reset(self) -> None:
        """Drop all entries."""
        self._entries = []
        if self._fs.exists(self.path):
            self._fs.open(self.path).truncate(0)

    def flush(self) -> None:
        """Make the entries durable."""
        if self._entries:
            self._fs.open(self.path).fsync()

    def unload(self) -> None:
        """Forget the entries; the next use loads them again."""
        self._entries = None
