"""A partition as its leader has it: followers, in-sync replicas, high and low watermark (KIP-16, KIP-497, KIP-966).

While a change of the ISR is in flight the leader counts with the larger of the two, the maximal ISR: an expansion may
have been taken already, a shrink may still be refused. All values; the log itself is somebody else's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from barnabas.core.replication.followers import NO_BROKER_EPOCH, Follower
from barnabas.core.replication.in_sync import Fate, Granted, IsrChange, IsrProposal, Member, fate_of
from barnabas.wire.errors import ApiError, ErrorCode


class Brokers(Protocol):
    """The registered brokers, as far as they matter here."""

    def epoch(self, broker_id: int) -> int | None:
        """Give the epoch of a broker that is alive, -1 where nobody tells brokers; None for one that is not."""
        ...

    def may_join_isr(self, broker_id: int) -> bool:
        """Say whether a broker is neither fenced nor shutting down."""
        ...


class Assignment(NamedTuple):
    """What the metadata log says of a partition. recovering: its leader was elected uncleanly (KIP-704)."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False


class LeaderLog(NamedTuple):
    """Where the leader's log stands."""

    start_offset: int
    end_offset: int
    high_watermark: int


class Leadership:
    """One partition's leader, from the first assignment that names us leader to the first that does not.

    epoch_start_offset: where the log ended when the leader epoch began.
    """

    def __init__(self, node_id: int, assignment: Assignment, log: LeaderLog, now_ms: int) -> None:
        self.node_id = node_id
        self.followers: dict[int, Follower] = {}
        self.pending: IsrProposal | None = None
        self.epoch_start_offset = log.end_offset
        self.leader_epoch = -1
        self._take(assignment, log, now_ms, same_leader=False)

    def _take(self, assignment: Assignment, log: LeaderLog, now_ms: int, *, same_leader: bool) -> None:
        self.assignment = assignment
        self.isr = assignment.isr
        self.maximal_isr = frozenset(assignment.isr)
        self.pending = None
        self.partition_epoch = assignment.partition_epoch
        known = self.followers
        self.followers = {b: known.get(b) or Follower(b) for b in assignment.replicas if b != self.node_id}
        if assignment.leader_epoch != self.leader_epoch:
            self.leader_epoch = assignment.leader_epoch
            self.epoch_start_offset = log.end_offset
            for follower in self.followers.values():
                in_sync = follower.broker_id in self.maximal_isr
                follower.begin_epoch(log.end_offset, now_ms, in_sync=in_sync, same_leader=same_leader)

    def renew(self, assignment: Assignment, log: LeaderLog, now_ms: int) -> bool:
        """Take what the metadata log says now, where we lead still; says whether that is a new leader epoch.

        Older than what the controller has answered us already it is left aside.
        """
        if assignment.partition_epoch < self.partition_epoch:
            return False
        before = self.leader_epoch
        self._take(assignment, log, now_ms, same_leader=True)
        return self.leader_epoch != before

    # --- what stands

    @property
    def alone(self) -> bool:
        """Whether there is no other replica: what is appended is committed."""
        return not self.followers

    @property
    def reassigning(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.assignment.adding or self.assignment.removing)

    @property
    def under_replicated(self) -> bool:
        """Whether a replica is out of sync."""
        return len(self.isr) < len(self.assignment.replicas)

    def min_isr(self, configured: int) -> int:
        """Give how many replicas must be in sync: as configured, but never more than there are."""
        return min(configured, len(self.followers) + 1)

    def follower(self, broker_id: int, *, epoch_known: bool) -> Follower:
        """Give a follower; ApiError makes a broker that is none (yet) try again. epoch_known: it named our epoch."""
        found = self.followers.get(broker_id)
        if found is None:
            # A replica that was just added may know of it before us.
            code = ErrorCode.UNKNOWN_LEADER_EPOCH if epoch_known else ErrorCode.NOT_LEADER_OR_FOLLOWER
            raise ApiError(code, f"broker {broker_id} is no replica in leader epoch {self.leader_epoch}")
        return found

    def check_broker_epoch(self, broker_id: int, broker_epoch: int, brokers: Brokers) -> None:
        """Refuse, by ApiError, a fetch of a broker that has registered anew since (KIP-903)."""
        current = brokers.epoch(broker_id)
        if broker_epoch != NO_BROKER_EPOCH and current is not None and current > broker_epoch:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {broker_id} fetches with the epoch {broker_epoch}, but has registered anew with {current}",
            )

    # --- watermarks

    def committed_to(self, log: LeaderLog, min_isr: int, now_ms: int, max_lag_ms: int, brokers: Brokers) -> int:
        """Give the high watermark: it never goes back, and stands still while too few replicas are in sync.

        A follower outside of the ISR that could join it at any time holds the high watermark back too; else it would
        chase a moving target.
        """
        if len(self.isr) < min_isr:
            return log.high_watermark
        mark = log.end_offset
        for follower in self.followers.values():
            if follower.log_end_offset < mark and (
                follower.broker_id in self.maximal_isr
                or (follower.is_caught_up(log.end_offset, now_ms, max_lag_ms) and self._eligible(follower, brokers))
            ):
                mark = follower.log_end_offset
        return max(mark, log.high_watermark)

    def low_watermark(self, log_start: int, brokers: Brokers) -> int:
        """Give the offset before which no living replica has records any more (KIP-107)."""
        starts = [f.log_start_offset for f in self.followers.values() if brokers.epoch(f.broker_id) is not None]
        return min([log_start, *starts])

    # --- the ISR

    def expansion(self, follower: Follower, log: LeaderLog, own_epoch: int, brokers: Brokers) -> IsrProposal | None:
        """Propose a follower that has caught up for the ISR; None when it has not, is in, or a change is in flight."""
        if (
            self.pending is not None
            or follower.broker_id in self.maximal_isr
            or follower.log_end_offset < log.high_watermark
            or follower.log_end_offset < self.epoch_start_offset
            or not self._eligible(follower, brokers)
        ):
            return None
        return self._propose(IsrChange.EXPAND, (*self.isr, follower.broker_id), own_epoch)

    def shrink(self, log: LeaderLog, own_epoch: int, now_ms: int, max_lag_ms: int) -> IsrProposal | None:
        """Propose the ISR without those that lag; None when nobody does, or a change is in flight."""
        if self.pending is not None or len(self.isr) < 2:
            return None
        kept = tuple(b for b in self.isr if b == self.node_id or self._keeps_up(b, log.end_offset, now_ms, max_lag_ms))
        return None if kept == self.isr else self._propose(IsrChange.SHRINK, kept, own_epoch)

    def recovery(self, own_epoch: int) -> IsrProposal | None:
        """Propose that we have recovered, when the metadata says that we must."""
        if self.pending is not None or not self.assignment.recovering:
            return None
        return self._propose(IsrChange.RECOVERED, self.isr, own_epoch)

    def _keeps_up(self, broker_id: int, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        follower = self.followers.get(broker_id)
        return follower is not None and follower.is_caught_up(leader_end, now_ms, max_lag_ms)

    def _eligible(self, follower: Follower, brokers: Brokers) -> bool:
        """Say whether the broker that fetched is the one that is registered now, and unfenced (KIP-841, KIP-903)."""
        current = brokers.epoch(follower.broker_id)
        return (
            current is not None
            and (current == NO_BROKER_EPOCH or follower.broker_epoch in (NO_BROKER_EPOCH, current))
            and brokers.may_join_isr(follower.broker_id)
        )

    def _propose(self, change: IsrChange, isr: Iterable[int], own_epoch: int) -> IsrProposal:
        members = tuple(Member(b, own_epoch if b == self.node_id else self._epoch_seen(b)) for b in isr)
        self.pending = IsrProposal(change, members, self.leader_epoch, self.partition_epoch)
        if change is IsrChange.EXPAND:
            # As if it were granted: that asks more of the high watermark, so a refusal does no harm. A shrink would.
            self.maximal_isr = frozenset(self.pending.broker_ids)
        return self.pending

    def _epoch_seen(self, broker_id: int) -> int:
        follower = self.followers.get(broker_id)
        return NO_BROKER_EPOCH if follower is None or follower.broker_epoch is None else follower.broker_epoch

    def granted(self, proposal: IsrProposal, answer: Granted) -> Fate:
        """Take what the controller has made of a proposal; STALE when the metadata log was quicker."""
        if proposal is not self.pending:
            return Fate.STALE
        if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
            return Fate.WAIT
        self._settle(answer.isr)
        self.partition_epoch = answer.partition_epoch
        self.assignment = self.assignment._replace(recovering=answer.recovering)
        return Fate.COMMITTED

    def refused(self, proposal: IsrProposal, error: ErrorCode) -> Fate:
        """Take the controller's refusal of a proposal; RETRY: send it again as it is."""
        if proposal is not self.pending:
            return Fate.STALE
        fate = fate_of(error)
        if fate is Fate.DROPPED:
            self._settle(self.isr)
        return fate

    def _settle(self, isr: tuple[int, ...]) -> None:
        self.pending = None
        self.isr = isr
        self.maximal_isr = frozenset(isr)
