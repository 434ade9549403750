"""Files in a folder, exactly once: the manifest beside them makes commits."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from barnabas.connect.connector import TaskContext
from barnabas.connect.connectors.compaction import Compaction
from barnabas.connect.connectors.manifest import Manifest
from barnabas.connect.connectors.settings import options_of
from barnabas.connect.connectors.storage import Storage
from barnabas.connect.connectors.target import Target
from barnabas.model.topic_partition import TopicPartition

FORMATS: Final = frozenset({"parquet", "json", "csv", "orc", "text", "avro", "xml"})


class FileTarget(Target):
    """The folder `path`."""

    _manifest: Manifest | None = None

    def open(self, task: TaskContext) -> Mapping[TopicPartition, int]:
        """Open the manifest: what was committed is moved into place, what was not is gone."""
        self._storage = Storage(self.spark, self.config["path"])
        manifest = Manifest(self._storage, task.connector, task.task)
        manifest.open()
        self._manifest = manifest
        return manifest.offsets

    def write(self, rows: DataFrame, task: TaskContext) -> None:
        """Stage the batch's files, then commit them; merge small ones where that is wanted."""
        manifest = self._manifest
        assert manifest is not None
        staging = manifest.stage()
        try:
            self.writer(rows).save(self._storage.uri(manifest.path_of(staging)))
            made = manifest.commit(staging, task.batch_begins, task.batch_offsets)
            if self.config["compact.files"] and task.task == 0:
                self._compaction(manifest).run(made)
        except (OSError, Py4JError, PySparkException):
            with suppress(OSError, Py4JError):  # what is left of it would fill the disk with every try
                manifest.open()
            raise

    def alter_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Have the manifest say this."""
        Manifest(Storage(self.spark, self.config["path"]), self.config["name"], 0).set_offsets(offsets)
        return True

    def close(self) -> None:
        """Drop what a batch has left that failed."""
        if self._manifest is not None:
            self._manifest.close()

    def _compaction(self, manifest: Manifest) -> Compaction:
        return Compaction(
            self.spark,
            self._storage,
            manifest,
            format=self.config["format"],
            options=options_of(self.config),
            least_files=self.config["compact.files"],
            small_bytes=self.config["compact.file.bytes"],
        )
