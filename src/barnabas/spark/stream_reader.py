"""`spark.readStream.format("barnabas")`: micro-batches of offsets, admission control, offsets of a named group.

Where a query stands is Spark's checkpoint alone, so it resumes exactly. A group (`kafka.group.id`) is told what is
finished, for those who watch lag. Spark calls `commit` for a batch only when it plans the next one, so the last
batch of a run gets none; but `latestOffset(start)` is asked at every trigger, with and without new records, and its
`start` is the end of the last batch in Spark's commit log. That is committed too, which covers the last batch of
every run that ends by itself, and after a kill the next run's first trigger. What remains, a query stopped between
two triggers, is for `group_offsets.GroupOffsetListener`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import pyarrow as pa
import structlog
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from barnabas.client.cluster import Cluster
from barnabas.model.acl import AclOperation
from barnabas.model.topic_partition import TopicPartition
from barnabas.spark import lookup
from barnabas.spark.bridge import Bridge, Work
from barnabas.spark.explain import DataLossError, explained
from barnabas.spark.offsets import (
    Edge,
    OffsetsJson,
    PartitionOffsets,
    describe_partitions,
    offsets_from_json,
    offsets_to_json,
)
from barnabas.spark.options import ReadOptions
from barnabas.spark.partition import RangePartition, read_partition
from barnabas.spark.ranges import OffsetRange, admit, split

T = TypeVar("T")
log: Final = structlog.get_logger("barnabas.spark.stream_reader")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver's half plans, in one process for the life of the query; executors only call `read`."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._bridge: Bridge | None = None
        self._initial: PartitionOffsets | None = None
        self._target: PartitionOffsets | None = None
        self._latest: PartitionOffsets | None = None
        self._committed: PartitionOffsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def initialOffset(self) -> OffsetsJson:  # noqa: N802
        """Give where a query without a checkpoint starts."""

        async def initial(cluster: Cluster) -> PartitionOffsets:
            found = await lookup.partitions(cluster, self.options.selection)
            return await lookup.resolve(
                cluster, found, self.options.starting, "startingOffsets", committed=self.options.read_committed
            )

        self._initial = self._call(initial)
        return offsets_to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Give maxOffsetsPerTrigger as Spark's own limit."""
        most = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of a run that reads what is there now and stops."""
        self._target = self._call(self._log_ends)

    def latestOffset(self, start: OffsetsJson, limit: ReadLimit) -> OffsetsJson:  # noqa: N802
        """Give where the next batch ends: `start` itself when there is nothing new."""
        done = offsets_from_json(start)
        if done != self._initial:
            self._commit(done)
        self._latest = latest = self._target if self._target is not None else self._call(self._log_ends)
        self._check_still_there(done, latest)
        start_of_new = self._earliest([each for each in latest if each not in done])
        begin = {**{each: min(done[each], latest[each]) for each in latest if each in done}, **start_of_new}
        if isinstance(limit, ReadMaxRows):
            return offsets_to_json(admit(begin, latest, limit.max_rows))
        return offsets_to_json(latest)

    def reportLatestOffset(self) -> OffsetsJson | None:  # noqa: N802
        """Give the newest known end, from which Spark tells how far behind the query is."""
        return None if self._latest is None else offsets_to_json(self._latest)

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> Sequence[InputPartition]:
        """Give the ranges of a batch; the same for the same offsets, also after a restart."""
        first, last = offsets_from_json(start), offsets_from_json(end)
        self._check_still_there(first, last)
        new = self._earliest([each for each in last if each not in first])
        for partition, offset in new.items():
            if offset > 0:
                self._lost(f"the new partition {partition} begins at offset {offset}, not at 0")
        ranges = [OffsetRange(each, first.get(each, new.get(each, 0)), last[each]) for each in sorted(last)]
        return [RangePartition(each) for each in split(ranges, self.options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the records of one range."""
        return read_partition(self.options, partition)

    def commit(self, end: OffsetsJson) -> None:
        """Tell the group that everything before `end` is processed."""
        self._commit(offsets_from_json(end))

    def stop(self) -> None:
        """Close the connections."""
        bridge, self._bridge = self._bridge, None
        if bridge is not None:
            bridge.close()

    def _commit(self, done: PartitionOffsets) -> None:
        group = self.options.group_id
        if group is None or done == self._committed:
            return
        self._call(lambda cluster: lookup.commit(cluster, group, done))
        self._committed = done

    def _check_still_there(self, first: Mapping[TopicPartition, int], last: Mapping[TopicPartition, int]) -> None:
        gone = [each for each in first if each not in last]
        if gone:
            self._lost(f"{describe_partitions(gone)} no longer exist")
        back = [each for each in first if last.get(each, first[each]) < first[each]]
        if back:
            self._lost(f"{describe_partitions(back)} end before the offset that was read up to")

    def _lost(self, what: str) -> None:
        if self.options.fail_on_data_loss:
            raise DataLossError.about(what)
        log.warning("records are lost", what=what)

    def _earliest(self, partitions: list[TopicPartition]) -> PartitionOffsets:
        if not partitions:
            return {}
        return self._call(lambda cluster: lookup.edge(cluster, partitions, Edge.EARLIEST, committed=False))

    async def _log_ends(self, cluster: Cluster) -> PartitionOffsets:
        found = await lookup.partitions(cluster, self.options.selection)
        return await lookup.edge(cluster, found, Edge.LATEST, committed=self.options.read_committed)

    def _call(self, work: Work[T]) -> T:
        if self._bridge is None:
            self._bridge = Bridge(self.options.client)
        with explained(self._bridge.config, AclOperation.READ):
            return self._bridge.call(work)
