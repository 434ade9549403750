"""From a source's DataFrame to records in topics: transformations, converters, failures, the producer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from barnabas.client.config import ClientConfig
from barnabas.connect.connector import ConnectError, RetriableError
from barnabas.connect.runtime import Troubles
from barnabas.connect.spark.converters import Role, make_converter, make_header_converter
from barnabas.connect.spark.errors import ErrorHandling
from barnabas.connect.spark.failures import with_failures
from barnabas.connect.spark.pipeline import handled, retriable
from barnabas.connect.spark.row_count import RowCount
from barnabas.connect.spark.settings import SparkSettings
from barnabas.connect.spark.transforms.chain import Chain
from barnabas.connect.spark.transforms.headers import with_open_headers
from barnabas.connect.spark.writing import written
from barnabas.core.connect.ids import ConnectorTaskId

_DELIVERY: Final = frozenset({"delivery.timeout.ms", "message.timeout.ms"})
_TIMES: Final = _DELIVERY | {"request.timeout.ms"}
_WRITTEN: Final = ("key", "value", "topic", "partition", "headers")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a batch. records: how many there were; failed: left out for that; dropped: by transformations."""

    records: int
    failed: int
    dropped: int


class SourcePipeline:
    """The way of one task's batches. topics: those written to, as far as they are known.

    send: writes rows, and gives how many there were; Spark's executors write them unless it is given.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        settings: SparkSettings,
        task: ConnectorTaskId,
        tell: Callable[[Troubles], None],
        send: Callable[[pa.Table], int] | None = None,
    ) -> None:
        self._converters = {role.value: make_converter(config, role, settings.worker.properties) for role in Role}
        self._headers = make_header_converter(config, settings.worker.properties)
        self._chain = Chain.of(config)
        self._producer, self._delivery_ms = _with_delivery(settings.producer(task, config))
        self._send = send
        self._topic = config.get("topic")
        self.topics: set[str] = {self._topic} if self._topic else set()
        errors = ErrorHandling.of(config, task, self._producer, tell)
        self.errors = replace(errors, dead_letters="")  # they are for records that were in Kafka before

    def write(self, batch: DataFrame, cut_off: Event) -> Outcome:
        """Write a batch. Blocks; what it raises fails the task."""
        frame = with_failures(self._with_topic(batch))
        counted = RowCount(frame) if len(self._chain) else None
        if counted is not None:
            frame = self._chain.apply(with_open_headers(counted.frame))
        frame = self._headers.from_connect(frame)
        for column, converter in self._converters.items():
            if column in frame.columns:
                frame = converter.from_connect(frame)
        with handled(self.errors, frame, cut_off) as (good, failed):
            rows = self._write(good, cut_off)
        records = counted.value() if counted is not None else None
        least = rows + failed
        records = least if records is None else max(records, least)
        return Outcome(records, failed, records - least)

    def _with_topic(self, batch: DataFrame) -> DataFrame:
        if "topic" in batch.columns:
            return batch
        if not self._topic:
            raise ConnectError("the source's rows name no topic, and `topic` is not set")
        return batch.withColumn("topic", F.lit(self._topic))

    def _write(self, frame: DataFrame, cut_off: Event) -> int:
        rows = frame.select(*[name for name in _WRITTEN if name in frame.columns])
        if self._send is not None:
            # What is in a transaction already must not be tried again: only getting the rows is.
            return self._send(self.errors.retried(partial(retriable, rows.toArrow), cut_off, "read"))
        work = partial(retriable, partial(written, rows, self._producer))
        try:
            return self.errors.retried(work, cut_off, "write", timeout_ms=self._delivery_ms)
        except RetriableError as error:
            raise ConnectError(f"not delivered within delivery.timeout.ms={self._delivery_ms}: {error}") from error


def _with_delivery(producer: dict[str, str]) -> tuple[dict[str, str], int]:
    """Give a producer's settings, and how long in ms a batch may wait for its cluster.

    That is for ever, -1, unless it is set, as with Kafka's workers. No request is waited for longer.
    """
    times = ClientConfig.from_properties({name: text for name, text in producer.items() if name in _TIMES})
    if not times.properties.keys() & _DELIVERY:
        return producer, -1
    delivery_ms = times.integer("delivery.timeout.ms")
    request_ms = min(times.integer("request.timeout.ms"), delivery_ms)
    return producer | {"request.timeout.ms": str(request_ms)}, delivery_ms
