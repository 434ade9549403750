"""What clients did and were told during a chaos run: only facts, taken down by many threads at once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

_FIELDS: Final = 2


class Mark(NamedTuple):
    """What a record of a run says of itself: who wrote it, and the how manieth of that writer's in its partition."""

    writer: str
    number: int

    def encode(self) -> bytes:
        """Give the record's value."""
        return f"{self.writer} {self.number}".encode()

    @classmethod
    def decode(cls, value: bytes) -> Mark:
        """Give what a value says; ValueError when it is no mark."""
        parts = value.decode().split(" ")
        if len(parts) != _FIELDS:
            raise ValueError(f"{value!r} is none of ours")
        return cls(parts[0], int(parts[1]))


class Acknowledged(NamedTuple):
    """A record that a writer was told is written. offset: -1 when the answer did not say. at: seconds of the run."""

    partition: int
    mark: Mark
    offset: int
    at: float


class Consumed(NamedTuple):
    """A record that a member of a group was given."""

    group: str
    member: str
    partition: int
    offset: int
    mark: Mark


class Committed(NamedTuple):
    """An offset that a group's coordinator said is committed."""

    group: str
    partition: int
    offset: int


class TakenOver(NamedTuple):
    """Where a member began to read a partition that was newly its own. committed: the highest offset that had been
    acknowledged as committed before the member was given the partition."""

    group: str
    member: str
    partition: int
    offset: int
    committed: int


@dataclass(slots=True)
class Item:
    """Something that admins change: what it may be, by what they were told. None: it is not there."""

    allowed: set[str | None] = field(default_factory=lambda: {None})
    _unsure: set[str | None] = field(default_factory=set)

    def acknowledged(self, value: str | None) -> None:
        """A change is done. What nobody can say of earlier ones stays open: they may even come after this one."""
        self.allowed = {value} | self._unsure

    def unsure(self, value: str | None) -> None:
        """A change was asked for, and nobody knows what became of it."""
        self._unsure.add(value)
        self.allowed.add(value)


class History:
    """The facts of one run. Lists are only appended to, so that any thread may."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self.acknowledged: list[Acknowledged] = []
        self.failed: list[tuple[int, Mark, str]] = []
        self.consumed: list[Consumed] = []
        self.committed: list[Committed] = []
        self.taken_over: list[TakenOver] = []
        self.items: dict[tuple[str, str], Item] = {}
        """By kind (topic, config, ...) and name."""
        self.changes = 0
        """Admin changes that were acknowledged."""
        self.refused: list[str] = []
        """Requests that an application saw fail, though its library had tried again where that makes sense."""
        self.errors: Counter[str] = Counter()
        """What clients were told that was no success, by client and error."""
        self.surprises: list[str] = []
        """What must not happen and showed itself at once."""
        self._highest: dict[tuple[str, int], int] = {}
        self._lock = threading.Lock()

    def now(self) -> float:
        """Give the seconds since the run began."""
        return time.monotonic() - self._begun

    def item(self, kind: str, name: str) -> Item:
        """Give the item of that name."""
        return self.items.setdefault((kind, name), Item())

    def highest_commit(self, group: str, partition: int) -> int:
        """Give the highest offset acknowledged as committed so far, -1 for none."""
        return self._highest.get((group, partition), -1)

    def highest_commits(self, group: str) -> dict[int, int]:
        """Give that for every partition that has one."""
        with self._lock:
            return {partition: offset for (g, partition), offset in self._highest.items() if g == group}

    def commit(self, group: str, partition: int, offset: int) -> None:
        """Take down an acknowledged commit."""
        with self._lock:
            self.committed.append(Committed(group, partition, offset))
            self._highest[group, partition] = max(offset, self.highest_commit(group, partition))

    def refuse(self, client: str, what: str) -> None:
        """Take down that a client's application saw a request fail."""
        self.refused.append(f"{client}: {what}, {self.now():.1f} s into the run")
        self.error(client, what)

    def error(self, client: str, what: str) -> None:
        """Take down that a client was told of an error."""
        with self._lock:
            self.errors[f"{client}: {what}"] += 1
