"""The state of one replica and the moves between its roles; what makes it move is in the modules of the messages.

    Unattached --election timeout--> Prospective --majority would vote--> Candidate --majority voted--> Leader
    Leader --told to, or no majority fetches--> Resigned --election timeout--> Unattached (epoch + 1)
    Prospective --too few would vote--> Follower of the leader it had, or Unattached
    Candidate --election timeout--> Prospective
    any --a leader is known--> Follower --fetch timeout--> Prospective
    any --a later epoch is known--> Unattached

Observers are only ever Unattached or Follower (or Resigned, when they led and were removed).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.core.raft.candidate import Candidate
from barnabas.core.raft.connections import Connections
from barnabas.core.raft.control import ControlState, encode_control, leader_change
from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.follower import Follower
from barnabas.core.raft.leader import Leader
from barnabas.core.raft.log_view import LogView
from barnabas.core.raft.outbox import Outbox
from barnabas.core.raft.prospective import Prospective
from barnabas.core.raft.ready import Entry, LogRead, LogState, Outgoing, Peer, Reply, SnapshotInfo, SnapshotRead
from barnabas.core.raft.resigned import Resigned
from barnabas.core.raft.settings import QuorumSettings, Rng
from barnabas.core.raft.unattached import Unattached
from barnabas.core.raft.voters import Endpoint, Endpoints, ReplicaKey, Voter, VoterSet, endpoint_on
from barnabas.core.raft.votes import Votes
from barnabas.wire.message import Message
from barnabas.wire.records.kraft_version_record import KRaftVersionRecord

MessageTo = Callable[[ReplicaKey], Message]
Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned

_CHECK_QUORUM_FACTOR: Final = 1.5


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this replica is: its key, and the voter that it would be, with the endpoints it is reached at now."""

    key: ReplicaKey
    voter: Voter


