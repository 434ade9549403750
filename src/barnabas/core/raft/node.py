"""A replica of the metadata log, as a machine without disk, socket or clock (design D6).

The driver tells it the time (`tick`) and what to write (`propose`), and does what `ready` asks for:

    while ready := node.ready():
        save(ready)              # durable first
        act(ready)               # then what is committed
        node.advance(ready)

Roles: Unattached or Resigned -> Candidate (epoch + 1, vote for itself on disk) -> Leader -> Resigned. It elects itself
where it is the only voter; it leads no quorum of several yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.core.raft.candidate import Candidate
from barnabas.core.raft.control import ControlState, encode_control, leader_change
from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.leader import Leader
from barnabas.core.raft.ready import (
    BatchTooLargeError,
    Entry,
    LeaderAndEpoch,
    Leadership,
    LogState,
    NotLeaderError,
    Proposal,
    Ready,
    SnapshotInfo,
)
from barnabas.core.raft.resigned import Resigned
from barnabas.core.raft.settings import QuorumSettings, Rng
from barnabas.core.raft.unattached import Unattached
from barnabas.core.raft.voters import ReplicaKey, Voter
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.wire.message import Message
from barnabas.wire.record_batch import Record, encode_batch
from barnabas.wire.records.kraft_version_record import KRaftVersionRecord

MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
"""The most that one batch of the metadata log holds, Kafka's number."""

