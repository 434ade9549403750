"""Values that the log sets at offsets, so that a truncation takes them back: voter sets, kraft.version."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class At(NamedTuple, Generic[T]):
    """A value and the offset of the record that set it; -1: it never stood in the log."""

    offset: int
    value: T


class History(Generic[T]):
    """Values by the offset from which they hold; offsets only grow, but for `truncate_to`."""

    def __init__(self, initial: T) -> None:
        self._initial = initial
        self._entries: list[At[T]] = []

    @property
    def last(self) -> At[T]:
        """The newest value, committed or not: a voter set holds from its record on."""
        return self._entries[-1] if self._entries else At(-1, self._initial)

    def at(self, offset: int) -> T:
        """Give the value as of the record at `offset`, that one included."""
        value = self._initial
        for entry in self._entries:
            if entry.offset > offset:
                break
            value = entry.value
        return value

    def add(self, offset: int, value: T) -> None:
        """Note that the record at `offset` sets `value`; the same offset again takes the newer one."""
        if self._entries and offset < self._entries[-1].offset:
            raise ValueError(f"offset {offset} comes before {self._entries[-1].offset}")
        if self._entries and offset == self._entries[-1].offset:
            self._entries.pop()
        self._entries.append(At(offset, value))

    def clear(self) -> None:
        """Forget everything but the initial value."""
        self._entries.clear()

    def truncate_to(self, end_offset: int) -> None:
        """Forget what records at `end_offset` and later set."""
        while self._entries and self._entries[-1].offset >= end_offset:
            self._entries.pop()

    def trim_to(self, start_offset: int) -> None:
        """Forget what no longer matters once the log starts at `start_offset`; the value in force there stays."""
        while len(self._entries) > 1 and self._entries[1].offset <= start_offset:
            self._entries.pop(0)
