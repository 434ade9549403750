"""A replica of the metadata log, as a machine without disk, socket or clock (KRaft: KIPs 595, 630, 853 and 996).

The driver tells it the time (`tick`), what came over the network (`request`, `response`) and what to write (`propose`),
and does what `ready` asks for:

    while ready := node.ready():
        save(ready)              # durable first
        act(ready)               # then what others may see of it
        node.advance(ready)

The roles and the moves between them are in `replica`; each message has a module of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barnabas.core.raft import voter_changes
from barnabas.core.raft.absence import on_absence
from barnabas.core.raft.candidate import Candidate
from barnabas.core.raft.control import ControlState
from barnabas.core.raft.dispatch import dispatch_request, dispatch_response
from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.fetch_serving import refuse_fetches, wake_fetches
from barnabas.core.raft.leader import Leader
from barnabas.core.raft.pending import Incoming
from barnabas.core.raft.polling import poll
from barnabas.core.raft.ready import (
    BatchTooLargeError,
    LeaderAndEpoch,
    Leadership,
    LogState,
    NotLeaderError,
    Proposal,
    Ready,
    SnapshotInfo,
)
from barnabas.core.raft.replica import Identity, Replica, Role
from barnabas.core.raft.resigned import Resigned
from barnabas.core.raft.settings import QuorumSettings, Rng
from barnabas.core.raft.vote import settle_election
from barnabas.core.raft.voter_updates import upgrade_kraft_version
from barnabas.core.raft.voters import Endpoint, endpoint_on
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.record_batch import Record, encode_batch

__all__ = ["MAX_BATCH_BYTES", "Identity", "RaftNode", "Role"]

MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
"""The most that one batch of the metadata log holds, Kafka's number."""


