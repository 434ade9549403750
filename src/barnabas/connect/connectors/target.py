"""Where the batches of a SparkSink go: one class for each way in which they become durable."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from barnabas.connect.connector import TaskContext
from barnabas.connect.connectors.settings import options_of
from barnabas.model.topic_partition import TopicPartition


class Target(ABC):
    """What a connector's configuration says of it. Errors are those of Py4J, of PySpark and of the system."""

    def __init__(self, spark: SparkSession, config: Mapping[str, Any]) -> None:
        self.spark = spark
        self.config = config

    def open(self, task: TaskContext) -> Mapping[TopicPartition, int] | None:
        """Get ready; give where partitions go on by what is kept with the data, None when nothing is."""
        return None

    @abstractmethod
    def write(self, rows: DataFrame, task: TaskContext) -> None:
        """Write a batch; it is durable when this returns. FencedError when another task has written it."""

    def alter_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Have what is kept with the data say this, None to forget one; say whether there is such a thing."""
        return False

    def close(self) -> None:  # noqa: B027 - most leave nothing
        """Leave nothing behind of a batch that was given up; not called while one is being written."""

    def writer(self, rows: DataFrame) -> DataFrameWriter:
        """Give Spark's writer as the configuration wants it."""
        writer = rows.write.format(self.config["format"]).options(**options_of(self.config))
        if columns := self.config["partition.by"]:
            writer = writer.partitionBy(*columns)
        if most := self.config["file.max.records"]:
            writer = writer.option("maxRecordsPerFile", most)
        return writer


class PlainTarget(Target):
    """Whatever Spark can append to, at least once."""

    def write(self, rows: DataFrame, task: TaskContext) -> None:
        """Append the batch."""
        path = self.config["path"]
        self.writer(rows).mode("append").save(*([path] if path else []))
