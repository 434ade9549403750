"""How far a replica's log is known to reach, and when it last fetched: what the leader notes of each."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.core.raft.voters import Endpoints, ReplicaKey
from barnabas.model.uuid import ZERO_UUID


@dataclass(slots=True)
class Progress:
    """end: None before the first fetch; times: wall clock ms, -1 for never.

    leader_end: where the leader's log ended at the last fetch; endpoints: of a voter.
    """

    key: ReplicaKey
    endpoints: Endpoints = ()
    end: int | None = None
    fetched_ms: int = -1
    caught_up_ms: int = -1
    leader_end: int = -1

    def is_of(self, key: ReplicaKey) -> bool:
        """Say whether `key` is this replica; one whose directory is not known is told by its node id alone."""
        return self.key.node_id == key.node_id and self.key.directory_id in (ZERO_UUID, key.directory_id)

    def fetched(self, offset: int, leader_end: int | None, now_ms: int) -> None:
        """Take note of a fetch from `offset` on, while the leader's log ends at `leader_end`."""
        if leader_end is not None:
            if offset >= leader_end:
                self.caught_up_ms = max(self.caught_up_ms, now_ms)
            elif 0 < self.leader_end <= offset:
                # It has what there was at its last fetch: then, it had caught up.
                self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
            self.leader_end = leader_end
        self.fetched_ms = max(self.fetched_ms, now_ms)
        self.end = offset
