"""FileStreamSink: values of topics as lines of a file on the worker's machine, configured as the JVM's."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from barnabas.connect.connector import ConnectError, Sink, TaskContext
from barnabas.connect.spark.data.records import column_schema
from barnabas.connect.spark.data.texts import java_text
from barnabas.model.config import ConfigKey, ConfigTable, ConfigType, Importance

_LINE_END: Final = b"\n"


class FileStreamSink(Sink):
    """Appends a line a record, at least once. Lines are what Java's println makes of the values.

    As with the JVM's, what is written outlives the worker, but not a loss of power before the system has flushed it.
    """

    VERSION: ClassVar[str] = "1.0"
    TASK_CLASS: ClassVar[str | None] = "org.apache.kafka.connect.file.FileStreamSinkTask"
    CONFIG: ClassVar[ConfigTable] = ConfigTable(
        ConfigKey(
            "file", ConfigType.STRING, None, "The file to append to; the standard output if not set.", Importance.HIGH
        ),
    )
    _file: io.FileIO | None = None

    def open(self, spark: SparkSession, task: TaskContext) -> None:
        """Open the file, making it if it is not there; ConnectError when that is refused."""
        if self._file is not None:
            return
        path = self.config["file"]
        try:
            self._file = io.FileIO(path, "ab") if path else io.FileIO(sys.stdout.fileno(), "wb", closefd=False)
        except OSError as error:
            raise ConnectError(f"cannot open {path!r}: {error.strerror}") from error

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Append the batch; a failure cuts off what was written of it."""
        assert self._file is not None
        text = java_text(column_schema(batch, "value"), "value")
        lines = batch.select(expr(f"coalesce(cast({text} as binary), cast('null' as binary))"))
        blocks = [_joined(each.column(0)) for each in lines.toArrow().to_batches() if each.num_rows]
        begun = self._file.tell() if self._file.seekable() else None
        try:
            for block in blocks:
                self._write_all(block)
        except OSError as error:
            if begun is not None:
                with suppress(OSError):  # what is left then is written again: at least once
                    os.ftruncate(self._file.fileno(), begun)
            raise ConnectError(f"cannot write to {self.config['file']!r}: {error.strerror}") from error

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _write_all(self, block: pa.Buffer) -> None:
        assert self._file is not None
        rest = memoryview(block)
        while rest:
            rest = rest[self._file.write(rest) :]


def _joined(lines: pa.Array) -> pa.Buffer:
    """Give the lines with their ends as one piece, made without touching each in Python."""
    empty = pa.array([b""], lines.type)
    whole = pa.concat_arrays([lines, empty])
    edges = pa.array([0, len(whole)], pa.int32())
    return pc.binary_join(pa.ListArray.from_arrays(edges, whole), _LINE_END)[0].as_buffer()
