"""Ranges of offsets as rows of text, and the records in them as columns: what executors do for a sink."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from barnabas.model.topic_partition import TopicPartition
from barnabas.net.client import ChannelError
from barnabas.spark.explain import SourceError
from barnabas.spark.offsets import Edge
from barnabas.spark.options import Assignment, ReadOptions
from barnabas.spark.partition import RangePartition, read_partition
from barnabas.spark.ranges import OffsetRange, split

UNREACHABLE: Final = "the cluster cannot be reached"
"""In the text of whatever an executor raises because of that; Spark hands on the text alone."""
_READ_BY_CONSUMERS: Final = ("group.id", "group.instance.id", "auto.offset.reset", "enable.auto.commit")


def rows_of(ranges: Sequence[OffsetRange], width: int) -> list[str]:
    """Give the text of at most `width` rows, each with its share of the ranges; together they keep the order."""
    pieces = split(ranges, width)
    share = -(-len(pieces) // width)
    return [
        json.dumps([[*each.partition, each.start, each.end] for each in pieces[first : first + share]])
        for first in range(0, len(pieces), share)
    ]


def ranges_of(row: str) -> list[OffsetRange]:
    """Give the ranges of a row."""
    return [OffsetRange(TopicPartition(topic, number), start, end) for topic, number, start, end in json.loads(row)]


class RangesReader:
    """Turns batches of rows into batches of records; travels to the executors."""

    def __init__(self, client: dict[str, str], count: Any) -> None:
        kept = {key: value for key, value in client.items() if key not in _READ_BY_CONSUMERS}
        self._options = ReadOptions(
            client=kept,
            selection=Assignment(()),
            starting=Edge.EARLIEST,
            ending=Edge.LATEST,
            fail_on_data_loss=False,
            include_headers=True,
        )
        self._count = count

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the records, in the order of the ranges."""
        for batch in batches:
            for row in batch.column(0).to_pylist():
                for wanted in ranges_of(row):
                    yield from self._counted(self._read(wanted))

    def _counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for records in batches:
            self._count.add((records.num_rows, records.column(0).nbytes + records.column(1).nbytes))
            yield records

    def _read(self, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        try:
            yield from read_partition(self._options, RangePartition(wanted))
        except SourceError as error:
            if isinstance(error.__cause__, ChannelError):
                raise SourceError(f"{UNREACHABLE}: {error}") from error
            raise
