"""What a replica must never forget of elections: the epoch, its vote in it, and who won (the `quorum-state` file)."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.core.raft.voters import ReplicaKey
from barnabas.wire.records.quorum_state_data import QuorumStateData
from barnabas.wire.records.quorum_state_data import Voter as VoterData


@dataclass(frozen=True, slots=True)
class ElectionState:
    """An epoch as this replica knows it. leader_id, voted: None when not known, not given."""

    epoch: int = 0
    leader_id: int | None = None
    voted: ReplicaKey | None = None

    def voted_for(self, key: ReplicaKey) -> bool:
        """Say whether the vote went to `key`; a vote kept without directory id counts by its node id."""
        if self.voted is None or self.voted.node_id != key.node_id:
            return False
        return not any(self.voted.directory_id) or self.voted.directory_id == key.directory_id

    def to_data(self, kraft_version: int, voter_ids: tuple[int, ...]) -> QuorumStateData:
        """Give the file's form; kraft.version 0 writes the voters, 1 the directory id of the vote."""
        data = QuorumStateData(
            leader_epoch=self.epoch,
            leader_id=-1 if self.leader_id is None else self.leader_id,
            voted_id=-1 if self.voted is None else self.voted.node_id,
        )
        if kraft_version == 0:
            data.current_voters = [VoterData(voter_id=v) for v in voter_ids]
        elif self.voted is not None:
            data.voted_directory_id = self.voted.directory_id
        return data

    @classmethod
    def from_data(cls, data: QuorumStateData) -> ElectionState:
        """Give what the file says."""
        return cls(
            epoch=data.leader_epoch,
            leader_id=None if data.leader_id == -1 else data.leader_id,
            voted=None if data.voted_id == -1 else ReplicaKey(data.voted_id, data.voted_directory_id),
        )
