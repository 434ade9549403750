"""The role of a replica that leads an epoch: it takes proposals, serves fetches and decides what is committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.pending import ParkedFetch, VoterChange
from barnabas.core.raft.progress import Progress
from barnabas.core.raft.voters import Endpoints, ReplicaKey, Voter, VoterSet

OBSERVER_SESSION_MS: Final = 300_000
"""An observer that has not fetched for so long is forgotten."""
CAUGHT_UP_MS: Final = 3_600_000
"""A replica that may become a voter has fetched within this time."""
NEVER: Final = 2**63 - 1


@dataclass(slots=True)
class Leader:
    """Leads `epoch`.

    me: this voter; epoch_start: offset of the epoch's first record; granted: who voted for it; check_ms: when it gives
    up unless a majority has fetched; begin_ms: when the voters that do not fetch are told of it again; excused: it was
    given more time since a majority was last heard of.
    """

    epoch: int
    me: Voter
    epoch_start: int
    granted: tuple[int, ...] = ()
    check_timeout_ms: int = NEVER
    begin_interval_ms: int = NEVER
    check_ms: int = NEVER
    begin_ms: int = 0
    high_watermark: int | None = None
    excused: bool = False
    voters: dict[int, Progress] = field(default_factory=dict)
    observers: dict[ReplicaKey, Progress] = field(default_factory=dict)
    fetched: set[int] = field(default_factory=set)
    parked: dict[int, ParkedFetch] = field(default_factory=dict)
    change: VoterChange | None = None
    volatile_voters: VoterSet | None = None
    resign_requested: bool = False
    _voter_set: VoterSet | None = None
    _election: ElectionState | None = None

    @property
    def node_id(self) -> int:
        """Its node id."""
        return self.me.node_id

    @property
    def leader_id(self) -> int:
        """Who leads."""
        return self.me.node_id

    @property
    def leader_endpoints(self) -> Endpoints:
        """Where it is reached."""
        return self.me.endpoints

    def election(self) -> ElectionState:
        """Give what the disk must hold while in this role."""
        if self._election is None:
            self._election = ElectionState(self.epoch, self.me.node_id)
        return self._election

    def grants(self, key: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Say whether it votes for `key`: never."""
        return False

    @property
    def is_idle(self) -> bool:
        """Say whether it owes nobody anything, and is not about to resign."""
        return not self.parked and self.change is None and not self.resign_requested

    def use_voters(self, voters: VoterSet) -> None:
        """Take these for the voters; who no longer votes is an observer."""
        if voters is self._voter_set:
            return
        self._voter_set = voters
        old = dict(self.voters)
        self.voters = {}
        for voter in voters:
            known = self.progress_of(voter.key, among=old) or Progress(voter.key)
            known.key = voter.key
            known.endpoints = voter.endpoints
            if old.get(voter.node_id) is known:
                del old[voter.node_id]
            self.observers.pop(voter.key, None)
            self.voters[voter.node_id] = known
        for gone in old.values():
            gone.endpoints = ()
            self.observers.setdefault(gone.key, gone)
        self.fetched &= self.voters.keys()

    def progress_of(self, key: ReplicaKey, among: dict[int, Progress] | None = None) -> Progress | None:
        """Give what is known of a replica, None when it is a stranger."""
        found = (self.voters if among is None else among).get(key.node_id)
        if found is not None and found.is_of(key):
            return found
        return self.observers.get(key)

    def local_durable_to(self, end_offset: int, voters: VoterSet) -> bool:
        """Note how far its own log is durable; say whether that committed anything."""
        self.use_voters(voters)
        mine = self._known(self.me.key)
        mine.end = max(end_offset, mine.end or 0)
        return self._commit()

    def fetched_by(self, key: ReplicaKey, offset: int, now_ms: int) -> bool:
        """Note that a replica's log reaches `offset`; say whether that committed anything."""
        if key.node_id < 0:
            return False
        known = self._known(key)
        known.fetched(offset, self._known(self.me.key).end, now_ms)
        self.follows(key, now_ms)
        return self.voters.get(key.node_id) is known and self._commit()

    def follows(self, key: ReplicaKey, now_ms: int) -> None:
        """Take a replica's word that it follows; a majority of voters keeps the leader for another while."""
        known = self.voters.get(key.node_id)
        if known is not None and known.is_of(key) and key.node_id != self.me.node_id:
            self.fetched.add(key.node_id)
        others = len(self.voters) // 2 + (self.me.node_id not in self.voters)
        if len(self.fetched) >= others:
            self.fetched.clear()
            self.check_ms = now_ms + self.check_timeout_ms
            self.excused = False

    def stood_still(self, late_ms: int, now_ms: int) -> None:
        """Take note that its process comes this much late, so that fetches may lie there which it has yet to read.

        It is given time for that, once until a majority is heard of: to step down would end the epoch, and with that
        have every broker's session begin anew, for nothing. (Kafka's leader steps down.)
        """
        grace_ms = self.begin_interval_ms
        if late_ms * 4 >= grace_ms and self.check_ms < now_ms + grace_ms and not self.excused:
            self.check_ms = now_ms + grace_ms
            self.excused = True

    def has_lost_majority(self, now_ms: int) -> bool:
        """Say whether too few voters have fetched for too long (check-quorum)."""
        return now_ms >= self.check_ms and self.voters.keys() != {self.me.node_id}

    def to_be_told(self, now_ms: int) -> list[ReplicaKey]:
        """Give the voters that have not fetched for a while: they may not know who leads."""
        return [
            p.key
            for p in self.voters.values()
            if p.key.node_id != self.me.node_id and now_ms - p.fetched_ms >= self.begin_interval_ms
        ]

    def successors(self) -> tuple[ReplicaKey, ...]:
        """Give the other voters, those with the longest logs first."""
        others = [p for p in self.voters.values() if not p.is_of(self.me.key)]
        return tuple(p.key for p in sorted(others, key=lambda p: (p.end is None, -(p.end or 0), p.key)))

    def is_caught_up(self, key: ReplicaKey, now_ms: int) -> bool:
        """Say whether an observer had everything once, and still fetches."""
        known = self.observers.get(key)
        return known is not None and known.caught_up_ms > 0 and known.fetched_ms > now_ms - CAUGHT_UP_MS

    def forget_observers(self, now_ms: int) -> None:
        """Forget observers that stopped to fetch."""
        gone = [k for k, p in self.observers.items() if now_ms - p.fetched_ms >= OBSERVER_SESSION_MS]
        for key in gone:
            if key != self.me.key:
                del self.observers[key]

    def _known(self, key: ReplicaKey) -> Progress:
        found = self.progress_of(key)
        if found is None:
            found = self.observers[key] = Progress(key)
        return found

    def _commit(self) -> bool:
        committed = committed_end([-1 if p.end is None else p.end for p in self.voters.values()])
        # Records of earlier epochs are only known to stay once one of this epoch is committed over them.
        if committed <= self.epoch_start or committed <= (self.high_watermark or 0):
            return False
        self.high_watermark = committed
        return True


def committed_end(ends: list[int]) -> int:
    """Give the highest offset that more than half of these logs reach; 0 of none."""
    return sorted(ends, reverse=True)[len(ends) // 2] if ends else 0
