"""A node's disk that a test fills up."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from barnabas.storage.fs import Buffer, OsFile, OsFileSystem


class Disk(OsFileSystem):
    """The real files, on a disk that is full from `fill` to `free`: then nothing can be written, as with ENOSPC."""

    def __init__(self) -> None:
        self._full = False

    def fill(self) -> None:
        """Leave no room."""
        self._full = True

    def free(self) -> None:
        """Make room again."""
        self._full = False

    def check(self, path: str) -> None:
        """Fail when there is no room."""
        if self._full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> OsFile:
        """Open a file; one that is not there needs room."""
        if create and not path.exists():
            self.check(str(path))
        flags = (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return _File(os.open(path, flags, 0o644), self, str(path))

    def make_dirs(self, path: Path) -> None:
        """Make a directory; one that is not there needs room."""
        if not path.exists():
            self.check(str(path))
        super().make_dirs(path)

    def write_durably(self, path: Path, data: bytes) -> None:
        """Replace a file's content, which needs room."""
        self.check(str(path))
        super().write_durably(path, data)

    def write_soon(self, path: Path, data: bytes) -> None:
        """Replace a file's content, which needs room."""
        self.check(str(path))
        super().write_soon(path, data)

    def disk_space(self, path: Path) -> tuple[int, int]:
        """Give the volume's size and what is usable of it."""
        size, usable = super().disk_space(path)
        return size, 0 if self._full else usable


class _File(OsFile):
    __slots__ = ("_disk", "_path")

    def __init__(self, fd: int, disk: Disk, path: str) -> None:
        super().__init__(fd)
        self._disk, self._path = disk, path

    def pwrite(self, data: Buffer, position: int) -> None:
        self._disk.check(self._path)
        super().pwrite(data, position)
