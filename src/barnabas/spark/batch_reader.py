"""`spark.read.format("barnabas")`: all records between two bounds, fixed when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from barnabas.client.cluster import Cluster
from barnabas.model.acl import AclOperation
from barnabas.spark import lookup
from barnabas.spark.bridge import borrow
from barnabas.spark.explain import DataLossError, explained
from barnabas.spark.offsets import Edge, PartitionOffsets
from barnabas.spark.options import ReadOptions
from barnabas.spark.partition import RangePartition, read_partition
from barnabas.spark.ranges import OffsetRange, split


class BatchReader(DataSourceReader):
    """Plans ranges on the driver, reads them on executors."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Give the ranges to read; SourceError when topics or offsets cannot be had."""
        with borrow(self.options.client) as bridge, explained(bridge.config, AclOperation.READ):
            ranges = bridge.call(self._ranges)
        return [RangePartition(each) for each in split(ranges, self.options.min_partitions)] or [RangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the records of one range."""
        return read_partition(self.options, partition)

    async def _ranges(self, cluster: Cluster) -> list[OffsetRange]:
        options, committed = self.options, self.options.read_committed
        found = await lookup.partitions(cluster, options.selection)
        first = await lookup.edge(cluster, found, Edge.EARLIEST, committed=committed)
        start = await lookup.resolve(cluster, found, options.starting, "startingOffsets", committed=committed)
        end = await lookup.resolve(cluster, found, options.ending, "endingOffsets", committed=committed)
        return [OffsetRange(each, _from(options, start, first, each), end[each]) for each in found]


def _from(options: ReadOptions, start: PartitionOffsets, first: PartitionOffsets, partition: object) -> int:
    wanted, there = start[partition], first[partition]  # type: ignore[index]
    if wanted < there and options.fail_on_data_loss:
        raise DataLossError.about(f"{partition} begins at offset {there} now, after the wanted offset {wanted}")
    return max(wanted, there)
