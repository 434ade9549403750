"""What a coordinator's partition is to its shell: a machine whose hard state is an image that replay alone changes."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol, TypeVar

from barnabas.core.coordinators.step import Now, Step
from barnabas.wire.coordinator_records import CoordinatorRecord

I = TypeVar("I")  # noqa: E741

NO_PRODUCER: Final = -1


class At(NamedTuple):
    """Where a record stands. now_ms is what is counted from when the record creates something only by naming it.

    producer_id: whose transaction the record is part of, NO_PRODUCER when it counts at once.
    """

    offset: int
    producer_id: int = NO_PRODUCER
    now_ms: int = 0


class Shard(Protocol[I]):
    """One partition of a coordinator's topic: requests, deadlines and log records in, `Step`s out."""

    image: I

    def replay(self, record: CoordinatorRecord, at: At) -> bool:
        """Take one record in; False for kinds that this release does not serve: they stay in the log."""
        ...

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Take a transaction's marker in."""
        ...

    def loaded(self, now: Now) -> Step[None]:
        """Begin to serve."""
        ...

    def unload(self, now: Now) -> Step[None]:
        """Stop serving: everybody who waits is sent away."""
        ...

    def next_deadline_ms(self) -> int | None:
        """Give when, on the monotonic clock, `tick` has something to do next."""
        ...

    def tick(self, now: Now) -> Step[None] | None:
        """Do the one most overdue thing, or give None when nothing is due. Call until None."""
        ...

    def held(self) -> int:
        """Give how many groups or transactional ids there are."""
        ...
