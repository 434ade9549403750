"""The role of a replica that knows an epoch but follows nobody in it.

It asks the bootstrap servers for the leader; as a voter it stands itself when that takes longer than the election
timeout. An observer waits without end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.voters import Endpoints, ReplicaKey
from barnabas.core.raft.votes import may_vote


@dataclass(slots=True)
class Unattached:
    """Waits: for somebody to lead, or for the moment to stand itself. deadline_ms: None before it was first set."""

    epoch: int
    leader_id: int | None = None
    voted: ReplicaKey | None = None
    deadline_ms: int | None = field(default=None, compare=False)

    leader_endpoints: Endpoints = field(default=(), init=False, repr=False)

    def election(self) -> ElectionState:
        """Give what the disk must hold while in this role."""
        return ElectionState(self.epoch, self.leader_id, self.voted)

    def grants(self, key: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Say whether it votes for `key`."""
        return may_vote(key, self.voted, self.leader_id, up_to_date=up_to_date, pre_vote=pre_vote)
