"""The disk as a port: the few calls that storage makes, and the operating system behind them.

`memory_fs` holds the twin for tests. Every failure is an `OSError`; who holds a log directory decides what it means.
A file stays readable for as long as somebody holds its handle, also after it was renamed or deleted.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """An open file, read and written at positions; closed when nobody holds it any more."""

    def pread(self, length: int, position: int) -> bytes:
        """Give up to `length` bytes from `position`; fewer only where the file ends."""
        ...

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of `data` at `position`, in one system call where the kernel takes it whole."""
        ...

    def fsync(self) -> None: ...

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def fileno(self) -> int:
        """Give the descriptor for sendfile and preadv; -1 when there is none (memory)."""
        ...


class FileSystem(Protocol):
    """What storage needs of a file system. Paths are absolute or relative to the process."""

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> File:
        """Open a file; FileNotFoundError when it is not there and `create` is false."""
        ...

    def exists(self, path: Path) -> bool: ...

    def is_dir(self, path: Path) -> bool: ...

    def listdir(self, path: Path) -> list[str]:
        """Give the names in a directory, sorted."""
        ...

    def make_dirs(self, path: Path) -> None: ...

    def rename(self, source: Path, target: Path) -> None:
        """Rename in one step, over `target` if it is there."""
        ...

    def remove(self, path: Path) -> None:
        """Delete a file; nothing happens when it is not there."""
        ...

    def remove_tree(self, path: Path) -> None: ...

    def fsync_dir(self, path: Path) -> None:
        """Make creations, renames and deletions in a directory durable."""
        ...

    def read_bytes(self, path: Path) -> bytes: ...

    def write_durably(self, path: Path, data: bytes) -> None:
        """Replace a file's content so that after a crash it is the old or the new one, whole."""
        ...

    def write_soon(self, path: Path, data: bytes) -> None:
        """Replace a file's content at once for readers; durable when the file and its directory are synced next."""
        ...

    def size(self, path: Path) -> int: ...

    def mtime_ms(self, path: Path) -> int: ...

    def set_mtime_ms(self, path: Path, mtime_ms: int) -> None: ...

    def disk_space(self, path: Path) -> tuple[int, int]:
        """Give the volume's size and the bytes that are still usable by us."""
        ...

    def lock(self, path: Path) -> Callable[[], None] | None:
        """Take the lock file for this process; give what releases it, or None when somebody else has it."""
        ...


class OsFile:
    """A descriptor of the operating system; closed when the last holder drops it."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def pread(self, length: int, position: int) -> bytes:
        data = os.pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        parts, got = [data], len(data)
        while got < length and (data := os.pread(self._fd, length - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def pwrite(self, data: Buffer, position: int) -> None:
        view = memoryview(data)
        written = os.pwrite(self._fd, view, position)
        while written < len(view):
            written += os.pwrite(self._fd, view[written:], position + written)

    def fsync(self) -> None:
        os.fsync(self._fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def fileno(self) -> int:
        return self._fd

    def __del__(self) -> None:
        os.close(self._fd)


_locked_here: Final[set[str]] = set()
"""Lock files this process holds: the kernel's record locks do not keep a process out of its own."""


class OsFileSystem:
    """The operating system's files."""

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> OsFile:
        flags = (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OsFile(os.open(path, flags, 0o644))

    def exists(self, path: Path) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: Path) -> bool:
        return os.path.isdir(path)

    def listdir(self, path: Path) -> list[str]:
        return sorted(os.listdir(path))

    def make_dirs(self, path: Path) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def remove_tree(self, path: Path) -> None:
        shutil.rmtree(path)

    def fsync_dir(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read_bytes(self, path: Path) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            while data := os.read(fd, max(1, os.fstat(fd).st_size)):
                parts.append(data)
            return b"".join(parts)
        finally:
            os.close(fd)

    def write_durably(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(path.name + ".tmp")
        with open(temporary, "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)
        self.fsync_dir(path.parent)

    def write_soon(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_bytes(data)
        os.replace(temporary, path)

    def size(self, path: Path) -> int:
        return os.stat(path).st_size

    def mtime_ms(self, path: Path) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_mtime_ms(self, path: Path, mtime_ms: int) -> None:
        os.utime(path, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))

    def disk_space(self, path: Path) -> tuple[int, int]:
        stat = os.statvfs(path)
        return stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize

    def lock(self, path: Path) -> Callable[[], None] | None:
        # POSIX record locks are what Java takes, so that a Kafka process and ours keep each other out.
        key = os.path.realpath(path)
        if key in _locked_here:
            return None
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return None
        _locked_here.add(key)

        def release() -> None:
            if key in _locked_here:
                _locked_here.discard(key)
                os.close(fd)

        return release
