"""Bringing a partition's producer state to an offset: the newest snapshot, then the records after it."""

from __future__ import annotations

from barnabas.storage.producer_snapshot import ProducerSnapshots
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.segment import Segment
from barnabas.storage.segments import SegmentList


def rebuild(
    state: ProducerState,
    snapshots: ProducerSnapshots,
    segments: SegmentList,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
) -> None:
    """Make `state` what it was when the log ended at `end_offset`; leaves snapshots at segment starts on the way."""
    snapshots.remove_outside(log_start_offset, end_offset)
    state.clear(log_start_offset)
    snapshots.load_newest(state, log_start_offset, now_ms)
    state.map_end_offset = max(state.map_end_offset, log_start_offset)
    if state.map_end_offset < end_offset:
        for segment in segments.between(state.map_end_offset, end_offset):
            if segment.base_offset > state.map_end_offset:
                state.map_end_offset = segment.base_offset
                snapshots.take(state, sync=False)
            _replay(state, segment, end_offset)
        state.map_end_offset = end_offset
        snapshots.take(state, sync=False)


def _replay(state: ProducerState, segment: Segment, end_offset: int) -> None:
    start = state.map_end_offset
    found = segment.find(start)
    if found is None:
        return
    for position, header in segment.headers(found.position):
        if header.base_offset >= end_offset:
            return
        if header.base_offset + header.last_offset_delta < start or header.producer_id < 0:
            continue
        # Only a control batch is read: what a data batch changes stands in its header.
        batch = segment.file.pread(header.size, position) if header.attributes & 0x20 else b""
        state.replay(header, batch)
