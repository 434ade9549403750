"""Which offsets a batch covers, and how they are shared out: between triggers and between Spark partitions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from barnabas.model.topic_partition import TopicPartition
from barnabas.spark.offsets import PartitionOffsets


class OffsetRange(NamedTuple):
    """Offsets of one partition, from start (inclusive) to end (exclusive)."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """Give how many offsets there are; compaction and transactions may leave fewer records."""
        return self.end - self.start


def admit(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], limit: int) -> PartitionOffsets:
    """Give the end offsets of a batch of at most `limit` offsets, each partition in proportion to its backlog.

    start, latest: the next and the end offset of the same partitions. Every partition with a backlog gets on by at
    least one offset sooner or later: what rounding leaves over goes to the largest backlogs first.
    """
    backlog = {partition: max(latest[partition] - start[partition], 0) for partition in sorted(latest)}
    total = sum(backlog.values())
    if total <= limit:
        return {partition: max(latest[partition], start[partition]) for partition in backlog}
    shares = {partition: size * limit // total for partition, size in backlog.items()}
    left = limit - sum(shares.values())
    for partition in sorted(backlog, key=lambda each: (shares[each] > 0, -backlog[each])):
        extra = min(left, 1, backlog[partition] - shares[partition])
        shares[partition] += extra
        left -= extra
    return {partition: start[partition] + share for partition, share in shares.items()}


def split(ranges: Iterable[OffsetRange], min_partitions: int | None) -> Sequence[OffsetRange]:
    """Give the ranges that have offsets, large ones cut so that there are about `min_partitions` of them."""
    wanted = [each for each in ranges if each.size > 0]
    if not min_partitions or not wanted or len(wanted) >= min_partitions:
        return wanted
    total = sum(each.size for each in wanted)
    result: list[OffsetRange] = []
    for each in wanted:
        parts = min(max(-(-each.size * min_partitions // total), 1), each.size)
        edges = [each.start + each.size * i // parts for i in range(parts + 1)]
        result.extend(OffsetRange(each.partition, a, b) for a, b in itertools.pairwise(edges))
    return result
