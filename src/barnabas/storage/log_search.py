"""Offsets by time: the first record at or after a timestamp, and the one with the largest."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.storage.segment import Segment
from barnabas.storage.segments import SegmentList
from barnabas.wire.record_batch import BatchHeader, decode_batch


class TimestampedOffset(NamedTuple):
    """A record found by time; leader_epoch: None when the batch has none."""

    offset: int
    timestamp: int
    leader_epoch: int | None


def by_timestamp(segments: SegmentList, timestamp: int, start_offset: int) -> TimestampedOffset | None:
    """Give the first record from `start_offset` on whose timestamp is at least this; None when there is none."""
    for segment in segments:
        if segment.largest_timestamp >= timestamp:
            return _in_segment(segment, timestamp, start_offset)
    return None


def _in_segment(segment: Segment, timestamp: int, start_offset: int) -> TimestampedOffset | None:
    offset = max(segment.time_index.lookup(timestamp), start_offset)
    for position, header in segment.headers(segment.index.lookup(offset)):
        if header.max_timestamp < timestamp or header.base_offset + header.last_offset_delta < start_offset:
            continue
        batch = segment.file.pread(header.size, position)
        for record in decode_batch(batch):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimestampedOffset(record.offset, record.timestamp, _epoch(header))
    return None


def largest_timestamp(segments: SegmentList) -> TimestampedOffset | None:
    """Give the first record that has the log's largest timestamp; None when no record has one."""
    best = max(segments, key=lambda s: s.max_timestamp_and_offset[0], default=None)
    if best is None:
        return None
    timestamp, offset = best.max_timestamp_and_offset
    for position, header in best.headers(best.index.lookup(offset)):
        if header.max_timestamp != timestamp:
            continue
        batch = best.file.pread(header.size, position)
        for record in decode_batch(batch):
            if record.timestamp == timestamp:
                return TimestampedOffset(record.offset, timestamp, _epoch(header))
    return None


def _epoch(header: BatchHeader) -> int | None:
    return header.leader_epoch if header.leader_epoch >= 0 else None
