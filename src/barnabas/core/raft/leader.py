"""The role of a replica that leads an epoch: it takes proposals and decides what is committed."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.voters import VoterSet


@dataclass(slots=True)
class Leader:
    """Leads `epoch`. epoch_start: offset of its first record; ends: how far each voter's log is durable, by node id."""

    epoch: int
    node_id: int
    epoch_start: int
    granted: tuple[int, ...]
    ends: dict[int, int] = field(default_factory=dict)
    high_watermark: int | None = None

    def election(self) -> ElectionState:
        """Give what the disk must hold while in this role."""
        return ElectionState(self.epoch, self.node_id)

    def durable_to(self, node_id: int, end_offset: int, voters: VoterSet) -> bool:
        """Note how far a voter's log is durable; say whether that committed anything."""
        self.ends[node_id] = max(end_offset, self.ends.get(node_id, 0))
        committed = committed_end([self.ends.get(v, 0) for v in voters.node_ids])
        # Records of earlier epochs are only known to stay once one of this epoch is committed over them.
        if committed <= self.epoch_start or committed <= (self.high_watermark or 0):
            return False
        self.high_watermark = committed
        return True


def committed_end(ends: list[int]) -> int:
    """Give the highest offset that more than half of these logs reach; 0 of none."""
    return sorted(ends, reverse=True)[len(ends) // 2] if ends else 0
