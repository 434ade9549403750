"""From a batch as it comes out of Kafka to a sink that has it: converters, transformations, failures, retries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from threading import Event
from typing import Any, Final, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from barnabas.connect.connector import RetriableError, Sink
from barnabas.connect.spark.converters import Role, make_converter, make_header_converter
from barnabas.connect.spark.errors import ErrorHandling
from barnabas.connect.spark.failures import FAILURE, with_failures
from barnabas.connect.spark.reading import UNREACHABLE
from barnabas.connect.spark.settings import SparkSettings
from barnabas.connect.spark.transforms.chain import Chain
from barnabas.core.connect.ids import ConnectorTaskId

T = TypeVar("T")
_ROLES: Final = (Role.KEY, Role.VALUE)


class SinkPipeline:
    """The way of one task's batches. failed: how many records of the newest batch were left out."""

    def __init__(self, config: Mapping[str, str], settings: SparkSettings, task: ConnectorTaskId) -> None:
        self._converters = [make_converter(config, role, settings.worker.properties) for role in _ROLES]
        self._headers = make_header_converter(config, settings.worker.properties)
        self._chain = Chain.of(config)
        self.errors = ErrorHandling.of(config, task, settings.producer(task, config))
        self.failed = 0

    def write(self, sink: Sink, raw: DataFrame, batch_id: int, cut_off: Event) -> None:
        """Write a batch; blocks, and retries what may go better. What it raises fails the task."""
        self.failed = 0
        frame = with_failures(self.errors.with_originals(raw))
        for converter in self._converters:
            frame = converter.to_connect(frame)
        frame = self._headers.to_connect(frame)
        if len(self._chain):
            frame = self._chain.apply(frame)
        if not self.errors.tolerant:
            self._write(sink, self.errors.without_originals(self.errors.guarded(frame)), batch_id, cut_off)
            return
        failing = frame.where(f"{FAILURE} IS NOT NULL")
        if is_empty(failing):
            self._write(sink, self.errors.without_originals(frame), batch_id, cut_off)
            return
        frame.persist()
        try:
            self.failed = self.errors.retried(lambda: retriable(lambda: self.errors.report(failing)), cut_off, "errors")
            good = frame.where(f"{FAILURE} IS NULL")
            self._write(sink, self.errors.without_originals(good), batch_id, cut_off)
        finally:
            frame.unpersist()

    def _write(self, sink: Sink, frame: DataFrame, batch_id: int, cut_off: Event) -> None:
        self.errors.retried(partial(retriable, partial(sink.write, frame, batch_id)), cut_off, "write")


def is_empty(frame: DataFrame) -> bool:
    """Say whether the optimizer can see that there are no rows, as when nothing in the plan can fail."""
    plan: Any = frame._jdf.queryExecution().optimizedPlan()
    most = plan.maxRows()
    return bool(most.isDefined() and most.get() == 0)


def retriable(work: Callable[[], T]) -> T:
    """Tell a cluster that cannot be reached at the moment from what is wrong for good."""
    try:
        return work()
    except PySparkException as error:
        if UNREACHABLE in str(error):
            raise RetriableError(str(error)) from error
        raise
