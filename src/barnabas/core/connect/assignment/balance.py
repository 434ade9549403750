"""Even shares where not every member can do everything: matching units to members, with as few moves as possible.

Units of work count the same. Loads are best when no chain of moves (a unit from the first member to the second, one of
the second's to the third, ...) ends at a member that has at least two less than where it began; then the sum of their
squares is the least that can be had, so that moving units once is enough and a group comes to rest (H-31).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

U = TypeVar("U")
Eligible = Callable[[U], frozenset[str]]
"""Gives the members that may have a unit; at least one."""


@dataclass(frozen=True, slots=True)
class Plan(Generic[U]):
    """placed: where the units that nobody has yet go; moved: units that are to leave the member that has them."""

    placed: Mapping[U, str]
    moved: Mapping[str, tuple[U, ...]]


class _Loads(Generic[U]):
    """Who has what while a plan is made. fixed: how much more each has that cannot be moved."""

    def __init__(self, members: Iterable[str], fixed: Mapping[str, int], eligible: Eligible[U]) -> None:
        self.rank = {member: n for n, member in enumerate(sorted(members, key=lambda m: (fixed.get(m, 0), m)))}
        self._fixed = fixed
        self._eligible = eligible
        # Units that the same members may have stand for each other: chains are looked for among these groups.
        self._groups: dict[str, dict[frozenset[str], dict[U, None]]] = {member: {} for member in self.rank}
        self._count = {member: fixed.get(member, 0) for member in self.rank}

    def put(self, unit: U, member: str) -> None:
        self._groups[member].setdefault(self._eligible(unit), {})[unit] = None
        self._count[member] += 1

    def load(self, member: str) -> int:
        return self._count[member]

    def where(self) -> dict[U, str]:
        return {unit: member for member, groups in self._groups.items() for group in groups.values() for unit in group}

    def place(self, unit: U) -> None:
        """Give a unit to the least loaded member that a chain of moves can make room at."""
        before = self._reach(sorted(self._eligible(unit), key=self.rank.__getitem__))
        end = min(before, key=self._by_load)
        self.put(unit, self._shift(before, end))

    def improve(self) -> bool:
        """Make one chain of moves that evens loads out; False when there is none."""
        for start in sorted(self.rank, key=self._by_load, reverse=True):
            before = self._reach([start])
            end = min(before, key=self._by_load)
            if self._count[start] - self._count[end] >= 2:
                self._shift(before, end)
                return True
        return False

    def _by_load(self, member: str) -> tuple[int, int]:
        return self._count[member], self.rank[member]

    def _reach(self, starts: Iterable[str]) -> dict[str, tuple[str, frozenset[str]] | None]:
        """Give each member that can be reached, with the one before it and what is moved from there."""
        before: dict[str, tuple[str, frozenset[str]] | None] = dict.fromkeys(starts)
        queue = list(before)
        for member in queue:
            if len(before) == len(self.rank):
                break
            for group, units in self._groups[member].items():
                for other in sorted(group, key=self.rank.__getitem__) if units else ():
                    if other not in before:
                        before[other] = (member, group)
                        queue.append(other)
        return before

    def _shift(self, before: Mapping[str, tuple[str, frozenset[str]] | None], end: str) -> str:
        """Move one unit along each step of the chain that ends at `end`; give where it began."""
        while (step := before[end]) is not None:
            start, group = step
            unit = next(iter(self._groups[start][group]))
            del self._groups[start][group][unit]
            self._count[start] -= 1
            self.put(unit, end)
            end = start
        return end


def place(free: Iterable[U], held: Mapping[str, int], eligible: Eligible[U]) -> dict[U, str]:
    """Give where units go that nobody has, while everybody keeps what they have.

    held: how many units each member has. The least loaded first; among equals those that began with less, then by id.
    """
    loads: _Loads[U] = _Loads(held, held, eligible)
    for unit in free:
        loads.place(unit)
    return loads.where()


def plan(free: Iterable[U], held: Mapping[str, Iterable[U]], eligible: Eligible[U]) -> Plan[U]:
    """Give where units go that nobody has, and what has to move so that all shares are as even as can be.

    What a member has and may not have moves as well.
    """
    loads: _Loads[U] = _Loads(held, {}, eligible)
    strays = []
    for member, units in held.items():
        for unit in units:
            if member in eligible(unit):
                loads.put(unit, member)
            else:
                strays.append(unit)
    free = list(free)
    for unit in [*strays, *free]:
        loads.place(unit)
    while loads.improve():
        pass
    where = loads.where()
    moved = {member: tuple(unit for unit in units if where[unit] != member) for member, units in held.items()}
    return Plan({unit: where[unit] for unit in free}, {member: units for member, units in moved.items() if units})
