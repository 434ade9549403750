"""What one turn of a coordinator's shard asks of its shell: records to append, responses to send, what to resume.

A turn never waits. A response is one of two kinds. The turn's own `response` answers the request that was
asked and is sent when the turn's records (and all before them) are committed. `replies` release requests
that were parked in an earlier turn, and are sent at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from barnabas.wire.coordinator_records import CoordinatorRecord
from barnabas.wire.errors import ErrorCode

R_co = TypeVar("R_co", covariant=True)


class Producer(NamedTuple):
    """In whose transaction records are written."""

    producer_id: int
    epoch: int


class Now(NamedTuple):
    """An instant on both clocks: the wall's goes into records, deadlines count on the other."""

    wall_ms: int
    monotonic_ms: int


@dataclass(frozen=True, slots=True)
class Reply:
    """A parked request's response; waiter is what the shell handed in with that request."""

    waiter: object
    response: object


class Step(NamedTuple, Generic[R_co]):
    """The outcome of one turn.

    response: None when the request is parked, or when nobody asked.
    replay: whether the records still have to be replayed into the shard; False when the live group already
    moved on and the record only describes it. atomic: whether the records must be one batch.
    resume: called with NONE once the records are committed, or with the error that kept them out of the log.
    producer: whose transaction the records are part of; they are a batch of their own then.
    """

    records: tuple[CoordinatorRecord, ...] = ()
    response: R_co | None = None
    replies: tuple[Reply, ...] = ()
    replay: bool = True
    atomic: bool = True
    resume: Callable[[ErrorCode, Now], Step[None]] | None = None
    producer: Producer | None = None


@dataclass(slots=True)
class Turn:
    """Collects what one turn does, all of it at the same instant."""

    now: Now
    records: list[CoordinatorRecord] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    resume: Callable[[ErrorCode, Now], Step[None]] | None = None

    def reply(self, waiter: object, response: object) -> None:
        """Release a parked request."""
        self.replies.append(Reply(waiter, response))

    def store(self, record: CoordinatorRecord, resume: Callable[[ErrorCode, Now], Step[None]]) -> None:
        """Append a record that describes the live group, and go on with `resume` when that is settled."""
        self.records.append(record)
        self.resume = resume

    def step(self, response: R_co | None = None) -> Step[R_co]:
        """Close a turn of the classic protocol: its records describe what already is, so none is replayed."""
        return Step(tuple(self.records), response, tuple(self.replies), replay=False, resume=self.resume)
