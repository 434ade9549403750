"""What a partition's leader knows of one follower: how far it has fetched, and when it last had everything (KIP-16)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNKNOWN_OFFSET: Final = -1
NEVER: Final = -(1 << 62)
"""A moment so long ago that no lag is that long."""
NO_BROKER_EPOCH: Final = -1
"""The epoch that a follower names when it does not know its own: it is not checked (KIP-841)."""


@dataclass(slots=True)
class Follower:
    """A follower's progress. Times are milliseconds of the leader's monotonic clock.

    log_end_offset: where it fetches next, so all before is in its log; leader_end_offset: where the leader's log ended
    at its last fetch; broker_epoch: of the registration that fetched last, None before the first fetch.
    """

    broker_id: int
    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    leader_end_offset: int = UNKNOWN_OFFSET
    last_fetch_ms: int = NEVER
    last_caught_up_ms: int = NEVER
    broker_epoch: int | None = None

    def fetched(self, offset: int, start_offset: int, broker_epoch: int, leader_end: int, now_ms: int) -> None:
        """Note a fetch from `offset`, made while the leader's log ended at `leader_end`.

        A follower that always fetches what was there at its fetch before is caught up as of that one: otherwise small
        and frequent writes would keep it behind for ever.
        """
        if offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = offset
        self.log_start_offset = start_offset
        self.leader_end_offset = max(leader_end, self.leader_end_offset)
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch

    def fetched_nothing_new(self, at_ms: int) -> None:
        """Note that until `at_ms` it went on fetching from the leader's end, where nothing was added meanwhile."""
        self.last_fetch_ms = max(self.last_fetch_ms, at_ms)
        self.last_caught_up_ms = max(self.last_caught_up_ms, at_ms)

    def is_caught_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        """Say whether it has everything, or had within the last `max_lag_ms`."""
        return self.log_end_offset == leader_end or now_ms - self.last_caught_up_ms <= max_lag_ms

    def begin_epoch(self, leader_end: int, now_ms: int, *, in_sync: bool, same_leader: bool) -> None:
        """Take note of a new leader epoch. A leader that goes on (`same_leader`) keeps what it knows of positions.

        In-sync followers get the full lag time to fetch; the others must not hold the high watermark back.
        """
        moment = now_ms if in_sync else NEVER
        self.last_caught_up_ms = moment
        if same_leader:
            self.leader_end_offset, self.last_fetch_ms = leader_end, moment
        else:
            self.log_end_offset = self.log_start_offset = self.leader_end_offset = UNKNOWN_OFFSET
            self.last_fetch_ms = NEVER
            self.broker_epoch = None
