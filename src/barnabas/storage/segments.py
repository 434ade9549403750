"""The segments of a log, in order. Changes replace the whole list, so that a reader needs no lock."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator

from barnabas.storage.segment import Segment


class SegmentList:
    """Segments by base offset; the last one is the active one, which alone grows."""

    __slots__ = ("_bases", "_segments", "active")

    active: Segment

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._segments: tuple[Segment, ...] = ()
        self._bases: tuple[int, ...] = ()
        self._set(segments)

    def _set(self, segments: Iterable[Segment]) -> None:
        ordered = tuple(sorted(segments, key=lambda s: s.base_offset))
        self._bases = tuple(s.base_offset for s in ordered)
        self._segments = ordered
        if ordered:
            self.active = ordered[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, n: int) -> Segment:
        return self._segments[n]

    @property
    def base_offsets(self) -> tuple[int, ...]:
        return self._bases

    def replace(self, old: Collection[Segment], new: Iterable[Segment] = ()) -> None:
        """Take `old` out and `new` in, in one step."""
        gone = {id(s) for s in old}
        self._set([*(s for s in self._segments if id(s) not in gone), *new])

    def add(self, segment: Segment) -> None:
        """Take a segment in."""
        self._set([*self._segments, segment])

    def from_offset(self, offset: int) -> tuple[Segment, ...]:
        """Give the segment that holds `offset` and those after it."""
        segments, bases = self._segments, self._bases
        return segments[max(0, bisect_right(bases, offset) - 1) :]

    def between(self, start: int, end: int) -> tuple[Segment, ...]:
        """Give the segments that may hold offsets in [start, end)."""
        segments, bases = self._segments, self._bases
        if start >= end:
            return ()
        return segments[max(0, bisect_right(bases, start) - 1) : bisect_left(bases, end)]

    def after(self, segment: Segment) -> Segment | None:
        """Give the segment that follows, None after the active one."""
        at = bisect_right(self._bases, segment.base_offset)
        return self._segments[at] if at < len(self._segments) else None

    @property
    def size(self) -> int:
        return sum(s.size for s in self._segments)
