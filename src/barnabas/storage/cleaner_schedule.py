"""Which compacted log is the filthiest, and from where to where it may be cleaned now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.storage.log import Log
from barnabas.storage.segment import Segment


class LogToClean(NamedTuple):
    """A log and the stretch of it to clean. overdue_ms: by how much its oldest dirty record has waited longer than
    max.compaction.lag.ms."""

    log: Log
    first_dirty: int
    first_uncleanable: int
    cleanable_bytes: int
    total_bytes: int
    overdue_ms: int

    @property
    def must(self) -> bool:
        """Say whether it is to be cleaned however little of it is dirty."""
        return self.overdue_ms > 0

    @property
    def ratio(self) -> float:
        """Give the dirty share of what would be looked at."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0


def filthiest(logs: Iterable[LogToClean]) -> LogToClean | None:
    """Give the log most in need of cleaning; None when none needs it."""
    found = None
    for candidate in logs:
        minimum = candidate.log.config.min_cleanable_dirty_ratio
        due = candidate.ratio > minimum or (candidate.must and candidate.cleanable_bytes)
        if due and (found is None or candidate.ratio > found.ratio):
            found = candidate
    return found


def assessed(logs: Iterable[Log], now_ms: int) -> list[LogToClean]:
    """Give what could be cleaned now of those of `logs` that are compacted at all."""
    return [assess(log, now_ms) for log in logs if log.config.compact]


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
    return LogToClean(log, dirty, uncleanable, cleanable, clean + cleanable, _overdue_ms(log, sealed, now_ms))


def _too_young(log: Log, sealed: list[Segment], now_ms: int) -> list[int]:
    lag = log.config.min_compaction_lag_ms
    if lag <= 0:
        return []
    return [s.base_offset for s in sealed if s.largest_timestamp > now_ms - lag][:1]


def _overdue_ms(log: Log, sealed: list[Segment], now_ms: int) -> int:
    first = min((t for s in sealed if (t := s.first_batch_timestamp) > 0), default=None)
    return 0 if first is None else max(0, now_ms - log.config.max_compaction_lag_ms - first)
