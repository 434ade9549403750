"""From a source's DataFrame to records in topics: transformations, converters, failures, the producer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from threading import Event
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from barnabas.connect.connector import ConnectError
from barnabas.connect.spark.converters import Role, make_converter, make_header_converter
from barnabas.connect.spark.errors import ErrorHandling
from barnabas.connect.spark.failures import FAILURE, with_failures
from barnabas.connect.spark.pipeline import is_empty, retriable
from barnabas.connect.spark.settings import SparkSettings
from barnabas.connect.spark.transforms.chain import Chain
from barnabas.connect.spark.transforms.headers import with_open_headers
from barnabas.connect.spark.writing import written
from barnabas.core.connect.ids import ConnectorTaskId

_WRITTEN: Final = ("key", "value", "topic", "partition", "headers")


class SourcePipeline:
    """The way of one task's batches.

    failed: how many records of the newest batch were left out; topics: those written to, as far as they are known.
    """

    def __init__(self, config: Mapping[str, str], settings: SparkSettings, task: ConnectorTaskId) -> None:
        self._converters = {role.value: make_converter(config, role, settings.worker.properties) for role in Role}
        self._headers = make_header_converter(config, settings.worker.properties)
        self._chain = Chain.of(config)
        self._producer = settings.producer(task, config)
        self._topic = config.get("topic")
        self.topics: set[str] = {self._topic} if self._topic else set()
        self.errors = ErrorHandling.of(config, task, self._producer)
        self.failed = 0

    def write(self, batch: DataFrame, cut_off: Event) -> int:
        """Write a batch; give how many records there are now in Kafka. Blocks; what it raises fails the task."""
        self.failed = 0
        frame = with_failures(self._with_topic(batch))
        if len(self._chain):
            frame = self._chain.apply(with_open_headers(frame))
        frame = self._headers.from_connect(frame)
        for column, converter in self._converters.items():
            if column in frame.columns:
                frame = converter.from_connect(frame)
        if not self.errors.tolerant:
            return self._write(self.errors.guarded(frame), cut_off)
        failing = frame.where(f"{FAILURE} IS NOT NULL")
        if is_empty(failing):
            return self._write(frame, cut_off)
        frame.persist()
        try:
            self.failed = failing.count()
            if self.errors.log and self.failed:
                self.errors.log_records(failing)
            return self._write(frame.where(f"{FAILURE} IS NULL"), cut_off)
        finally:
            frame.unpersist()

    def _with_topic(self, batch: DataFrame) -> DataFrame:
        if "topic" in batch.columns:
            return batch
        if not self._topic:
            raise ConnectError("the source's rows name no topic, and `topic` is not set")
        return batch.withColumn("topic", F.lit(self._topic))

    def _write(self, frame: DataFrame, cut_off: Event) -> int:
        rows = frame.select(*[name for name in _WRITTEN if name in frame.columns])
        work = partial(retriable, partial(written, rows, self._producer))
        return self.errors.retried(work, cut_off, "write")
