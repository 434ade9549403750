"""The role of a replica that stands for an epoch: it votes for itself and counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.voters import ReplicaKey, VoterSet


@dataclass(slots=True)
class Candidate:
    """Stands for `epoch` before `voters`. granted: node ids whose votes it has; its own once that is on disk."""

    epoch: int
    key: ReplicaKey
    voters: VoterSet
    granted: set[int] = field(default_factory=set)

    def election(self) -> ElectionState:
        """Give what the disk must hold while in this role."""
        return ElectionState(self.epoch, voted=self.key)

    def grant(self, node_id: int) -> None:
        """Count a vote; those of nodes that are no voters don't."""
        if self.voters.get(node_id) is not None:
            self.granted.add(node_id)

    @property
    def has_won(self) -> bool:
        """Say whether more than half of the voters are for it."""
        return len(self.granted) > len(self.voters) // 2
