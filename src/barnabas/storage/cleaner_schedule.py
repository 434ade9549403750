"""Which compacted log is the filthiest, and from where to where it may be cleaned now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.storage.log import Log
from barnabas.storage.segment import Segment


class LogToClean(NamedTuple):
    """A log and the stretch of it to clean. must: its oldest dirty record waits longer than max.compaction.lag.ms."""

    log: Log
    first_dirty: int
    first_uncleanable: int
    cleanable_bytes: int
    total_bytes: int
    must: bool

    @property
    def ratio(self) -> float:
        """Give the dirty share of what would be looked at."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0


def filthiest(logs: Iterable[Log], now_ms: int) -> LogToClean | None:
    """Give the log most in need of cleaning; None when none needs it."""
    found = None
    for log in logs:
        if not log.config.compact:
            continue
        candidate = assess(log, now_ms)
        due = candidate.ratio > log.config.min_cleanable_dirty_ratio or (candidate.must and candidate.cleanable_bytes)
        if due and (found is None or candidate.ratio > found.ratio):
            found = candidate
    return found


def assess(log: Log, now_ms: int) -> LogToClean:
    """Give what could be cleaned of a log now."""
    start = log.log_start_offset
    dirty = log.cleaner_offset
    if dirty is None or not start <= dirty <= log.log_end_offset:
        dirty = start
    sealed = [s for s in log.segments.from_offset(dirty) if s is not log.segments.active]
    limit = min([log.last_stable_offset, log.segments.active.base_offset, *_too_young(log, sealed, now_ms)])
    # Whole segments only: the one that holds the first offset that may not be cleaned stays as it is.
    uncleanable = log.segments.from_offset(max(dirty, limit))[0].base_offset
    cleanable = sum(s.size for s in log.segments.between(min(dirty, uncleanable), uncleanable))
    clean = sum(s.size for s in log.segments.between(0, dirty) if s.base_offset < dirty)
    return LogToClean(log, dirty, uncleanable, cleanable, clean + cleanable, _overdue(log, sealed, now_ms))


def _too_young(log: Log, sealed: list[Segment], now_ms: int) -> list[int]:
    lag = log.config.min_compaction_lag_ms
    if lag <= 0:
        return []
    return [s.base_offset for s in sealed if s.largest_timestamp > now_ms - lag][:1]


def _overdue(log: Log, sealed: list[Segment], now_ms: int) -> bool:
    first = min((t for s in sealed if (t := s.first_batch_timestamp) > 0), default=None)
    return first is not None and first < now_ms - log.config.max_compaction_lag_ms
