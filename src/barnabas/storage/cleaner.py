"""Compaction of one log: of each key the newest record stays, tombstones and markers for a while after.

First a map of the dirty part's keys to their last offsets is made, then segments are copied group by group, leaving
out what the map supersedes, and each copy is swapped in for its sources. A crash at any point leaves either the old
segments or the new one. The log may be appended to and read all the while.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

import structlog

from barnabas.storage.cleaned_transactions import CleanedTransactions
from barnabas.storage.index import MAX_RELATIVE_OFFSET
from barnabas.storage.log import Log
from barnabas.storage.segment import CLEANED_SUFFIX, BatchSpan, Segment
from barnabas.wire.record_batch import (
    BatchHeader,
    Record,
    decode_batch,
    empty_batch,
    filtered_batch,
    read_header,
)

log = structlog.get_logger("kafka.log.cleaner")

_WRITE_BYTES: Final = 512 * 1024
_LONG_KEY: Final = 24


class CleaningAbortedError(Exception):
    """The log changed under the cleaner (truncated, aged, deleted) or it was told to stop; nothing was changed."""


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """max_keys: of one pass (`log.cleaner.dedupe.buffer.size` / 24 * load factor); check: called between batches with
    the bytes handled, to throttle, or to raise CleaningAbortedError."""

    max_keys: int = 5_000_000
    check: Callable[[int], None] = lambda handled: None


class CleaningResult(NamedTuple):
    """What a cleaning did. end_offset: where the next one begins."""

    end_offset: int
    bytes_before: int
    bytes_after: int
    records_before: int
    records_after: int


class _Keys:
    """Keys of the dirty part and their last offsets. latest: up to where the map speaks."""

    def __init__(self, limit: int) -> None:
        self.offsets: dict[bytes, int] = {}
        self.limit = limit
        self.latest = -1

    def put(self, key: bytes, offset: int) -> bool:
        """Note a key; says whether there was room."""
        name = _name(key)
        if name not in self.offsets and len(self.offsets) >= self.limit:
            return False
        self.offsets[name] = offset
        return True

    def last(self, key: bytes) -> int:
        return self.offsets.get(_name(key), -1)


def _name(key: bytes) -> bytes:
    # A long key is known by its digest, so that the map's size does not depend on the keys'.
    return key if len(key) <= _LONG_KEY else b"#" + blake2b(key, digest_size=_LONG_KEY).digest()


class Cleaner:
    """One cleaning of one log, over [first_dirty, first_uncleanable)."""

    def __init__(
        self, target: Log, first_dirty: int, first_uncleanable: int, now_ms: int, settings: CleanerSettings
    ) -> None:
        self._log = target
        self._first_dirty = first_dirty
        self._end = first_uncleanable
        self._now_ms = now_ms
        self._settings = settings
        self._delete_retention_ms = target.config.delete_retention_ms
        self._keys = _Keys(settings.max_keys)
        self._transactions = CleanedTransactions()
        self._records_before = self._records_after = 0

    @property
    def map_use(self) -> float:
        """Give how full the map of keys became, from 0 to 1."""
        return len(self._keys.offsets) / self._settings.max_keys

    def clean(self) -> CleaningResult:
        """Compact; gives what was done. CleaningAbortedError when the log changed meanwhile."""
        self._map_keys()
        end = max(self._keys.latest + 1, self._first_dirty)
        segments = self._log.segments.between(0, end)
        before = after = 0
        self._last_records = {
            pid: (entry.last_data_offset, entry.producer_epoch)
            for pid, entry in list(self._log.producers.entries.items())
        }
        for group in self._groups(segments):
            before += sum(s.size for s in group)
            after += self._clean_group(group)
        return CleaningResult(end, before, after, self._records_before, self._records_after)

    # -- the map

    def _map_keys(self) -> None:
        transactions = CleanedTransactions()
        transactions.add_aborted(self._log.aborted_transactions(self._first_dirty, self._end))
        for segment in self._log.segments.between(self._first_dirty, self._end):
            if segment.base_offset >= self._end:
                return
            if not self._map_segment(segment, transactions):
                return
            following = self._log.segments.after(segment)
            # Offsets that an earlier cleaning left out are covered as well.
            upto = self._end if following is None else min(self._end, following.base_offset)
            self._keys.latest = max(self._keys.latest, upto - 1)

    def _map_segment(self, segment: Segment, transactions: CleanedTransactions) -> bool:
        start = segment.index.lookup(self._first_dirty)
        for _, header, batch in segment.batches(start):
            self._settings.check(header.size)
            if header.is_control:
                transactions.on_control(header, batch)
            elif not transactions.on_data(header) and not self._map_batch(batch):
                return False
            if header.last_offset >= self._first_dirty:
                self._keys.latest = max(self._keys.latest, header.last_offset)
        return True

    def _map_batch(self, batch: memoryview) -> bool:
        for record in decode_batch(batch):
            wanted = record.key is not None and record.offset >= self._first_dirty
            if wanted and not self._keys.put(record.key or b"", record.offset):
                return False
        return True

    # -- the copy

    def _groups(self, segments: Sequence[Segment]) -> list[list[Segment]]:
        """Put small neighbours together, so that segments do not shrink to crumbs."""
        config = self._log.config
        groups: list[list[Segment]] = []
        size = entries = 0
        for n, segment in enumerate(segments):
            following = segments[n + 1].base_offset if n + 1 < len(segments) else self._end
            fits = (
                groups
                and size + segment.size <= config.segment_bytes
                and (entries + len(segment.index)) * 12 <= config.segment_index_bytes
                and (not segment.size or following - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
            )
            if fits:
                groups[-1].append(segment)
                size += segment.size
                entries += len(segment.index)
            else:
                groups.append([segment])
                size, entries = segment.size, len(segment.index)
        return groups

    def _clean_group(self, group: list[Segment]) -> int:
        env, base = self._log.env, group[0].base_offset
        leftovers = Segment(env.fs, self._log.dir, base, self._log.config, self._now_ms, CLEANED_SUFFIX)
        leftovers.remove()
        cleaned = Segment(env.fs, self._log.dir, base, self._log.config, self._now_ms, CLEANED_SUFFIX)
        self._transactions.index = cleaned.txn_index
        try:
            for segment in group:
                self._copy(segment, cleaned)
            cleaned.seal()
            cleaned.flush()
            cleaned.set_modified_ms(group[-1].modified_ms)
            size = cleaned.size
            if not self._log.swap_in(cleaned, group):
                raise CleaningAbortedError(f"the segments of {self._log.topic_partition} changed")
        except (CleaningAbortedError, OSError):
            cleaned.remove()
            raise
        return size

    def _copy(self, source: Segment, target: Segment) -> None:
        following = self._log.segments.after(source)
        upper = following.base_offset if following is not None else self._log.log_end_offset
        self._transactions.add_aborted(self._log.aborted_transactions(source.base_offset, upper))
        out, spans = bytearray(), []
        for _, header, batch in source.batches():
            self._settings.check(header.size)
            kept = self._filter(header, batch)
            self._records_before += header.record_count
            if kept is None:
                continue
            new = read_header(kept, 0)
            self._records_after += new.record_count
            out += kept
            spans.append(BatchSpan(new.last_offset, new.max_timestamp, new.size))
            if len(out) >= _WRITE_BYTES:
                target.append(out, spans)
                out, spans = bytearray(), []
        if spans:
            target.append(out, spans)

    def _filter(self, header: BatchHeader, batch: memoryview) -> bytes | memoryview | None:
        """Give what stays of a batch, None when nothing does."""
        if header.is_control:
            may_go = self._transactions.on_control(header, batch)
            horizon = header.delete_horizon_ms
            discard = may_go and horizon is not None and horizon <= self._now_ms
        else:
            may_go = discard = self._transactions.on_data(header)
        retain_empty = self._holds_last_of_producer(header) or header.next_offset == self._end
        if discard and not retain_empty:
            return None
        records = [] if discard else list(decode_batch(batch))
        kept = records if header.is_control else [r for r in records if self._keep(header, r)]
        if not kept:
            return empty_batch(header) if retain_empty else None
        starts_horizon = header.delete_horizon_ms is None and (
            (may_go and header.is_control) or (not header.is_control and any(r.value is None for r in kept))
        )
        if starts_horizon:
            return filtered_batch(header, kept, delete_horizon_ms=self._now_ms + self._delete_retention_ms)
        return batch if len(kept) == header.record_count else filtered_batch(header, kept)

    def _holds_last_of_producer(self, header: BatchHeader) -> bool:
        if header.producer_id < 0 or header.producer_id not in self._last_records:
            return False
        last_data_offset, epoch = self._last_records[header.producer_id]
        if last_data_offset >= 0:
            return header.last_offset == last_data_offset
        return header.is_control and header.producer_epoch == epoch

    def _keep(self, header: BatchHeader, record: Record) -> bool:
        if record.offset > self._keys.latest:
            return True
        if record.key is None:
            return False
        if record.offset < self._keys.last(record.key):
            return False
        horizon = header.delete_horizon_ms
        return record.value is not None or horizon is None or self._now_ms < horizon
