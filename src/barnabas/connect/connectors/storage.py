"""Folders that Spark can reach, from the driver: list, move, publish, by Hadoop's file systems in Spark's process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

_LOCAL: Final = "file"
_EXISTS: Final = "FileAlreadyExistsException"


class Storage:
    """A folder and what is below it. Names are relative to it, with `/`; errors are Py4JJavaError or OSError."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self._jvm: Any = _any(spark._jvm)
        jsession: Any = spark._jsparkSession
        self._conf: Any = jsession.sessionState().newHadoopConf()
        root_path = self._jvm.org.apache.hadoop.fs.Path(root)
        self._fs = root_path.getFileSystem(self._conf)
        self.root = str(self._fs.makeQualified(root_path).toString()).rstrip("/")
        self._local = self._fs.getUri().getScheme() == _LOCAL

    def uri(self, name: str) -> str:
        """Give what Spark takes as a path."""
        return f"{self.root}/{name}"

    def names(self, folder: str) -> list[str]:
        """Give the names of what is directly in a folder, in order; nothing when there is no such folder."""
        if not self._fs.exists(self._path(folder)):
            return []
        return sorted(str(each.getPath().getName()) for each in self._fs.listStatus(self._path(folder)))

    def files(self, folder: str) -> list[tuple[str, int]]:
        """Give name below the folder, and size in bytes, of every data file in it, at any depth."""
        prefix = f"{self.uri(folder)}/"
        found = []
        for path, size in self._walk(self._path(folder)):
            name = path.removeprefix(prefix)
            if not any(part.startswith(("_", ".")) for part in name.split("/")):
                found.append((name, size))
        return sorted(found)

    def read(self, name: str) -> str:
        """Give the text of a file."""
        stream = self._fs.open(self._path(name))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def publish(self, text: str, name: str, draft: str) -> bool:
        """Make a file appear, whole, if none of the name is there; say whether it was this one. draft: a free name."""
        try:
            self._write(text, draft)
        except Py4JJavaError:
            with suppress(Py4JJavaError):
                self.remove(draft)
            raise
        if self._local:
            return self._link(draft, name)
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._fs.getUri(), self._conf)
        try:
            context.rename(self._path(draft), self._path(name), self._overwrite_nothing())
        except Py4JJavaError as error:
            if _EXISTS in str(error.java_exception.getClass().getName()):
                self.remove(draft)
                return False
            raise
        return True

    def move(self, name: str, target: str) -> None:
        """Rename a file into a folder that is made if need be; nothing to do when it is there already."""
        source, goal = self._path(name), self._path(target)
        if not self._fs.exists(source):
            return
        self._fs.mkdirs(goal.getParent())
        if not self._fs.rename(source, goal) and not self._fs.exists(goal):
            raise OSError(f"cannot rename {self.uri(name)} to {self.uri(target)}")

    def flush(self, names: list[str]) -> None:
        """Have files reach the disk, where that is ours to say: other file systems do so when a file is closed."""
        if self._local:
            for name in names:
                _fsync(self._local_path(name))

    def remove(self, name: str) -> None:
        """Delete a file or a folder with all that is in it; nothing to do when it is not there."""
        self._fs.delete(self._path(name), True)

    def _write(self, text: str, name: str) -> None:
        stream = self._fs.create(self._path(name), True)
        try:
            stream.write(bytearray(text.encode()))
            stream.hsync()
        finally:
            stream.close()

    def _link(self, draft: str, name: str) -> bool:
        source, goal = self._local_path(draft), self._local_path(name)
        try:
            os.link(source, goal)
        except FileExistsError:
            return False
        finally:
            self.remove(draft)  # with the checksum that Hadoop has put beside it
        _fsync(os.path.dirname(goal))
        return True

    def _walk(self, folder: Any) -> Iterator[tuple[str, int]]:
        if not self._fs.exists(folder):
            return
        files = self._fs.listFiles(folder, True)
        while files.hasNext():
            status = files.next()
            yield str(status.getPath().toString()), int(status.getLen())

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.uri(name))

    def _overwrite_nothing(self) -> Any:
        """Give an empty array of rename's options."""
        gateway: Any = self._spark.sparkContext._gateway
        return gateway.new_array(self._jvm.org.apache.hadoop.fs.Options.Rename, 0)

    def _local_path(self, name: str) -> str:
        return str(self._path(name).toUri().getPath())


def _any(gateway: Any) -> Any:
    """Give the view of Java's classes, which has no types."""
    return gateway


def _fsync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
