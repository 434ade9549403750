"""SparkSink: batches into whatever Spark can write. Files exactly once; see docs/connectors.md for each format."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.types import StructType

from barnabas.connect.connector import ConnectError, RetriableError, Sink, TaskContext
from barnabas.connect.connectors.compaction import Compaction, compactable
from barnabas.connect.connectors.manifest import Manifest
from barnabas.connect.connectors.storage import Storage, is_storage_trouble
from barnabas.model.config import REQUIRED, ConfigKey, ConfigTable, ConfigType, Importance, at_least
from barnabas.model.topic_partition import TopicPartition

FILE_FORMATS: Final = frozenset({"parquet", "json", "csv", "orc", "text", "avro", "xml"})
"""Formats of files in a folder, for which the manifest makes commits."""
OPTIONS: Final = "options."
_PLAIN: Final = "key, value, topic, partition, offset, timestamp"


class SparkSink(Sink):
    """Writes batches by a DataFrameWriter. Files are exactly once, by a manifest; anything else at least once."""

    VERSION: ClassVar[str] = "1.0"
    CONFIG: ClassVar[ConfigTable] = ConfigTable(
        ConfigKey("name", ConfigType.STRING, REQUIRED, "The connector's name.", Importance.HIGH),
        ConfigKey("format", ConfigType.STRING, "parquet", "Spark's name of the format to write.", Importance.HIGH),
        ConfigKey(
            "path", ConfigType.STRING, None, "The folder to write to, where the format has one.", Importance.HIGH
        ),
        ConfigKey(
            "select",
            ConfigType.STRING,
            None,
            "What of a batch to write, as Spark's SQL has it after SELECT. Unless it is set, the fields of the value, "
            f"or, where it has none, {_PLAIN}.",
        ),
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
    _manifest: Manifest | None = None

    def validate(self) -> Mapping[str, str]:
        """Say what is missing for the format."""
        if self._by_manifest and not self.config["path"]:
            return {"path": f"want a folder: {self.config['format']} files go into one"}
        if self.config["compact.files"] and not compactable(self.config["format"], self._options()):
            return {"compact.files": f"want 0: {self.config['format']} files cannot be merged"}
        return {}

    def open(self, spark: SparkSession, task: TaskContext) -> None:
        """Open the manifest: what was committed is moved into place, what was not is gone."""
        self._task = task
        if not self._by_manifest:
            return
        if not self.config["path"]:
            raise ConnectError(f"path is not set: {self.config['format']} files go into a folder")
        self._storage = Storage(spark, self.config["path"])
        self._manifest = Manifest(self._storage, task.connector, task.task)
        self._manifest.open()

    def offsets(self) -> Mapping[TopicPartition, int] | None:
        """Give where the manifest says that partitions go on."""
        return None if self._manifest is None else self._manifest.offsets

    def alter_offsets(self, spark: SparkSession, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Have the manifest say this."""
        if not self._by_manifest:
            return False
        Manifest(Storage(spark, self.config["path"]), self.config["name"], 0).set_offsets(offsets)
        return True

    def ready(self, records: int, waited_ms: int) -> bool:
        """Wait for a file's worth of records, but not for ever."""
        return bool(records >= self.config["rotate.records"] or waited_ms >= self.config["rotate.interval.ms"])

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write the batch; FencedError when it was written by another task meanwhile.

        RetriableError when a disk is full or a path cannot be reached: either may be better a moment later.
        """
        try:
            self._write(batch)
        except (OSError, Py4JError, PySparkException) as error:
            if is_storage_trouble(error):
                raise RetriableError(f"cannot write to {self.config['path']}: {error}") from error
            raise

    def _write(self, batch: DataFrame) -> None:
        manifest = self._manifest
        if manifest is None:
            self._writer(batch).mode("append").save(*([self.config["path"]] if self.config["path"] else []))
            return
        staging = manifest.stage()
        try:
            self._writer(batch).save(self._storage.uri(manifest.path_of(staging)))
        except (Py4JError, PySparkException):
            with suppress(Py4JError):  # what is left of it would fill the disk with every try
                self._storage.remove(manifest.path_of(staging))
            raise
        made = manifest.commit(staging, self._task.batch_begins, self._task.batch_offsets)
        if self.config["compact.files"] and self._task.task == 0:
            Compaction(
                batch.sparkSession,
                self._storage,
                manifest,
                format=self.config["format"],
                options=self._options(),
                least_files=self.config["compact.files"],
                small_bytes=self.config["compact.file.bytes"],
            ).run(made)

    @property
    def _by_manifest(self) -> bool:
        return self.config["format"].lower() in FILE_FORMATS

    def _writer(self, batch: DataFrame) -> DataFrameWriter:
        frame = self._selected(batch)
        writer = frame.write.format(self.config["format"]).options(**self._options())
        if columns := self.config["partition.by"]:
            writer = writer.partitionBy(*columns)
        if most := self.config["file.max.records"]:
            writer = writer.option("maxRecordsPerFile", most)
        return writer

    def _selected(self, batch: DataFrame) -> DataFrame:
        what = self.config["select"]
        if what is None:
            what = "value.*" if isinstance(batch.schema["value"].dataType, StructType) else _PLAIN
        return batch.sparkSession.sql(f"SELECT {what} FROM {{batch}}", batch=batch)

    def _options(self) -> dict[str, str]:
        return {key.removeprefix(OPTIONS): text for key, text in self.config.items() if key.startswith(OPTIONS)}
