"""Where the logs of a leader and a follower part, and what the follower does about it (KIP-101, KIP-279, KIP-595)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.wire.errors import ApiError, ErrorCode

UNDEFINED: Final = -1

EndOffsetFor = Callable[[int], tuple[int, int]]
"""Gives (epoch, end offset) for the greatest epoch of a log that is not past the asked one; (-1, -1) for none."""


def divergence(
    end_offset_for: EndOffsetFor, log_start: int, fetch_offset: int, fetched_epoch: int
) -> tuple[int, int] | None:
    """Tell a follower or consumer that `fetched_epoch` does not end where it thinks: (epoch, end offset) of the leader.

    None when the histories agree up to `fetch_offset`. ApiError OFFSET_OUT_OF_RANGE where the leader cannot tell.
    """
    epoch, end = end_offset_for(fetched_epoch)
    if epoch == UNDEFINED or end == UNDEFINED:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"where epoch {fetched_epoch} ended is not known any more")
    if fetch_offset < log_start:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{fetch_offset} lies before the log's start, {log_start}")
    return (epoch, end) if epoch < fetched_epoch or end < fetch_offset else None


class Truncation(NamedTuple):
    """Where to cut. complete: the logs agree then; else ask the leader again, with the epoch that is newest then."""

    offset: int
    complete: bool


def truncation(end_offset_for: EndOffsetFor, log_end: int, high_watermark: int, leader: OffsetAndEpoch) -> Truncation:
    """Give where a follower cuts its log, its leader having answered that `leader.epoch` ends at `leader.offset`.

    end_offset_for: of the follower's own log.
    """
    if leader.offset == UNDEFINED:
        return Truncation(high_watermark, True)  # nothing in common is known but what was committed
    if leader.epoch == UNDEFINED:
        return Truncation(min(leader.offset, log_end), True)
    epoch, end = end_offset_for(leader.epoch)
    if epoch == UNDEFINED:
        return Truncation(min(leader.offset, log_end), True)
    if epoch != leader.epoch:
        return Truncation(min(end, log_end), False)
    return Truncation(min(end, leader.offset, log_end), True)


class FreshStart(NamedTuple):
    """Where a follower goes on whose offset the leader does not have. wipe: it begins anew there, keeping nothing."""

    offset: int
    wipe: bool


def out_of_range(log_end: int, leader_start: int, leader_end: int) -> FreshStart:
    """Give where a follower goes on: cut to the leader's end, or up to its start when that has moved past us.

    A follower ahead of its leader was led uncleanly. One between the two ends just tries again.
    """
    if leader_end < log_end:
        return FreshStart(leader_end, False)
    return FreshStart(max(leader_start, log_end), leader_start > log_end)
