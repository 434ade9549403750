"""The role of a replica that knows an epoch but follows nobody in it."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.voters import ReplicaKey


@dataclass(frozen=True, slots=True)
class Unattached:
    """Waits: for somebody to lead, or for the moment to stand itself."""

    epoch: int
    leader_id: int | None = None
    voted: ReplicaKey | None = None

    def election(self) -> ElectionState:
        """Give what the disk must hold while in this role."""
        return ElectionState(self.epoch, self.leader_id, self.voted)