Role = Unattached | Resigned | Candidate | Leader


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this replica is: its key, and the voter that it would be, with the endpoints it is reached at now."""

    key: ReplicaKey
    voter: Voter


class RaftNode:
    """One replica. saved: what `quorum-state` held; log_end: end offset and last epoch of snapshot and log."""

    def __init__(
        self,
        identity: Identity,
        saved: ElectionState | None,
        log: LogState | OffsetAndEpoch,
        control: ControlState,
        settings: QuorumSettings | None = None,
        rng: Rng | None = None,
        now_ms: int = 0,
        *,
        cluster_id: str = "",
        max_batch_bytes: int = MAX_BATCH_BYTES,
    ) -> None:
        log_end = OffsetAndEpoch(log.end_offset, _last_epoch(log)) if isinstance(log, LogState) else log
        self._identity = identity
        self._control = control
        self._max_batch_bytes = max_batch_bytes
        self._saved = saved
        self._end_offset = log_end.offset
        self._entries: list[Entry] = []
        self._high_watermark: int | None = None
        self._announced_hw: int | None = None
        self._announced_epoch: int | None = None
        self._in_flight: Ready | None = None
        self._role: Role = _initial_role(identity.key, saved or ElectionState(), log_end.epoch)

    @property
    def role(self) -> Role:
        """What it is at the moment."""
        return self._role

    @property
    def epoch(self) -> int:
        """The epoch it is in."""
        return self._role.epoch

    @property
    def leader_id(self) -> int | None:
        """Who leads the epoch, as far as it knows."""
        if isinstance(self._role, Resigned):
            return None
        return self._role.election().leader_id

    @property
    def high_watermark(self) -> int | None:
        """The end of what is committed; None until that is known."""
        return self._high_watermark

    @property
    def log_end_offset(self) -> int:
        """The offset that the next proposed record gets."""
        return self._end_offset

    @property
    def control(self) -> ControlState:
        """The voters and kraft.version in force."""
        return self._control

    def tick(self, now_ms: int) -> None:
        """Let time act: the only voter stands at once, and leads once its own vote is on disk."""
        if isinstance(self._role, Unattached | Resigned) and self._is_only_voter():
            self._role = Candidate(self.epoch + 1, self._identity.key, self._control.voters.last.value)
        if isinstance(self._role, Candidate) and self._role.has_won:
            self._lead(self._role, now_ms)

    def propose(self, values: Sequence[bytes], now_ms: int) -> Proposal:
        """Append records, all or none, as one batch; they are committed when the high watermark passes them.

        Raises NotLeaderError, and BatchTooLargeError for more than a batch holds. now_ms: wall clock, the records'
        timestamp.
        """
        if not isinstance(self._role, Leader):
            raise NotLeaderError(f"node {self._identity.key.node_id} does not lead epoch {self.epoch}")
        base = self._end_offset
        records = [Record(base + i, now_ms, None, value, ()) for i, value in enumerate(values)]
        data = encode_batch(records, base_offset=base, leader_epoch=self.epoch)
        if len(data) > self._max_batch_bytes:
            raise BatchTooLargeError(
                f"{len(values)} records take {len(data)} bytes, more than the {self._max_batch_bytes} of a batch"
            )
        entry = self._append(len(records), data)
        return Proposal(base, entry.end_offset, self.epoch)

    def request(self, token: int, request: Message, version: int, listener: str, now_ms: int) -> None:
        """Take in a request of another replica or of an admin; a `Reply` with this token answers it, soon or late.

        Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch of the metadata partition, FetchSnapshot, AddRaftVoter,
        RemoveRaftVoter, UpdateRaftVoter and DescribeQuorum. version: the request's; listener: the name of the listener
        that it came in on, whose endpoints the answer names.
        """
        raise NotImplementedError

    def forget(self, token: int) -> None:
        """Drop a request whose connection is gone; nothing answers it."""
        raise NotImplementedError

    def response(self, request_id: int, response: Message | None, now_ms: int) -> None:
        """Take in what came of an `Outgoing`; None: it could not be sent, got no answer in time, or lost its connection.

        A peer that speaks no version of it counts as having answered UNSUPPORTED_VERSION.
        """
        raise NotImplementedError

    def next_deadline_ms(self) -> int | None:
        """Give when `tick` has to be called next at the latest, None when time alone changes nothing."""
        raise NotImplementedError

    def snapshot_written(self, snapshot: SnapshotInfo) -> None:
        """Take note of a whole snapshot that the driver made; it is served from now on."""
        raise NotImplementedError

    def log_trimmed(self, start_offset: int) -> None:
        """Take note that the log begins at `start_offset` now, and that snapshots which end before it are gone."""
        raise NotImplementedError

    def upgrade_kraft_version(self, version: int, now_ms: int, *, validate_only: bool = False) -> Proposal | None:
        """Raise kraft.version; ValueError says why it can't be. None: it stands already, or it was only validated."""
        raise NotImplementedError

    @property
    def leader(self) -> LeaderAndEpoch:
        """Who leads, and in which epoch."""
        return LeaderAndEpoch(self.leader_id, self.epoch)

    def resign(self, now_ms: int = 0) -> None:
        """Stop leading, before the node stops; what was proposed and is not committed stays undecided.

        The other voters are told (EndQuorumEpoch), those with the longest logs first in line to succeed.
        """
        if isinstance(self._role, Leader):
            self._role = Resigned(self.epoch, self._identity.key.node_id)
            self._entries.clear()

    def ready(self) -> Ready | None:
        """Give what has to be done next, or None; `advance` must follow before it is asked again."""
        if self._in_flight is not None:
            raise RuntimeError("the last Ready was not advanced")
        election = self._role.election()
        ready = Ready(
            election=election if election != self._saved else None,
            kraft_version=self._control.kraft_version.last.value,
            voter_ids=self._control.voters.last.value.node_ids,
            entries=tuple(self._entries),
            high_watermark=self._high_watermark if self._high_watermark != self._announced_hw else None,
            leadership=self._new_leadership(),
        )
        if not (ready.must_save or ready.high_watermark is not None or ready.leadership is not None):
            return None
        self._entries.clear()
        self._in_flight = ready
        return ready

    def advance(self, ready: Ready, now_ms: int) -> None:
        """Take note that `ready` was done: what it wrote is durable, what it announced was acted on."""
        if ready is not self._in_flight:
            raise RuntimeError("this is not the Ready that was given last")
        self._in_flight = None
        if ready.high_watermark is not None:
            self._announced_hw = ready.high_watermark
        if ready.leadership is not None:
            self._announced_epoch = ready.leadership.epoch
        if ready.election is not None:
            self._saved = ready.election
        if isinstance(self._role, Candidate) and self._saved == self._role.election():
            self._role.grant(self._identity.key.node_id)
        if isinstance(self._role, Leader) and ready.entries:
            voters = self._control.voters.last.value
            end = ready.entries[-1].end_offset
            if self._role.durable_to(self._identity.key.node_id, end, voters):
                self._high_watermark = self._role.high_watermark
        self.tick(now_ms)

    def _is_only_voter(self) -> bool:
        return self._control.voters.last.value.is_only(self._identity.key)

    def _new_leadership(self) -> Leadership | None:
        role = self._role
        if not isinstance(role, Leader) or role.high_watermark is None or self._announced_epoch == role.epoch:
            return None
        return Leadership(role.epoch, role.epoch_start)

    def _append(self, count: int, data: bytes) -> Entry:
        entry = Entry(self._end_offset, self.epoch, count, data)
        self._entries.append(entry)
        self._end_offset = entry.end_offset
        return entry

    def _lead(self, candidate: Candidate, now_ms: int) -> None:
        start = self._end_offset
        granted = tuple(sorted(candidate.granted))
        self._role = Leader(candidate.epoch, self._identity.key.node_id, start, granted)
        messages = self._start_of_epoch(self._role)
        data = encode_control(messages, base_offset=start, epoch=self.epoch, now_ms=now_ms)
        self._append(len(messages), data)
        for i, message in enumerate(messages):
            self._control.replay(start + i, message)

    def _start_of_epoch(self, role: Leader) -> list[Message]:
        """Give the epoch's first records: who leads and, where they never stood in the log or changed, the voters."""
        voters = self._control.voters.last
        messages: list[Message] = [leader_change(role.node_id, voters.value.node_ids, role.granted)]
        kraft_version = self._control.kraft_version.last.value
        if kraft_version > 0:
            mine = voters.value.get(role.node_id)
            if voters.offset == -1 or mine != self._identity.voter:
                messages.append(KRaftVersionRecord(version=0, kraft_version=kraft_version))
                messages.append(voters.value.with_voter(self._identity.voter).to_record())
        return messages


def _initial_role(key: ReplicaKey, saved: ElectionState, log_epoch: int) -> Role:
    """Give the role of a replica that just started; a candidate is one again by standing in the next epoch."""
    if saved.epoch < log_epoch:
        return Unattached(log_epoch)
    if saved.leader_id == key.node_id:
        return Resigned(saved.epoch, key.node_id)
    return Unattached(saved.epoch, saved.leader_id, saved.voted)


def _last_epoch(log: LogState) -> int:
    snapshot = log.snapshots[-1].id.epoch if log.snapshots else 0
    return max(snapshot, log.epochs[-1][0] if log.epochs else 0)
