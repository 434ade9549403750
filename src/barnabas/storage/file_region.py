"""A stretch of a file that stands for its bytes: what a fetch answers with, unread until it is sent."""

from __future__ import annotations

from barnabas.storage.fs import File


class FileRegion:
    """`length` bytes of a file from `position`. Holds the file open, also when its segment is deleted meanwhile."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: File | None, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def fileno(self) -> int:
        """Give the descriptor to send from; -1 when the bytes are not in a kernel's file (use `read`)."""
        return -1 if self.file is None else self.file.fileno()

    def read(self) -> bytes:
        """Give the bytes; fewer than `length` only when the file was cut meanwhile."""
        if self.file is None or not self.length:
            return b""
        return self.file.pread(self.length, self.position)

    def split(self, at: int) -> tuple[FileRegion, FileRegion]:
        """Give the first `at` bytes and the rest as two regions."""
        return (
            FileRegion(self.file, self.position, at),
            FileRegion(self.file, self.position + at, self.length - at),
        )

    def __repr__(self) -> str:
        return f"FileRegion(fd={self.fileno()}, position={self.position}, length={self.length})"


EMPTY_REGION = FileRegion(None, 0, 0)
