"""One Spark task's share of a read, and how it is read; the same for batch and streaming."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from barnabas.model.acl import AclOperation
from barnabas.spark.bridge import borrow
from barnabas.spark.explain import explained
from barnabas.spark.fetch import RangeReader
from barnabas.spark.options import ReadOptions
from barnabas.spark.ranges import OffsetRange


class RangePartition(InputPartition):
    """A range of offsets, read by one task. None: Spark asks for a partition where there is nothing to read."""

    def __init__(self, value: OffsetRange | None) -> None:
        super().__init__(value)


def read_partition(options: ReadOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Give the records of one range; runs on an executor, where secrets are resolved."""
    wanted: OffsetRange | None = partition.value
    if wanted is None:
        return
    with borrow(options.client) as bridge, explained(bridge.config, AclOperation.READ):
        reader = RangeReader(
            bridge,
            wanted,
            committed=options.read_committed,
            headers=options.include_headers,
            fail_on_data_loss=options.fail_on_data_loss,
        )
        yield from reader.batches()
