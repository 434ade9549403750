"""From a batch as it comes out of Kafka to a sink that has it: converters, transformations, failures, retries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from threading import Event
from typing import Any, Final, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from barnabas.connect.connector import RetriableError, Sink
from barnabas.connect.runtime import Troubles
from barnabas.connect.spark.converters import Role, make_converter, make_header_converter
from barnabas.connect.spark.errors import ErrorHandling
from barnabas.connect.spark.failures import FAILURE, with_failures
from barnabas.connect.spark.reading import UNREACHABLE
from barnabas.connect.spark.row_count import RowCount
from barnabas.connect.spark.settings import SparkSettings
from barnabas.connect.spark.transforms.chain import Chain
from barnabas.core.connect.ids import ConnectorTaskId

T = TypeVar("T")
_ROLES: Final = (Role.KEY, Role.VALUE)


class SinkPipeline:
    """The way of one task's batches.

    Of the newest one, failed: how many records were left out because they failed; passed: how many came to the sink,
    None where nothing could take others out.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        settings: SparkSettings,
        task: ConnectorTaskId,
        tell: Callable[[Troubles], None],
    ) -> None:
        self._converters = [make_converter(config, role, settings.worker.properties) for role in _ROLES]
        self._headers = make_header_converter(config, settings.worker.properties)
        self._chain = Chain.of(config)
        self.errors = ErrorHandling.of(config, task, settings.producer(task, config), tell)
        self.failed = 0
        self.passed: int | None = None

    def write(self, sink: Sink, raw: DataFrame, batch_id: int, cut_off: Event) -> None:
        """Write a batch; blocks, and retries what may go better. What it raises fails the task."""
        self.failed, self.passed = 0, None
        frame = with_failures(self.errors.with_originals(raw))
        for converter in self._converters:
            frame = converter.to_connect(frame)
        frame = self._headers.to_connect(frame)
        if len(self._chain):
            frame = self._chain.apply(frame)
        with handled(self.errors, frame, cut_off) as (good, self.failed):
            rows = self.errors.without_originals(good)
            counted = RowCount(rows) if len(self._chain) else None
            write = partial(sink.write, rows if counted is None else counted.frame, batch_id)
            self.errors.retried(partial(retriable, write), cut_off, "write")
        if counted is not None:
            self.passed = counted.value()


@contextmanager
def handled(errors: ErrorHandling, frame: DataFrame, cut_off: Event) -> Iterator[tuple[DataFrame, int]]:
    """Give the records that are well, and how many others there are, once these are dealt with. Blocks.

    Without tolerance, reading the frame fails at the first other one.
    """
    if not errors.tolerant:
        with errors.telling():
            yield errors.guarded(frame), 0
        return
    failing = frame.where(f"{FAILURE} IS NOT NULL")
    if is_empty(failing):
        yield frame, 0
        return
    frame.persist()
    try:
        failed = errors.retried(partial(retriable, failing.count), cut_off, "count")
        if failed:
            errors.tell(Troubles(failures=failed))
            errors.retried(partial(retriable, partial(errors.report, failing, failed)), cut_off, "errors")
            errors.tell(Troubles(skipped=failed))
        yield frame.where(f"{FAILURE} IS NULL"), failed
    finally:
        frame.unpersist()


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