class Replica:
    """What every module of the core works on. Times: see `RaftNode`.

    stopping: the node shuts down, so that it stands for nothing any more; has_news: the leader's high watermark moved,
    and who waits for it has not been told; left: leaderships that ended and still owe answers.
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
        cluster_id: str,
    ) -> None:
        self.key: Final = identity.key
        self.voter: Final = identity.voter
        self.settings: Final = settings
        self.cluster_id: Final = cluster_id
        self.control: Final = control
        self.log: Final = LogView(log)
        self.connections: Final = Connections(settings.request_timeout_ms, settings.retry_backoff_ms)
        self.outbox: Final = Outbox(log.end_offset)
        self.now_ms = now_ms
        self.high_watermark: int | None = None
        self.first_heard_high_watermark: int | None = None
        """The end of what was committed when a leader first told this replica of it."""
        self.stopping = False
        self.has_news = False
        self.left_out: Final[dict[Endpoint, int]] = {}
        """Addresses at which nobody listens, and until when they are not asked."""
        self.left: Final[list[Leader]] = []
        self._rng = rng
        self._request_id = 0
        mine = endpoint_on(identity.voter.endpoints, settings.listener)
        self.bootstrap: Final = tuple(
            Peer(-2 - i, endpoint) for i, endpoint in enumerate(settings.bootstrap) if endpoint != mine
        )
        self.role: Role = self._initial_role(saved or ElectionState())

    # -- what it is

    @property
    def epoch(self) -> int:
        """The epoch it is in."""
        return self.role.epoch

    @property
    def voters(self) -> VoterSet:
        """The voters in force, committed or not."""
        return self.control.voters.last.value

    @property
    def kraft_version(self) -> int:
        """The kraft.version in force."""
        return self.control.kraft_version.last.value

    @property
    def is_voter(self) -> bool:
        """Say whether this replica votes."""
        return self.voters.has(self.key)

    @property
    def may_stand(self) -> bool:
        """Say whether this replica takes part in elections: it votes, or did until a change that may not be committed.

        Without the latter, a leader that has removed itself and lost its leadership could neither be elected nor vote
        for those who have less of the log than it, and where it is needed for a majority nobody could ever lead again
        (Ongaro's thesis, 4.2.2; Kafka leaves this out).
        """
        if self.is_voter:
            return True
        changed = self.control.voters.last.offset
        return changed >= (self.high_watermark or 0) and self.control.voters.at(changed - 1).has(self.key)

    @property
    def is_only_voter(self) -> bool:
        """Say whether nobody else votes."""
        return self.voters.is_only(self.key)

    def election_deadline(self) -> int:
        """Give a moment between one and two election timeouts from now."""
        timeout = self.settings.election_timeout_ms
        return self.now_ms + timeout + (self._rng.randrange(timeout) if timeout else 0)

    def bootstrap_server(self) -> Peer | None:
        """Give a bootstrap server, by chance, that can be asked now; None while anything is under way."""
        if not self.bootstrap or self.connections.any_in_flight:
            return None
        first = self._rng.randrange(len(self.bootstrap))
        servers = [*self.bootstrap[first:], *self.bootstrap[:first]]
        servers = [peer for peer in servers if not self.is_left_out(peer.endpoint)] or servers
        return next((peer for peer in servers if self.connections.can_send(peer.node_id)), None)

    def is_left_out(self, endpoint: Endpoint) -> bool:
        """Say whether an address refused connections a moment ago (`absence`)."""
        return self.now_ms < self.left_out.get(endpoint, self.now_ms)

    # -- what goes out

    def reply(self, token: int, response: Message, read: LogRead | SnapshotRead | None = None) -> None:
        """Answer a request."""
        self.outbox.replies.append(Reply(token, response, read))

    def send(self, peer: Peer, message: Message) -> int:
        """Send a request; gives its id."""
        self._request_id += 1
        self.connections.sent(peer, self._request_id, self.now_ms)
        self.outbox.requests.append(Outgoing(self._request_id, peer, message, self.settings.request_timeout_ms))
        return self._request_id

    def send_to_voters(self, keys: Sequence[ReplicaKey], message_to: MessageTo) -> None:
        """Send to those voters that nothing is under way to; one whose endpoint is not known is left out."""
        for key in keys:
            endpoint = endpoint_on(self.voters.endpoints_of(key.node_id), self.settings.listener)
            if endpoint is not None and key.node_id != self.key.node_id and self.connections.can_send(key.node_id):
                self.send(Peer(key.node_id, endpoint), message_to(key))

    def append(self, count: int, data: bytes) -> Entry:
        """Append a batch of this leader's, whose base offset is the log's end."""
        entry = Entry(self.log.end, self.epoch, count, data)
        self.log.append(entry.epoch, entry.end_offset)
        self.outbox.entries.append(entry)
        return entry

    def append_control(self, messages: Sequence[Message]) -> Entry:
        """Append a batch of control records, which hold from now on, committed or not."""
        base = self.log.end
        data = encode_control(messages, base_offset=base, epoch=self.epoch, now_ms=self.now_ms)
        entry = self.append(len(messages), data)
        for i, message in enumerate(messages):
            self.control.replay(base + i, message)
        return entry

    def truncate_to(self, offset: int) -> None:
        """Cut the log."""
        self.log.truncate_to(offset)
        self.control.truncate_to(offset)
        self.outbox.truncate(offset)

    def truncate_for_snapshot(self, snapshot: SnapshotInfo, messages: Sequence[Message]) -> None:
        """Begin the log anew with a snapshot that was fetched; messages: its control records."""
        self.log.install(snapshot)
        self.control.restore(snapshot.id.offset - 1, messages)

    def commit(self, high_watermark: int) -> None:
        """Raise the high watermark; it never goes back."""
        if self.high_watermark is None or high_watermark > self.high_watermark:
            self.high_watermark = high_watermark

    def committed(self, role: Leader) -> None:
        """Take note that the leader's high watermark moved; who waits for it is told at the end of the step."""
        self.has_news = True
        if role.high_watermark is not None:
            self.commit(role.high_watermark)

    # -- moves

    def become_unattached(self, epoch: int, leader_id: int | None = None) -> None:
        """Follow nobody in `epoch`. A voter stands itself when the time it had left is over."""
        role = self.role
        voted = role.election().voted if epoch == role.epoch else None
        self._become(Unattached(epoch, leader_id, voted, self._time_left(role)))

    def become_prospective(self) -> None:
        """Ask the other voters whether they would vote for this replica."""
        role = self.role
        election = role.election()
        votes = Votes(self.voters)
        votes.record(self.key.node_id, True)
        if isinstance(role, Follower) and role.leader_is_gone:
            votes.record(role.leader_id, False)  # not waited for: who is refused by others can soon ask again
        self._become(
            Prospective(
                role.epoch,
                election.leader_id,
                role.leader_endpoints,
                election.voted,
                votes,
                self.election_deadline(),
            )
        )
        if votes.is_won:
            self.become_candidate()

    def become_candidate(self) -> None:
        """Stand for the next epoch."""
        self._become(Candidate(self.epoch + 1, self.key, Votes(self.voters), self.election_deadline()))

    def become_leader(self, votes: Votes) -> None:
        """Lead the epoch stood for: its first records say so, and who votes where that never stood in the log."""
        settings = self.settings
        role = Leader(
            self.epoch,
            self.voter,
            self.log.end,
            votes.granting,
            check_timeout_ms=int(settings.fetch_timeout_ms * _CHECK_QUORUM_FACTOR),
            begin_interval_ms=settings.fetch_timeout_ms // 2,
            begin_ms=self.now_ms,
        )
        role.check_ms = self.now_ms + role.check_timeout_ms
        if self.kraft_version == 0:
            role.volatile_voters = self.voters.with_voter(self.voter)
        role.use_voters(self.voters)
        self._become(role)
        self.append_control(self._start_of_epoch(role))

    def become_follower(self, epoch: int, leader_id: int, endpoints: Endpoints) -> None:
        """Fetch from the leader of `epoch`."""
        role = self.role
        voted = role.election().voted if epoch == role.epoch else None
        timeout = self.settings.fetch_timeout_ms
        self._become(Follower(epoch, leader_id, endpoints, voted, self.now_ms + timeout, self.now_ms + timeout))

    def resign(self) -> None:
        """Stop leading; the voters with the longest logs are first in line to succeed."""
        role = self.role
        if isinstance(role, Leader):
            others = {n for n in self.voters.node_ids if n != self.key.node_id}
            self._become(
                Resigned(
                    role.epoch,
                    self.key.node_id,
                    self.voter.endpoints,
                    others,
                    role.successors(),
                    self.election_deadline(),
                )
            )

    def _become(self, role: Role) -> None:
        before = self.role
        self.role = role
        self.connections.reset()
        self.outbox.requests.clear()
        if isinstance(before, Leader):
            if self.outbox.entries:
                self.truncate_to(self.outbox.entries[0].base_offset)
            self.left.append(before)

    def _time_left(self, role: Role) -> int | None:
        if not self.may_stand:
            return None
        if isinstance(role, Candidate | Resigned) or (isinstance(role, Prospective) and not role.votes.is_lost):
            return role.deadline_ms
        if isinstance(role, Unattached) and role.deadline_ms is not None:
            return role.deadline_ms
        return self.election_deadline()

    def _start_of_epoch(self, role: Leader) -> list[Message]:
        """Give the epoch's first records: who leads and, where they never stood in the log or changed, the voters."""
        voters = self.control.voters.last
        messages: list[Message] = [leader_change(role.node_id, voters.value.node_ids, role.granted)]
        version = self.kraft_version
        if version > 0 and self.is_voter and (voters.offset == -1 or voters.value.get(role.node_id) != self.voter):
            messages.append(KRaftVersionRecord(version=0, kraft_version=version))
            messages.append(voters.value.with_voter(self.voter).to_record())
        return messages

    def _initial_role(self, saved: ElectionState) -> Role:
        if saved.epoch < self.log.last_epoch:
            return Unattached(self.log.last_epoch, deadline_ms=self._first_deadline())
        if saved.leader_id == self.key.node_id:
            others = {n for n in self.voters.node_ids if n != self.key.node_id}
            return Resigned(
                saved.epoch, self.key.node_id, self.voter.endpoints, others, deadline_ms=self.election_deadline()
            )
        if saved.leader_id is None and saved.voted_for(self.key) and self.may_stand:
            return Candidate(saved.epoch, self.key, Votes(self.voters), self.election_deadline())
        if saved.leader_id is not None and (endpoints := self.voters.endpoints_of(saved.leader_id)):
            deadline = self.now_ms + self.settings.fetch_timeout_ms
            return Follower(saved.epoch, saved.leader_id, endpoints, saved.voted, deadline, deadline)
        return Unattached(saved.epoch, saved.leader_id, saved.voted, self._first_deadline())

    def _first_deadline(self) -> int | None:
        return self.election_deadline() if self.may_stand else None
