"""The count of an election: who is for it, who against, who has not answered; and who may be voted for."""

from __future__ import annotations

from barnabas.core.raft.voters import ReplicaKey, VoterSet


class Votes:
    """The answers of the voters that there were when the election began."""

    def __init__(self, voters: VoterSet) -> None:
        self._answers: dict[int, bool | None] = dict.fromkeys(voters.node_ids)
        self._keys = {v.node_id: v.key for v in voters}

    def record(self, node_id: int, granted: bool) -> None:
        """Count an answer; those of nodes that are no voters don't count."""
        if node_id in self._answers:
            self._answers[node_id] = granted

    @property
    def granting(self) -> tuple[int, ...]:
        """Who is for it, ascending."""
        return tuple(sorted(n for n, granted in self._answers.items() if granted))

    @property
    def unanswered(self) -> tuple[ReplicaKey, ...]:
        """Who has not answered."""
        return tuple(self._keys[n] for n, granted in self._answers.items() if granted is None)

    @property
    def is_won(self) -> bool:
        """Say whether more than half of the voters are for it."""
        return len(self.granting) > len(self._answers) // 2

    @property
    def is_lost(self) -> bool:
        """Say whether those who are for it or have not answered are too few."""
        against = sum(granted is False for granted in self._answers.values())
        return len(self._answers) - against <= len(self._answers) // 2


def may_vote(
    key: ReplicaKey, voted: ReplicaKey | None, leader_id: int | None, *, up_to_date: bool, pre_vote: bool
) -> bool:
    """Say whether a replica that follows nobody votes for `key`. voted, leader_id: of the epoch."""
    if pre_vote:
        return up_to_date
    if voted is not None:
        return voted.node_id == key.node_id and (not any(voted.directory_id) or voted.directory_id == key.directory_id)
    return leader_id is None and up_to_date
