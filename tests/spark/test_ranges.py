"""How offsets are shared out between triggers and Spark partitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.model.topic_partition import TopicPartition
from barnabas.spark.offsets import offsets_from_json, offsets_to_json
from barnabas.spark.ranges import OffsetRange, admit, split

A, B, C = (TopicPartition("t", n) for n in range(3))


def test_backlogs_share_a_trigger_in_proportion() -> None:
    assert admit({A: 0, B: 10, C: 5}, {A: 600, B: 310, C: 5}, 90) == {A: 60, B: 40, C: 5}
    assert admit({A: 0, B: 0}, {A: 4, B: 3}, 100) == {A: 4, B: 3}


def test_a_small_backlog_beside_a_huge_one_still_moves() -> None:
    assert admit({A: 0, B: 0}, {A: 10_000, B: 1}, 10) == {A: 9, B: 1}


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=8), st.integers(1, 5000))
def test_a_trigger_takes_exactly_what_is_allowed_and_there(sizes: list[tuple[int, int]], limit: int) -> None:
    start = {TopicPartition("t", i): first for i, (first, _) in enumerate(sizes)}
    latest = {TopicPartition("t", i): first + more for i, (first, more) in enumerate(sizes)}
    end = admit(start, latest, limit)
    assert all(start[p] <= end[p] <= latest[p] for p in start)
    assert sum(end[p] - start[p] for p in start) == min(limit, sum(more for _, more in sizes))


def test_large_ranges_are_cut_until_there_are_enough() -> None:
    ranges = [OffsetRange(A, 0, 90), OffsetRange(B, 5, 15), OffsetRange(C, 3, 3)]
    assert split(ranges, None) == [OffsetRange(A, 0, 90), OffsetRange(B, 5, 15)]
    assert split(ranges, 2) == split(ranges, None)
    parts = split(ranges, 4)
    assert parts == [
        OffsetRange(A, 0, 22), OffsetRange(A, 22, 45), OffsetRange(A, 45, 67), OffsetRange(A, 67, 90),
        OffsetRange(B, 5, 15),
    ]  # fmt: skip


@given(st.lists(st.integers(0, 50), max_size=6), st.integers(1, 40))
def test_cutting_loses_and_repeats_nothing(sizes: list[int], wanted: int) -> None:
    ranges = [OffsetRange(TopicPartition("t", i), 7, 7 + size) for i, size in enumerate(sizes)]
    parts = split(ranges, wanted)
    assert sorted((r.partition, o) for r in ranges for o in range(r.start, r.end)) == [
        (r.partition, o) for r in parts for o in range(r.start, r.end)
    ]
    assert all(part.size > 0 for part in parts)


def test_equal_offsets_have_equal_json_whatever_their_order() -> None:
    one = offsets_to_json({B: 2, A: 1})
    assert str(one) == str(offsets_to_json({A: 1, B: 2})) == "{'t': {'0': 1, '1': 2}}"
    assert offsets_from_json(one) == {A: 1, B: 2}
