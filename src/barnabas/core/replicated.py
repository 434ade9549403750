"""Replicated state: decide on a frozen state, append the records, replay them, answer when they are committed.

The one runtime shape of the controller and of the group coordinator (design D5). A decision is a pure function of
the newest state; it changes nothing. Only `replay` makes a new state out of an old one and a record. The shell that
owns the log runs, for each request::

    decision = decide(replicated.newest)
    last_offset = log.append(decision.records)                     # when there are any
    replicated.appended(last_offset, table.replay_all(replicated.newest, decision.records))
    if not replicated.wait((future, decision.response)):           # what it saw is committed already
        answer at once

and later `commit(offset)`, which gives those to answer, or `roll_back()`, which forgets what was never committed and
gives those to refuse (NOT_CONTROLLER, NOT_COORDINATOR). States are frozen values with persistent maps, so keeping
one for every batch in flight costs little, and going back is taking an older one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")
F = TypeVar("F", bound=Callable[..., Any])


class VersionedRecord(NamedTuple):
    """A record and the version in which it is to be written; record: one of `barnabas.wire.records`."""

    record: Any
    version: int


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """What is to be appended, and what to answer once that is committed.

    atomic: the records take effect together: one batch, or a metadata transaction around several.
    """

    records: tuple[VersionedRecord, ...]
    response: R
    atomic: bool = True


def answer(response: R) -> Decision[R]:
    """Give the decision that changes nothing: only an answer."""
    return Decision((), response)


_MARK: Final = "replays"


def replays(subject: type) -> Callable[[F], F]:
    """Mark a function as the replay of one class of record (or of coordinator key). Only a mark: list it in a table."""

    def mark(function: F) -> F:
        function.__dict__[_MARK] = subject
        return function

    return mark


def replayed_by(function: Callable[..., Any]) -> type | None:
    """Give the class that the function is marked to replay, None when it is not marked."""
    subject: type | None = function.__dict__.get(_MARK)
    return subject


class ReplayError(Exception):
    """A record that does not fit the state: the log is damaged, or was written by something that is not Kafka."""


class UnknownRecordError(ReplayError):
    """A record without a replay: this software is older than the log, and going on would corrupt the state."""


class ReplayTable(Generic[S]):
    """Which function replays which class: an explicit tuple of marked functions `(state, record, *rest) -> state`."""

    __slots__ = ("_by_type",)

    def __init__(self, functions: Iterable[Callable[..., S]]) -> None:
        self._by_type: dict[type, Callable[..., S]] = {}
        for function in functions:
            subject = replayed_by(function)
            if subject is None:
                raise ValueError(f"{function.__qualname__} is in a replay table but not marked with @replays(...)")
            if subject in self._by_type:
                raise ValueError(f"two functions replay {subject.__name__}: keep one")
            self._by_type[subject] = function

    def __contains__(self, subject: type) -> bool:
        return subject in self._by_type

    def types(self) -> frozenset[type]:
        """Give the classes that the table knows."""
        return frozenset(self._by_type)

    def replay(self, state: S, subject: Any, *rest: Any) -> S:
        """Give the state after one record; UnknownRecordError when nothing replays its class."""
        function = self._by_type.get(type(subject))
        if function is None:
            raise UnknownRecordError(f"no replay for {type(subject).__name__}: the log needs newer software")
        return function(state, subject, *rest)

    def replay_all(self, state: S, records: Iterable[VersionedRecord]) -> S:
        """Give the state after all the records, in their order."""
        for record in records:
            state = self.replay(state, record.record)
        return state


class OffsetWaiters(Generic[W]):
    """Answers that wait until an offset is committed, oldest first."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, W]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: int, waiter: W) -> None:
        """Let the waiter wait for the record at `offset`; offsets never go back, else ValueError."""
        if self._waiting and offset < self._waiting[-1][0]:
            raise ValueError(f"cannot wait for {offset} after {self._waiting[-1][0]}: offsets only grow")
        self._waiting.append((offset, waiter))

    def complete_up_to(self, offset: int) -> list[W]:
        """Give, and forget, those whose record is committed, `offset` being the last that is."""
        done: list[W] = []
        while self._waiting and self._waiting[0][0] <= offset:
            done.append(self._waiting.popleft()[1])
        return done

    def fail_all(self) -> list[W]:
        """Give, and forget, all: their records may never be committed."""
        failed = [waiter for _, waiter in self._waiting]
        self._waiting.clear()
        return failed


class Replicated(Generic[S, W]):
    """A state on its log: the newest, the committed, what lies between, and the answers that wait.

    Offsets are those of the last record that a state includes; -1 before the first.
    """

    __slots__ = ("_in_flight", "_waiters", "committed", "committed_offset", "newest", "newest_offset")

    def __init__(self, state: S, offset: int = -1) -> None:
        self.newest = state
        self.newest_offset = offset
        self.committed = state
        self.committed_offset = offset
        self._in_flight: deque[tuple[int, S]] = deque()
        self._waiters: OffsetWaiters[W] = OffsetWaiters()

    def appended(self, last_offset: int, state: S) -> None:
        """Take the state that includes the record at `last_offset`, which is in the log but not yet committed."""
        if last_offset <= self.newest_offset:
            raise ValueError(f"appended {last_offset} after {self.newest_offset}: offsets only grow")
        self._in_flight.append((last_offset, state))
        self.newest, self.newest_offset = state, last_offset

    def wait(self, waiter: W) -> bool:
        """Let an answer that saw the newest state wait for it; False, nothing kept, when that is committed already."""
        if self.newest_offset <= self.committed_offset:
            return False
        self._waiters.add(self.newest_offset, waiter)
        return True

    def commit(self, offset: int) -> list[W]:
        """Note that all up to `offset` is committed; gives those who can be answered now, oldest first."""
        while self._in_flight and self._in_flight[0][0] <= offset:
            self.committed_offset, self.committed = self._in_flight.popleft()
        return self._waiters.complete_up_to(offset)

    def roll_back(self) -> list[W]:
        """Go back to the committed state; gives those who must be refused, oldest first."""
        self._in_flight.clear()
        self.newest, self.newest_offset = self.committed, self.committed_offset
        return self._waiters.fail_all()

    def reset(self, state: S, offset: int) -> list[W]:
        """Take a committed state from elsewhere (a snapshot, the log's loader); gives those who must be refused."""
        refused = self.roll_back()
        self.newest = self.committed = state
        self.newest_offset = self.committed_offset = offset
        return refused
