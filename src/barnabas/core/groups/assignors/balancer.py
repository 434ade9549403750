"""Who of a topic's subscribers is next to get a partition, and who is next to give one up."""

from __future__ import annotations

from collections.abc import Sequence


class Balancer:
    """The subscribers of one topic by how much they have: two ranges that walk towards each other.

    The least loaded ones form a range from the left; it grows to the right as they fill up to their
    neighbours' level. The most loaded ones form one from the right; it grows to the left as they empty.
    `sizes` (partitions of each member, by index) is the caller's, who counts every partition given there;
    members not reached yet are read from it.
    """

    __slots__ = (
        "_high",
        "_high_end",
        "_high_level",
        "_high_start",
        "_low",
        "_low_end",
        "_low_level",
        "_order",
        "_sizes",
    )

    def __init__(self, sizes: list[int], subscribers: Sequence[int]) -> None:
        """Begin with these subscribers: at least one, their indices ascending."""
        self._sizes = sizes
        self._order = sorted(subscribers, key=sizes.__getitem__)
        self._low = 0
        self._low_end = 0
        self._low_level = sizes[self._order[0]] - 1
        self._high = len(self._order) - 1
        self._high_start = self._high_end = len(self._order)
        self._high_level = sizes[self._order[-1]] + 1

    @property
    def balanced(self) -> bool:
        """Say whether the levels of the two ranges differ by one at most."""
        return self._high_level - self._low_level <= 1

    def next_to_get(self) -> int:
        """Give the member that the next partition goes to, and count on its going there."""
        if self._low >= self._low_end:
            self._low_level += 1
            while self._low_end < len(self._order) and self._size_at(self._low_end) == self._low_level:
                self._low_end += 1
            self._low = 0
        member = self._order[self._low]
        self._low += 1
        return member

    def next_to_give(self) -> int | None:
        """Give the member that shall lose a partition next, None when nobody is left; count on its losing one."""
        if self._high < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                # all of the range were excluded: go on from whoever stands left of it, at any level
                self._high_level = self._size_at(self._high_start - 1)
            else:
                self._high_level -= 1
            while self._high_start > 0 and self._size_at(self._high_start - 1) == self._high_level:
                self._high_start -= 1
            self._high = self._high_end - 1
        if self._high < 0:
            return None
        member = self._order[self._high]
        self._high -= 1
        return member

    def exclude(self) -> None:
        """Leave out the member that `next_to_give` named last, as it has nothing of this topic to give."""
        order, at, last = self._order, self._high + 1, self._high_end - 1
        order[at], order[last] = order[last], order[at]
        self._high_end -= 1

    def _size_at(self, position: int) -> int:
        return self._sizes[self._order[position]]