class RaftNode:
    """One replica. saved: what `quorum-state` held; log: what is on disk; control: what snapshot and log set.

    now_ms, everywhere: ms since the epoch, by a clock that does not jump (a monotonic one, anchored once to the
    wall's); it is the timestamp of records as well as the measure of time-outs.
    """

    def __init__(
        self,
        identity: Identity,
        saved: ElectionState | None,
        log: LogState,
        control: ControlState,
        settings: QuorumSettings,
        rng: Rng,
        now_ms: int,
        *,
        cluster_id: str = "",
        max_batch_bytes: int = MAX_BATCH_BYTES,
    ) -> None:
        self._replica = Replica(identity, saved, log, control, settings, rng, now_ms, cluster_id)
        self._max_batch_bytes = max_batch_bytes
        self._saved = saved
        self._due_ms: int | None = now_ms
        self._announced_hw: int | None = None
        self._announced_leadership: int | None = None
        self._announced_leader = LeaderAndEpoch(None, -1)
        self._told_of: Role | None = None
        self._in_flight: Ready | None = None
        if saved == self._replica.role.election():
            self._count_own_vote()

    # -- what it is

    @property
    def role(self) -> Role:
        """What it is at the moment."""
        return self._replica.role

    @property
    def epoch(self) -> int:
        """The epoch it is in."""
        return self._replica.epoch

    @property
    def leader_id(self) -> int | None:
        """Who leads the epoch, as far as it knows."""
        role = self._replica.role
        return None if isinstance(role, Resigned) else role.leader_id

    @property
    def leader(self) -> LeaderAndEpoch:
        """Who leads, and in which epoch."""
        return LeaderAndEpoch(self.leader_id, self.epoch)

    def leader_endpoint(self, listener: str | None = None) -> Endpoint | None:
        """Give where the leader is reached, on the controller listener unless told otherwise; None when not known."""
        if self.leader_id is None:
            return None
        return endpoint_on(self._replica.role.leader_endpoints, listener or self._replica.settings.listener)

    @property
    def is_voter(self) -> bool:
        """Say whether it votes."""
        return self._replica.is_voter

    @property
    def high_watermark(self) -> int | None:
        """The end of what is committed; None until that is known."""
        return self._replica.high_watermark

    @property
    def first_heard_high_watermark(self) -> int | None:
        """The end of what was committed when a leader first told this replica; None before, and for a leader."""
        return self._replica.first_heard_high_watermark

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._replica.log.end

    @property
    def control(self) -> ControlState:
        """The voters and kraft.version in force."""
        return self._replica.control

    @property
    def has_handed_over(self) -> bool:
        """Say whether the quorum does without it: a node that shuts down need not wait any longer."""
        replica = self._replica
        leader = replica.role.leader_id
        return not replica.is_voter or replica.is_only_voter or leader not in (None, replica.key.node_id)

    def next_deadline_ms(self) -> int | None:
        """Give when `tick` has to be called next at the latest, None when time alone changes nothing."""
        return self._due_ms

    # -- what happens to it

    def tick(self, now_ms: int) -> None:
        """Let time act."""
        self._begin(now_ms)
        self._end()

    def propose(self, values: Sequence[bytes], now_ms: int) -> Proposal:
        """Append records, all or none, as one batch; they are committed when the high watermark passes them.

        Raises NotLeaderError, and BatchTooLargeError for more than a batch holds.
        """
        replica = self._replica
        if not isinstance(replica.role, Leader):
            raise NotLeaderError(f"node {replica.key.node_id} does not lead epoch {self.epoch}")
        base = replica.log.end
        records = [Record(base + i, now_ms, None, value, ()) for i, value in enumerate(values)]
        data = encode_batch(records, base_offset=base, leader_epoch=replica.epoch)
        if len(data) > self._max_batch_bytes:
            raise BatchTooLargeError(
                f"{len(values)} records take {len(data)} bytes, more than the {self._max_batch_bytes} of a batch"
            )
        entry = replica.append(len(records), data)
        return Proposal(base, entry.end_offset, entry.epoch)

    def request(self, token: int, request: Message, version: int, listener: str, now_ms: int) -> None:
        """Take in a request of another replica or of an admin; a `Reply` with this token answers it, soon or late.

        Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch of the metadata partition, FetchSnapshot, AddRaftVoter,
        RemoveRaftVoter, UpdateRaftVoter and DescribeQuorum. version: the request's; listener: the name of the listener
        that it came in on, whose endpoints the answer names.
        """
        self._begin(now_ms)
        self._replica.connections.expire(now_ms)
        dispatch_request(self._replica, Incoming(token, version, listener), request)
        self._end()

    def forget(self, token: int) -> None:
        """Drop a request whose connection is gone; a fetch that waits is not answered any more."""
        role = self._replica.role
        if isinstance(role, Leader):
            role.parked.pop(token, None)

    def response(self, request_id: int, response: Message | None, now_ms: int) -> None:
        """Take in what came of an `Outgoing`.

        None: it could not be sent, got no answer in time, or lost its connection. A peer that speaks no version of it,
        or none in which it can be said (a pre-vote before Vote v2), counts as having answered UNSUPPORTED_VERSION.
        Raises InconsistentLogError.
        """
        self._begin(now_ms)
        dispatch_response(self._replica, request_id, response)
        self._end()

    def absent(self, endpoint: Endpoint, now_ms: int) -> None:
        """Take note that nobody listens at an address that a request was sent to; see `absence`."""
        self._begin(now_ms)
        on_absence(self._replica, endpoint)
        self._end()

    def snapshot_written(self, snapshot: SnapshotInfo) -> None:
        """Take note of a whole snapshot that the driver made; it is served from now on."""
        self._replica.log.add_snapshot(snapshot)

    def log_trimmed(self, start_offset: int) -> None:
        """Take note that the log begins at `start_offset` now, and that snapshots which end before it are gone."""
        self._replica.log.trim_to(start_offset)
        self._replica.control.trim_to(start_offset)

    def upgrade_kraft_version(self, version: int, now_ms: int, *, validate_only: bool = False) -> Proposal | None:
        """Raise kraft.version; ValueError says why it can't be. None: it stands already, or it was only validated."""
        role = self._replica.role
        if not isinstance(role, Leader):
            raise NotLeaderError(f"node {self._replica.key.node_id} does not lead epoch {self.epoch}")
        self._begin(now_ms)
        base = self._replica.log.end
        end = upgrade_kraft_version(self._replica, role, version, validate_only=validate_only)
        self._end()
        return None if end is None else Proposal(base, end, role.epoch)

    def resign(self, now_ms: int | None = None) -> None:
        """Stop leading; what was proposed and is not committed stays undecided.

        The other voters are told (EndQuorumEpoch), those with the longest logs first in line to succeed.
        """
        self._begin(self._replica.now_ms if now_ms is None else now_ms)
        self._replica.resign()
        self._end()

    def shut_down(self, now_ms: int) -> None:
        """Resign, and stand for nothing any more. The node may stop when `has_handed_over`, or after a while."""
        self._replica.stopping = True
        self.resign(now_ms)

    # -- what it wants done

    def ready(self) -> Ready | None:
        """Give what has to be done next, or None; `advance` must follow before it is asked again."""
        if self._in_flight is not None:
            raise RuntimeError("the last Ready was not advanced")
        replica, out = self._replica, self._replica.outbox
        role = replica.role
        if isinstance(role, Leader):
            wake_fetches(replica, role, all_of_them=False)
        election = role.election()
        save = election is not self._saved and election != self._saved
        hw = replica.high_watermark
        leadership = self._new_leadership()
        leader = None if role is self._told_of and leadership is None else self._new_leader(leadership)
        if not (
            out.entries
            or hw != self._announced_hw
            or out.replies
            or out.requests
            or save
            or leadership is not None
            or leader is not None
            or out.truncate_to is not None
            or out.snapshot is not None
        ):
            return None
        ready = Ready(
            election=election if save else None,
            kraft_version=replica.kraft_version if save else 0,
            voter_ids=replica.voters.node_ids if save else (),
            truncate_to=out.truncate_to,
            snapshot=out.snapshot,
            entries=tuple(out.entries),
            replies=tuple(out.replies),
            requests=tuple(out.requests),
            high_watermark=hw if hw != self._announced_hw else None,
            leadership=leadership,
            leader=leader,
        )
        out.handed_out()
        self._in_flight = ready
        return ready

    def advance(self, ready: Ready, now_ms: int) -> None:
        """Take note that `ready` was done: what it wrote is durable, what it announced was acted on."""
        if ready is not self._in_flight:
            raise RuntimeError("this is not the Ready that was given last")
        self._in_flight = None
        self._begin(now_ms)
        if ready.high_watermark is not None:
            self._announced_hw = ready.high_watermark
        if ready.leadership is not None:
            self._announced_leadership = ready.leadership.epoch
        if ready.leader is not None:
            self._announced_leader = ready.leader
        if ready.election is not None:
            self._saved = ready.election
            self._count_own_vote()
        if ready.entries:
            self._count_own_log(ready.entries[-1].epoch, ready.entries[-1].end_offset)
        self._end()

    def _count_own_vote(self) -> None:
        role = self._replica.role
        if isinstance(role, Candidate) and self._saved == role.election():
            role.votes.record(self._replica.key.node_id, True)
            settle_election(self._replica)

    def _count_own_log(self, epoch: int, end_offset: int) -> None:
        replica, role = self._replica, self._replica.role
        if (
            isinstance(role, Leader)
            and role.epoch == epoch
            and role.local_durable_to(end_offset, replica.control.voters.last.value)
        ):
            replica.committed(role)

    def _begin(self, now_ms: int) -> None:
        self._replica.now_ms = now_ms
        role = self._replica.role
        if isinstance(role, Leader) and self._due_ms is not None and now_ms > self._due_ms:
            role.stood_still(now_ms - self._due_ms, now_ms)

    def _end(self) -> None:
        """Follow up what a step has changed, until nothing more moves."""
        replica = self._replica
        role = replica.role
        if isinstance(role, Leader) and role.is_idle and replica.is_only_voter and not replica.left:
            # The way of every write where nobody else votes: it must cost nothing.
            replica.connections.expire(replica.now_ms)
            self._due_ms = replica.connections.next_due_ms
            replica.has_news = False
            return
        while True:
            self._due_ms = poll(replica)
            while replica.left:
                self._settle_debts(replica.left.pop())
            if not replica.has_news:
                return
            replica.has_news = False
            if isinstance(replica.role, Leader):
                voter_changes.committed(replica, replica.role)
                wake_fetches(replica, replica.role, all_of_them=True)

    def _settle_debts(self, former: Leader) -> None:
        refuse_fetches(self._replica, former)
        voter_changes.finish(self._replica, former, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _new_leadership(self) -> Leadership | None:
        role = self._replica.role
        if not isinstance(role, Leader) or role.high_watermark is None or self._announced_leadership == role.epoch:
            return None
        return Leadership(role.epoch, role.epoch_start)

    def _new_leader(self, leadership: Leadership | None) -> LeaderAndEpoch | None:
        """Give who leads when that is news; of itself a leader speaks once it has committed something."""
        role = self._replica.role
        leader = self.leader
        if isinstance(role, Leader) and leadership is None and self._announced_leadership != role.epoch:
            leader = LeaderAndEpoch(None, role.epoch)
        if leader != self._announced_leader:
            return leader
        if leader.node_id is not None:
            # Whom this role follows, or that it leads, does not change while it lasts.
            self._told_of = role
        return None
