"""A disk in memory, that can fail: errors on demand, a full volume, and crashes that lose what was not flushed.

Every file knows what its content was at its last fsync, every directory which names it had at its last. `crash` goes
back to that, and keeps an arbitrary part of what came after, as a real disk might: whole writes or none, the last
one perhaps in part.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

from barnabas.storage.fs import Buffer

Fault = Callable[[str, Path], OSError | None]
"""Asked before each operation, with its name and path; gives the error that it shall fail with, or None."""


def no_fault(operation: str, path: Path) -> OSError | None:
    """Let everything succeed."""
    return None


class _Node:
    __slots__ = ("content", "durable", "mtime_ms", "pending")

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = b""
        self.pending: list[tuple[int, bytes | None]] = []
        """Since the last fsync: (position, data) of writes, (size, None) of truncations."""
        self.mtime_ms = 0


class MemoryFile:
    """An open file of a `MemoryFileSystem`."""

    __slots__ = ("_fs", "_node", "_path")

    def __init__(self, fs: MemoryFileSystem, path: Path, node: _Node) -> None:
        self._fs = fs
        self._path = path
        self._node = node

    def pread(self, length: int, position: int) -> bytes:
        self._fs.check("pread", self._path)
        return bytes(self._node.content[position : position + length])

    def pwrite(self, data: Buffer, position: int) -> None:
        self._fs.check("pwrite", self._path)
        content, data = self._node.content, bytes(data)
        room = self._fs.take_room(max(0, position + len(data) - len(content)))
        if room is not None:
            data = data[: max(0, len(content) - position) + room]
        if len(content) < position:
            content.extend(bytes(position - len(content)))
        content[position : position + len(data)] = data
        self._node.pending.append((position, data))
        self._node.mtime_ms = self._fs.now_ms()
        if room is not None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))

    def fsync(self) -> None:
        self._fs.check("fsync", self._path)
        self._node.durable = bytes(self._node.content)
        self._node.pending.clear()

    def truncate(self, size: int) -> None:
        self._fs.check("truncate", self._path)
        content = self._node.content
        if size < len(content):
            del content[size:]
        else:
            content.extend(bytes(size - len(content)))
        self._node.pending.append((size, None))

    def size(self) -> int:
        return len(self._node.content)

    def fileno(self) -> int:
        return -1


class MemoryFileSystem:
    """See the module. fault: may be set at any time; capacity: bytes that the volume holds, None for no limit."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.now_ms = now_ms
        self.fault: Fault = no_fault
        self.capacity: int | None = None
        self._files: dict[Path, _Node] = {}
        self._dirs: set[Path] = {Path("/")}
        self._durable_files: dict[Path, _Node] = {}
        self._locked: set[Path] = set()

    def check(self, operation: str, path: Path) -> None:
        """Raise what the fault says for this operation."""
        error = self.fault(operation, path)
        if error is not None:
            raise error

    def take_room(self, growth: int) -> int | None:
        """Give how many of `growth` new bytes still fit, None when all do."""
        if self.capacity is None:
            return None
        used = sum(len(n.content) for n in self._files.values())
        room = max(0, self.capacity - used)
        return room if growth > room else None

    def _node(self, path: Path) -> _Node:
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return self._files[path]

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> MemoryFile:
        self.check("open", path)
        if create and path not in self._files:
            if path.parent not in self._dirs:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            self._files[path] = node = _Node()
            node.mtime_ms = self.now_ms()
        return MemoryFile(self, path, self._node(path))

    def exists(self, path: Path) -> bool:
        return path in self._files or path in self._dirs

    def is_dir(self, path: Path) -> bool:
        return path in self._dirs

    def listdir(self, path: Path) -> list[str]:
        self.check("listdir", path)
        if path not in self._dirs:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return sorted(p.name for p in (*self._files, *self._dirs) if p.parent == path and p != path)

    def make_dirs(self, path: Path) -> None:
        self.check("make_dirs", path)
        self._dirs.update((path, *path.parents))

    def rename(self, source: Path, target: Path) -> None:
        self.check("rename", source)
        if source in self._dirs:
            self._dirs = {_moved(p, source, target) for p in self._dirs}
            for files in (self._files, self._durable_files):
                moved = {_moved(p, source, target): n for p, n in files.items()}
                files.clear()
                files.update(moved)
            return
        self._files[target] = self._node(source)
        del self._files[source]

    def remove(self, path: Path) -> None:
        self.check("remove", path)
        self._files.pop(path, None)

    def remove_tree(self, path: Path) -> None:
        self.check("remove_tree", path)
        self._dirs = {p for p in self._dirs if p != path and path not in p.parents}
        for files in (self._files, self._durable_files):
            for p in [p for p in files if path in p.parents]:
                del files[p]

    def fsync_dir(self, path: Path) -> None:
        self.check("fsync_dir", path)
        for p in [p for p in self._durable_files if p.parent == path]:
            del self._durable_files[p]
        self._durable_files.update({p: n for p, n in self._files.items() if p.parent == path})

    def read_bytes(self, path: Path) -> bytes:
        self.check("read_bytes", path)
        return bytes(self._node(path).content)

    def write_durably(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(path.name + ".tmp")
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        file.fsync()
        self.rename(temporary, path)
        self.fsync_dir(path.parent)

    def write_soon(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(path.name + ".tmp")
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        self.rename(temporary, path)

    def size(self, path: Path) -> int:
        return len(self._node(path).content)

    def mtime_ms(self, path: Path) -> int:
        return self._node(path).mtime_ms

    def set_mtime_ms(self, path: Path, mtime_ms: int) -> None:
        self._node(path).mtime_ms = mtime_ms

    def disk_space(self, path: Path) -> tuple[int, int]:
        used = sum(len(n.content) for n in self._files.values())
        total = self.capacity if self.capacity is not None else 2**40
        return total, max(0, total - used)

    def lock(self, path: Path) -> Callable[[], None] | None:
        self.check("lock", path)
        if path in self._locked:
            return None
        self._locked.add(path)
        return lambda: self._locked.discard(path)

    def crash(self, rng: Random, *, keep_names: bool = True) -> None:
        """Lose power: a file keeps its last fsync and some of the writes since, the last one perhaps in part.

        keep_names: names survive that no fsync of their directory covers; else each of them does by chance.
        """
        self._locked.clear()
        self.fault = no_fault
        if not keep_names:
            names = dict(self._durable_files)
            for path, node in self._files.items():
                if path not in names and rng.random() < 0.5:
                    names[path] = node
            self._files = names
        for node in dict.fromkeys(self._files.values()):
            _lose_writes(node, rng)


def _lose_writes(node: _Node, rng: Random) -> None:
    content = bytearray(node.durable)
    kept = rng.randint(0, len(node.pending))
    for n, (position, data) in enumerate(node.pending[:kept]):
        if data is None:
            del content[position:]
            content.extend(bytes(position - len(content)))
            continue
        if n == kept - 1:
            data = data[: rng.randint(0, len(data))]
        if len(content) < position:
            content.extend(bytes(position - len(content)))
        content[position : position + len(data)] = data
    node.content = content
    node.durable = bytes(content)
    node.pending.clear()


def _moved(path: Path, source: Path, target: Path) -> Path:
    if path == source:
        return target
    return target / path.relative_to(source) if source in path.parents else path
