"""A segment: a stretch of a partition's log in one file, with the indexes beside it.

The file holds record batches, one after the other, exactly as they are sent to consumers. Only the newest segment
of a log grows; it remembers where its last batches stand, so that reading near the end needs no look at the disk.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.storage import batch_scan
from barnabas.storage.batch_scan import BatchPosition
from barnabas.storage.file_region import FileRegion
from barnabas.storage.fs import Buffer, File, FileSystem
from barnabas.storage.index import MAX_RELATIVE_OFFSET, OffsetIndex, TimeIndex
from barnabas.storage.log_config import LogConfig
from barnabas.storage.transaction_index import TransactionIndex
from barnabas.wire.record_batch import BatchHeader, check_crc

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

_REMEMBERED: Final = 512


class BatchSpan(NamedTuple):
    """What an append tells the segment of one batch."""

    last_offset: int
    max_timestamp: int
    size: int


class Segment:
    """One segment. size: bytes of whole batches in the file; created_ms: when it was opened for writing."""

    __slots__ = (
        "_bytes_since_index",
        "_directory",
        "_first_timestamp",
        "_fs",
        "_index_interval",
        "_max_timestamp",
        "_recent_last_offsets",
        "_recent_positions",
        "_suffix",
        "base_offset",
        "created_ms",
        "file",
        "index",
        "jitter_ms",
        "size",
        "time_index",
        "txn_index",
    )

    def __init__(
        self, fs: FileSystem, directory: Path, base_offset: int, config: LogConfig, now_ms: int, suffix: str = ""
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._suffix = suffix
        self.base_offset = base_offset
        self.created_ms = now_ms
        self.jitter_ms = 0
        self._index_interval = config.index_interval_bytes
        index_bytes = config.segment_index_bytes
        self.index = OffsetIndex(fs, self.path(INDEX_SUFFIX), base_offset, index_bytes)
        self.time_index = TimeIndex(fs, self.path(TIME_INDEX_SUFFIX), base_offset, index_bytes)
        self.txn_index = TransactionIndex(fs, self.path(TXN_INDEX_SUFFIX))
        self.file: File = fs.open(self.path(LOG_SUFFIX), create=True)
        self.size = self.file.size()
        self._bytes_since_index = 0
        self._first_timestamp: int | None = None
        self._max_timestamp: tuple[int, int] | None = None
        self._recent_last_offsets = array("q")
        self._recent_positions = array("q")

    def path(self, suffix: str) -> Path:
        """Give the path of one of the segment's files."""
        return self._directory / f"{self.base_offset:020d}{suffix}{self._suffix}"

    def __repr__(self) -> str:
        return f"Segment(base_offset={self.base_offset}, size={self.size})"

    # -- writing

    def append(self, data: Buffer, spans: tuple[BatchSpan, ...] | list[BatchSpan]) -> None:
        """Write batches at the end, in one call to the disk. On OSError nothing counts as written."""
        position = self.size
        self.file.pwrite(data, position)
        for last_offset, timestamp, size in spans:
            self._note(last_offset, timestamp, size, position)
            position += size
        self.size = position

    def append_one(self, data: Buffer, last_offset: int, max_timestamp: int) -> None:
        """The same for one batch, which most appends are."""
        position = self.size
        self.file.pwrite(data, position)
        size = len(data)
        self._note(last_offset, max_timestamp, size, position)
        self.size = position + size

    def _note(self, last_offset: int, timestamp: int, size: int, position: int) -> None:
        max_timestamp = self._max_timestamp or self.max_timestamp_and_offset
        if timestamp > max_timestamp[0]:
            self._max_timestamp = max_timestamp = (timestamp, last_offset)
        if self._first_timestamp is None and position == 0:
            self._first_timestamp = timestamp
        if self._bytes_since_index > self._index_interval:
            self.index.append(last_offset, position)
            self.time_index.maybe_append(*max_timestamp)
            self._bytes_since_index = 0
        self._bytes_since_index += size
        recent = self._recent_last_offsets
        recent.append(last_offset)
        self._recent_positions.append(position)
        if len(recent) >= 2 * _REMEMBERED:
            del recent[:_REMEMBERED]
            del self._recent_positions[:_REMEMBERED]

    def should_roll(self, config: LogConfig, incoming: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Say whether a new segment must begin before `incoming` bytes up to `last_offset` are written."""
        size = self.size
        if size > config.segment_bytes - incoming or last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if size:
            # Every append asks; what `age_ms` finds out is known of a segment that is written to.
            first = self._first_timestamp
            age = max_timestamp - first if first is not None and first >= 0 else self.age_ms(now_ms, max_timestamp)
            if age > config.max_segment_ms - self.jitter_ms:
                return True
        return self.index.is_full or self.time_index.is_full

    def age_ms(self, now_ms: int, max_timestamp: int) -> int:
        """Give the time from the first batch's timestamp to `max_timestamp`; without timestamps, since creation."""
        first = self.first_batch_timestamp
        return max_timestamp - first if first >= 0 else now_ms - self.created_ms

    @property
    def first_batch_timestamp(self) -> int:
        """Give the first batch's largest timestamp; -1 when there is none."""
        if self._first_timestamp is None:
            first = next(batch_scan.headers(self.file, 0, self.size), None)
            if first is None:
                return -1
            self._first_timestamp = first[1].max_timestamp
        return self._first_timestamp

    @property
    def max_timestamp_and_offset(self) -> tuple[int, int]:
        """Give the largest timestamp, and the last offset of its batch; (-1, base offset) when there is none."""
        if self._max_timestamp is None:
            self._max_timestamp = self.time_index.last
        return self._max_timestamp

    @property
    def largest_timestamp(self) -> int:
        """Give the largest timestamp of a record; the file's time of change when records have none."""
        timestamp = self.max_timestamp_and_offset[0]
        return timestamp if timestamp >= 0 else self.modified_ms

    @property
    def modified_ms(self) -> int:
        return self._fs.mtime_ms(self.path(LOG_SUFFIX))

    def set_modified_ms(self, modified_ms: int) -> None:
        """Set the time of change of the record file (a compacted segment keeps its sources')."""
        self._fs.set_mtime_ms(self.path(LOG_SUFFIX), modified_ms)

    def seal(self) -> None:
        """Take note that no more is written: the last time entry is made, the indexes are saved and leave memory."""
        self.time_index.maybe_append(*self.max_timestamp_and_offset, closing=True)
        self.unload()

    def unload(self) -> None:
        """Save the indexes, and free what they take in memory."""
        # Touched first, so that the files are made: Kafka takes a segment without index files for damaged.
        len(self.index)
        len(self.time_index)
        self.index.unload()
        self.time_index.unload()
        self.txn_index.unload()
        self._recent_last_offsets = array("q")
        self._recent_positions = array("q")

    def flush(self) -> None:
        """Force records and indexes to the disk."""
        self.file.fsync()
        self.index.save(sync=True)
        self.time_index.save(sync=True)
        self.txn_index.flush()

    # -- reading

    def find(self, offset: int) -> BatchPosition | None:
        """Give the first batch whose last offset is at least `offset`; None when the segment ends before."""
        recent = self._recent_last_offsets
        if recent and offset > recent[0]:
            at = bisect_left(recent, offset)
            if at == len(recent):
                return None
            positions = self._recent_positions
            position = positions[at]
            end = positions[at + 1] if at + 1 < len(positions) else self.size
            return BatchPosition(position, end - position, recent[at - 1] + 1, recent[at])
        return batch_scan.find(self.file, offset, self.index.lookup(offset), self.size)

    def read(self, offset: int, max_bytes: int, end_position: int, *, min_one_batch: bool) -> FileRegion | None:
        """Give the region from the batch that holds `offset`, up to `end_position` and `max_bytes`.

        min_one_batch: the first batch is whole even when it is larger than max_bytes. None: nothing at or past offset.
        """
        found = self.find(offset)
        if found is None:
            return None
        position, size = found[0], found[1]
        if min_one_batch and size > max_bytes:
            max_bytes = size
        return FileRegion(self.file, position, max(0, min(end_position - position, max_bytes)))

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Give (position, header) of each batch from a position."""
        return batch_scan.headers(self.file, position, self.size)

    def batches(self, position: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Give (position, header, bytes) of each batch from a position."""
        return batch_scan.batches(self.file, position, self.size)

    def read_next_offset(self) -> int:
        """Give the offset after the last record, read from the file."""
        next_offset = self.base_offset
        for _, header in self.headers(self.index.lookup(self.index.last_offset)):
            next_offset = header.base_offset + header.last_offset_delta + 1
        return next_offset

    # -- repair

    def recover(self, each_batch: Callable[[BatchHeader, memoryview], None]) -> int:
        """Check every batch, make the indexes anew, and cut what follows the last good one; gives the bytes cut.

        each_batch is called for each good batch in order, before the next is looked at.
        """
        self.index.reset()
        self.time_index.reset()
        self.txn_index.reset()
        self._max_timestamp = (-1, self.base_offset)
        end, last_indexed, next_offset = 0, 0, self.base_offset
        for position, header, batch in self.batches():
            last_offset = header.base_offset + header.last_offset_delta
            if header.base_offset < next_offset or last_offset < header.base_offset:
                break
            if last_offset - self.base_offset > MAX_RELATIVE_OFFSET or not check_crc(batch, 0, header):
                break
            if header.max_timestamp > self._max_timestamp[0]:
                self._max_timestamp = (header.max_timestamp, last_offset)
            if position - last_indexed > self._index_interval:
                self.index.append(last_offset, position)
                self.time_index.maybe_append(*self._max_timestamp)
                last_indexed = position
            each_batch(header, batch)
            end, next_offset = position + header.size, last_offset + 1
        cut = self.file.size() - end
        if cut:
            # Old formats are not damage: better not to open than to cut them.
            batch_scan.refuse_old_format(self.file, end, end + cut)
            # Durable at once: what was cut must not come back after a power failure, behind what is written next.
            self.file.truncate(end)
            self.file.fsync()
        self.size = end
        self.time_index.maybe_append(*self._max_timestamp, closing=True)
        self.index.save()
        self.time_index.save()
        self._forget_recent()
        return cut

    def truncate_to(self, offset: int) -> int:
        """Cut the batch that holds `offset` and all after it; gives the bytes cut."""
        found = self.find(offset)
        if found is None:
            return 0
        cut = self.size - found.position
        self.file.truncate(found.position)
        self.size = found.position
        self.index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self._bytes_since_index = 0
        self._max_timestamp = None
        if not self.size:
            self._first_timestamp = None
        self._forget_recent()
        self._reload_max_timestamp()
        return cut

    def _reload_max_timestamp(self) -> None:
        best = self.time_index.last
        for _, header in self.headers(self.index.lookup(best[1])):
            if header.max_timestamp > best[0]:
                best = (header.max_timestamp, header.base_offset + header.last_offset_delta)
        self._max_timestamp = best

    def _forget_recent(self) -> None:
        self._recent_last_offsets = array("q")
        self._recent_positions = array("q")

    # -- files

    def files(self) -> list[Path]:
        """Give the paths of the files that may exist for this segment."""
        return [self.path(s) for s in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)]

    def change_suffix(self, suffix: str) -> None:
        """Rename the segment's files to end in `suffix` instead of what they end in now."""
        old = self.files()
        self._suffix = suffix
        for source, target in zip(old, self.files(), strict=True):
            if self._fs.exists(source):
                self._fs.rename(source, target)
        self._renamed()

    def moved_to(self, directory: Path) -> None:
        """Take note that the partition's directory was renamed."""
        self._directory = directory
        self._renamed()

    def _renamed(self) -> None:
        self.index.path = self.path(INDEX_SUFFIX)
        self.time_index.path = self.path(TIME_INDEX_SUFFIX)
        self.txn_index.path = self.path(TXN_INDEX_SUFFIX)

    def remove(self) -> None:
        """Delete the segment's files. Regions given out stay readable."""
        for path in self.files():
            self._fs.remove(path)
