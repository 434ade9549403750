"""The role of a replica that stands for an epoch: it votes for itself and counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.voters import Endpoints, ReplicaKey
from barnabas.core.raft.votes import Votes


@dataclass(slots=True)
class Candidate:
    """Stands for `epoch`. votes: its own counts once it is on disk."""

    epoch: int
    key: ReplicaKey
    votes: Votes
    deadline_ms: int

    leader_id: None = field(default=None, init=False, repr=False)
    leader_endpoints: Endpoints = field(default=(), init=False, repr=False)

    def election(self) -> ElectionState:
        """Give what the disk must hold while in this role."""
        return ElectionState(self.epoch, voted=self.key)

    def grants(self, key: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Say whether it would vote for `key`; its vote in this epoch is gone."""
        return pre_vote and up_to_date
