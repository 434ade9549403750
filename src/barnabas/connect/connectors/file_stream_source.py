"""FileStreamSource: lines of a growing file into a topic, configured as the JVM's, and resumable by it.

Positions count bytes. The JVM's connector counts characters and skips bytes, which is the same where all is ASCII.
"""

from __future__ import annotations

import io
import select
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import structlog
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from barnabas.connect.connector import ConnectError, ExactlyOnceSupport, Polled, PollingSource, TaskContext
from barnabas.connect.spark.data.records import noted
from barnabas.connect.spark.data.schema import Schema, Type
from barnabas.model.config import REQUIRED, ConfigKey, ConfigTable, ConfigType, Importance, not_empty

FILENAME: Final = "filename"
POSITION: Final = "position"
CHUNK_BYTES: Final = 32 << 20
"""What one batch takes at most, unless a single line is longer."""
log: Final = structlog.get_logger("barnabas.connect.file_stream_source")


class FileStreamSource(PollingSource):
    """A record a line, at least once, in order. Lines end as Java's do: by LF, CR or both."""

    VERSION: ClassVar[str] = "1.0"
    TASK_CLASS: ClassVar[str | None] = "org.apache.kafka.connect.file.FileStreamSourceTask"
    CONFIG: ClassVar[ConfigTable] = ConfigTable(
        ConfigKey("file", ConfigType.STRING, None, "The file to read; the standard input if not set.", Importance.HIGH),
        ConfigKey("topic", ConfigType.STRING, REQUIRED, "The topic to write to.", Importance.HIGH, validator=not_empty),
        ConfigKey(
            "batch.size",
            ConfigType.INT,
            2000,
            "Accepted; a batch takes as many polls of this many lines as fit into 32 MiB.",
            Importance.LOW,
        ),
    )
    _file: io.FileIO | None = None
    _position = 0
    _rest = b""
    _missed = False

    def partitions(self) -> Sequence[Mapping[str, Any]]:
        """Give the file."""
        return [{FILENAME: self.config["file"]}] if self.config["file"] else []

    def exactly_once_support(self) -> ExactlyOnceSupport:
        """Say that files are; what comes by the standard input comes once."""
        return ExactlyOnceSupport.SUPPORTED if self.config["file"] else ExactlyOnceSupport.UNSUPPORTED

    def check_offsets(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> None:
        """Refuse what no file of a connector's, this one or an earlier one, could be at; anything may be forgotten."""
        if not self.config["file"]:
            raise ConnectError("there are no offsets to alter: file is not set, so the standard input is read")
        for partition, offset in offsets:
            if offset is None:
                continue
            if not _is_position(offset.get(POSITION)):
                raise ConnectError(f"the offset of a file is its {POSITION} in bytes, from 0 on, or null, not {offset}")
            if FILENAME not in partition:
                raise ConnectError(f"the partition of a file's offset needs the key {FILENAME}, not {partition}")

    def open(self, spark: SparkSession, task: TaskContext, offsets: Sequence[Mapping[str, Any] | None]) -> None:
        """Take up the position; ConnectError when what is kept is none."""
        position = (offsets[0] or {}).get(POSITION, 0) if offsets else 0
        if not _is_position(position):
            raise ConnectError(f"the position kept for {self.config['file']!r} is {position!r}, want a number of bytes")
        self._position = position

    def poll(self, spark: SparkSession) -> Polled | None:
        """Give the lines that are whole by now."""
        if not self._opened():
            return None
        data = self._rest + self._read()
        end = _end_of_lines(data)
        if end == 0:
            self._rest = data
            return None
        self._rest = data[end:]
        self._position += end
        # One partition of Spark's keeps the order.
        lines = lines_of(data[:end])
        frame = spark.createDataFrame(pa.table({"value": lines})).coalesce(1)
        batch = frame.select(noted(col("value"), "value", Schema(Type.STRING)))
        kept = [({FILENAME: self.config["file"]}, {POSITION: self._position})] if self.config["file"] else []
        return Polled(batch, kept, len(lines))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _opened(self) -> bool:
        if self._file is not None:
            return True
        path = self.config["file"]
        try:
            self._file = io.FileIO(path) if path else io.FileIO(sys.stdin.fileno(), closefd=False)
        except FileNotFoundError:
            if not self._missed:
                log.warning("waiting for the file to be made", file=path)
                self._missed = True
            return False
        except OSError as error:
            raise ConnectError(f"cannot open {path!r}: {error.strerror}") from error
        if path:
            self._file.seek(self._position)
        return True

    def _read(self) -> bytes:
        assert self._file is not None
        if not self.config["file"] and not select.select([self._file], [], [], 0)[0]:
            return b""
        try:
            return self._file.read(CHUNK_BYTES) or b""
        except OSError as error:
            raise ConnectError(f"cannot read {self.config['file']!r}: {error.strerror}") from error


def _is_position(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _end_of_lines(data: bytes) -> int:
    """Give where the last whole line ends. A CR at the very end waits: an LF may follow."""
    return max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) + 1


def lines_of(data: bytes) -> pa.Array:
    """Give the lines of a text that ends with the end of one; what is no UTF-8 becomes U+FFFD."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    edges = np.concatenate(([0], ends + 1)).astype(np.int32)
    with_ends = pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(edges), pa.py_buffer(data)])
    lines = pc.binary_slice(with_ends, 0, -1)
    try:
        return lines.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([line.decode("utf-8", "replace") for line in lines.to_pylist()], pa.string())
