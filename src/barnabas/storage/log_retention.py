"""Which segments of a log are due to go: by age, by the log's size, or because they end before the log's start."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.storage.segment import Segment

if TYPE_CHECKING:
    from barnabas.storage.log_files import LogFiles


def before_log_start(log: LogFiles) -> list[Segment]:
    """Give the segments whose records are all before the log's start."""
    start = log.log_start_offset
    segments = log.segments

    def due(segment: Segment) -> bool:
        following = segments.after(segment)
        return following is not None and following.base_offset <= start

    return _leading(log, due)


def by_size(log: LogFiles) -> list[Segment]:
    """Give the oldest segments without which the log still holds at least `retention.bytes`."""
    limit = log.config.retention_bytes
    excess = log.size - limit
    if limit < 0 or excess < 0:
        return []

    def due(segment: Segment) -> bool:
        nonlocal excess
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return _leading(log, due)


def by_age(log: LogFiles, now_ms: int) -> list[Segment]:
    """Give the oldest segments whose newest record is older than `retention.ms`."""
    limit = log.config.retention_ms
    if limit < 0:
        return []
    return _leading(log, lambda segment: now_ms - segment.largest_timestamp > limit)


def _leading(log: LogFiles, due: Callable[[Segment], bool]) -> list[Segment]:
    """Give the first segments, in order, that are due and lie wholly below the high watermark."""
    found: list[Segment] = []
    for segment in log.segments:
        following = log.segments.after(segment)
        end = following.base_offset if following is not None else log.log_end_offset
        if log.high_watermark < end or (following is None and not segment.size) or not due(segment):
            break
        found.append(segment)
    return found
