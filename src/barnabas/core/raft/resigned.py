"""The role of a replica that led its epoch, and stopped or was restarted.

It must neither lead that epoch again nor vote in it: records that were lost unflushed would otherwise come back with
the same offset and epoch, but other content. It tells the other voters to elect somebody else, until they have heard.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.voters import Endpoints, ReplicaKey


@dataclass(slots=True)
class Resigned:
    """Led `epoch`; only a later epoch moves it. unacknowledged: voters that have not heard; successors: best first."""

    epoch: int
    node_id: int
    leader_endpoints: Endpoints = ()
    unacknowledged: set[int] = field(default_factory=set)
    successors: tuple[ReplicaKey, ...] = ()
    deadline_ms: int = 0

    @property
    def leader_id(self) -> int:
        """Who leads the epoch, as others are told: this replica still."""
        return self.node_id

    @property
    def voted(self) -> None:
        """Its vote; leaders don't keep it."""
        return

    def election(self) -> ElectionState:
        """Give what the disk must hold while in this role."""
        return ElectionState(self.epoch, self.node_id)

    def grants(self, key: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Say whether it would vote for `key`."""
        return pre_vote and up_to_date
