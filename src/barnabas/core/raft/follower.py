"""The role of a replica that fetches from the leader of its epoch, as a voter or as an observer."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.voters import Endpoints, ReplicaKey
from barnabas.model.topic_partition import OffsetAndEpoch


@dataclass(slots=True)
class SnapshotFetch:
    """A snapshot on its way. position: the bytes that are here; head: its beginning, up to the first whole batch."""

    id: OffsetAndEpoch
    position: int = 0
    head: bytes = b""


@dataclass(slots=True)
class Follower:
    """Follows `leader_id`.

    deadline_ms: when a voter gives the leader up; update_ms: when it next looks whether the leader has to be told
    something about it; has_fetched: the leader answered in this epoch; leader_is_gone: nobody listens where it was, and
    it has not answered since; has_updated: it took our endpoints and versions (which leaders do not write down at
    kraft.version 0).
    """

    epoch: int
    leader_id: int
    leader_endpoints: Endpoints
    voted: ReplicaKey | None
    deadline_ms: int
    update_ms: int
    has_fetched: bool = False
    leader_is_gone: bool = False
    has_updated: bool = False
    snapshot: SnapshotFetch | None = None

    def election(self) -> ElectionState:
        """Give what the disk must hold while in this role."""
        return ElectionState(self.epoch, self.leader_id, self.voted)

    def grants(self, key: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Say whether it would vote for `key`: only before it has heard from its leader, or when that is gone."""
        return pre_vote and up_to_date and (self.leader_is_gone or not self.has_fetched)
