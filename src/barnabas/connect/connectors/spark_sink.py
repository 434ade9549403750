"""SparkSink: batches into whatever Spark can write; docs/connectors.md says what of it is exactly once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from barnabas.connect.connector import ConnectError, RetriableError, Sink, TaskContext
from barnabas.connect.connectors.compaction import compactable
from barnabas.connect.connectors.delta_target import FORMAT as DELTA
from barnabas.connect.connectors.delta_target import DeltaTarget
from barnabas.connect.connectors.file_target import FORMATS as FILES
from barnabas.connect.connectors.file_target import FileTarget
from barnabas.connect.connectors.java_errors import is_storage_trouble
from barnabas.connect.connectors.opening import Opening
from barnabas.connect.connectors.settings import NAME, SELECT, options_of, selected
from barnabas.connect.connectors.target import PlainTarget, Target
from barnabas.model.config import ConfigKey, ConfigTable, ConfigType, Importance, at_least
from barnabas.model.topic_partition import TopicPartition

T = TypeVar("T")


class SparkSink(Sink):
    """Writes batches: files and Delta tables exactly once, whatever else Spark can append to at least once."""

    VERSION: ClassVar[str] = "1.0"
    CONFIG: ClassVar[ConfigTable] = ConfigTable(
        NAME,
        ConfigKey("format", ConfigType.STRING, "parquet", "Spark's name of the format to write.", Importance.HIGH),
        ConfigKey(
            "path", ConfigType.STRING, None, "The folder to write to, where the format has one.", Importance.HIGH
        ),
        SELECT,
        ConfigKey("partition.by", ConfigType.LIST, [], "Columns by which files go into folders of their own."),
        ConfigKey(
            "file.max.records",
            ConfigType.LONG,
            0,
            "The most records in one file; 0: no limit.",
            validator=at_least(0),
        ),
        ConfigKey(
            "rotate.records",
            ConfigType.LONG,
            1,
            "Wait until so many records are there for a batch, which is what fills a file.",
            validator=at_least(1),
        ),
        ConfigKey(
            "rotate.interval.ms",
            ConfigType.LONG,
            60_000,
            "Write what is there when it has waited so long, however little it is.",
            validator=at_least(0),
        ),
        ConfigKey(
            "compact.files",
            ConfigType.INT,
            0,
            "Merge the small files of a folder when there are so many of them; 0: never.",
            validator=at_least(0),
        ),
        ConfigKey(
            "compact.file.bytes",
            ConfigType.LONG,
            32 << 20,
            "What is a small file, and about how large merged ones get.",
            validator=at_least(1),
        ),
    )
    _target: Target | None = None
    _opening: Opening | None = None

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._busy = threading.Lock()

    def validate(self) -> Mapping[str, str]:
        """Say what is missing for the format, and what it has no use for."""
        format, options = self.config["format"], options_of(self.config)
        if self._kind is not PlainTarget and not self.config["path"]:
            return {"path": f"want a folder: {format} files go into one"}
        if self.config["compact.files"] and not compactable(format, options):
            return {"compact.files": f"want 0: {format} files cannot be merged here"}
        return {}

    def open(self, spark: SparkSession, task: TaskContext) -> None:
        """Learn where partitions go on, as the data says. What cannot be reached now is asked by the first batch."""
        if self._kind is not PlainTarget and not self.config["path"]:
            raise ConnectError(f"path is not set: {self.config['format']} files go into a folder")
        self._task = task
        self._target = target = self._kind(spark, self.config)
        self._opening = Opening(lambda: self._patiently(lambda: target.open(task)), task)
        self._opening.try_now()

    def offsets(self) -> Mapping[TopicPartition, int] | None:
        """Give where the data says that partitions go on; None where it does not, or cannot be asked yet."""
        return None if self._opening is None else self._opening.known

    def alter_offsets(self, spark: SparkSession, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Have what is kept with the data say this."""
        return self._kind(spark, self.config).alter_offsets(offsets)

    def ready(self, records: int, waited_ms: int) -> bool:
        """Wait for a file's worth of records, but not for ever."""
        return bool(records >= self.config["rotate.records"] or waited_ms >= self.config["rotate.interval.ms"])

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write the batch; FencedError when it was written by another task meanwhile.

        RetriableError when a disk is full or a path cannot be reached: either may be better a moment later.
        """
        target, opening = self._target, self._opening
        assert target is not None
        assert opening is not None
        with self._busy:
            opening.before_batch()
            self._patiently(lambda: target.write(selected(batch, self.config), self._task))

    def close(self) -> None:
        """Clean up after a batch that was given up; one that is still being written cleans up itself."""
        if self._target is None or not self._busy.acquire(blocking=False):
            return
        try:
            self._target.close()
        finally:
            self._busy.release()

    @property
    def _kind(self) -> type[Target]:
        format = self.config["format"].lower()
        if format == DELTA:
            return DeltaTarget
        return FileTarget if format in FILES else PlainTarget

    def _patiently(self, work: Callable[[], T]) -> T:
        """Tell what a later try may not meet from what is wrong for good."""
        try:
            return work()
        except (OSError, Py4JError, PySparkException) as error:
            if is_storage_trouble(error):
                raise RetriableError(f"cannot write to {self.config['path']}: {error}") from error
            raise
