"""What the core hands its driver, in the order in which it must be done.

1. `election` and `entries` go to disk, durably, election first. 2. What is committed is acted on: `high_watermark`,
`leadership`. 3. `advance` tells the core, which may then have more to do.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.core.raft.election import ElectionState


@dataclass(frozen=True, slots=True)
class Entry:
    """One record batch, encoded, offsets and leader epoch set. count: its records."""

    base_offset: int
    epoch: int
    count: int
    data: bytes

    @property
    def end_offset(self) -> int:
        """The offset after its last record."""
        return self.base_offset + self.count


@dataclass(frozen=True, slots=True)
class Leadership:
    """This replica leads the epoch, and everything before `start_offset` is committed and known to it."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class Ready:
    """A step for the driver; `election` comes with the kraft.version and voters that its file form needs."""

    election: ElectionState | None = None
    kraft_version: int = 0
    voter_ids: tuple[int, ...] = ()
    entries: tuple[Entry, ...] = ()
    high_watermark: int | None = None
    leadership: Leadership | None = None

    @property
    def must_save(self) -> bool:
        """Say whether anything has to reach the disk."""
        return self.election is not None or bool(self.entries)


@dataclass(frozen=True, slots=True)
class Proposal:
    """Where proposed records stand, if they are ever committed: [base_offset, end_offset) of this epoch."""

    base_offset: int
    end_offset: int
    epoch: int


class NotLeaderError(Exception):
    """This replica does not lead, so it takes no proposals."""


class BatchTooLargeError(Exception):
    """Records that must stand in one batch are more than a batch may hold."""
