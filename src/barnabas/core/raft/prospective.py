"""The role of a replica that asks whether it would be elected before it disturbs the epoch (pre-vote, KIP-996)."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.voters import Endpoints, ReplicaKey
from barnabas.core.raft.votes import Votes, may_vote


@dataclass(slots=True)
class Prospective:
    """Stays in `epoch`, with its leader and vote, and goes back to them when too few would vote for it."""

    epoch: int
    leader_id: int | None
    leader_endpoints: Endpoints
    voted: ReplicaKey | None
    votes: Votes
    deadline_ms: int

    def election(self) -> ElectionState:
        """Give what the disk must hold while in this role."""
        return ElectionState(self.epoch, self.leader_id, self.voted)

    def grants(self, key: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Say whether it votes for `key`."""
        return may_vote(key, self.voted, self.leader_id, up_to_date=up_to_date, pre_vote=pre_vote)
