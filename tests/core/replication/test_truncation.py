"""Where histories part: the cases of KIP-101, KIP-279 and KIP-595."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.core.replication.truncation import FreshStart, Truncation, divergence, out_of_range, truncation
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.wire.errors import ApiError, ErrorCode


def ends(*epochs: tuple[int, int], end: int) -> Callable[[int], tuple[int, int]]:
    """Give a log's answer to where an epoch ended; epochs: (epoch, start offset)."""

    def end_offset_for(asked: int) -> tuple[int, int]:
        known = [e for e, _ in epochs if e <= asked]
        if not epochs or asked > epochs[-1][0]:
            return (-1, -1)
        following = next((start for e, start in epochs if e > asked), end)
        return (known[-1] if known else asked, following)

    return end_offset_for


LEADER = ends((0, 0), (2, 10), (5, 20), end=30)


@pytest.mark.parametrize(
    ("offset", "epoch", "found"),
    [
        (30, 5, None),
        (25, 5, None),
        (31, 5, (5, 30)),
        (20, 2, None),
        (21, 2, (2, 20)),
        (12, 1, (0, 10)),
        (15, 4, (2, 20)),
    ],
)
def test_a_leader_tells_where_the_follower_went_astray(offset: int, epoch: int, found: tuple[int, int] | None) -> None:
    assert divergence(LEADER, 0, offset, epoch) == found


def test_a_leader_that_cannot_tell_says_so() -> None:
    for start, offset, epoch in ((0, 5, 6), (3, 2, 0)):
        with pytest.raises(ApiError) as refused:
            divergence(LEADER, start, offset, epoch)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("epochs", "end", "leader", "cut"),
    [
        (((0, 0), (2, 10)), 25, OffsetAndEpoch(20, 2), Truncation(20, True)),
        (((0, 0), (2, 10)), 18, OffsetAndEpoch(20, 2), Truncation(18, True)),
        (((0, 0), (1, 8), (3, 12)), 25, OffsetAndEpoch(20, 2), Truncation(12, False)),
        (((3, 5),), 25, OffsetAndEpoch(10, 0), Truncation(5, True)),
        (((0, 0),), 25, OffsetAndEpoch(-1, -1), Truncation(4, True)),
        (((0, 0),), 25, OffsetAndEpoch(20, -1), Truncation(20, True)),
        ((), 25, OffsetAndEpoch(20, 2), Truncation(20, True)),
    ],
)
def test_a_follower_cuts_where_both_agree(
    epochs: tuple[tuple[int, int], ...], end: int, leader: OffsetAndEpoch, cut: Truncation
) -> None:
    assert truncation(ends(*epochs, end=end), end, 4, leader) == cut


@pytest.mark.parametrize(
    ("log_end", "leader_start", "leader_end", "fresh"),
    [
        (50, 0, 40, FreshStart(40, False)),
        (50, 60, 90, FreshStart(60, True)),
        (50, 0, 90, FreshStart(50, False)),
        (50, 50, 50, FreshStart(50, False)),
    ],
)
def test_outside_of_the_leaders_range(log_end: int, leader_start: int, leader_end: int, fresh: FreshStart) -> None:
    assert out_of_range(log_end, leader_start, leader_end) == fresh
