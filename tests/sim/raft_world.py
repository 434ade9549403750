"""A quorum in a simulated world: one seed decides delays, losses, crashes, pauses, clocks and what people ask.

Invariants are checked after every step of every replica; see `Oracle`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random

from barnabas.core.raft.control import ControlState
from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.leader import Leader
from barnabas.core.raft.node import Identity, RaftNode
from barnabas.core.raft.ready import NotLeaderError, Outgoing, Ready, Reply, SnapshotInfo
from barnabas.core.raft.settings import QuorumSettings
from barnabas.core.raft.snapshot_batches import snapshot_batches
from barnabas.core.raft.voter_changes import KRAFT_VERSION_FEATURE
from barnabas.core.raft.voters import Endpoint, ReplicaKey, Voter, VoterSet, static_voters
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import Message, decode, encode
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest
from barnabas.wire.messages.add_raft_voter import Listener as AddListener
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from barnabas.wire.messages.fetch_snapshot import FetchSnapshotResponse
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.wire.messages.vote import VoteRequest, VoteResponse

from .raft_disk import Disk, steps_of
from .raft_oracle import Oracle

LISTENER = "CONTROLLER"
CLUSTER = "simulated"


def directory(node_id: int, life: int = 0) -> Uuid:
    return Uuid(bytes([1, life]) + node_id.to_bytes(14, "big"))


def endpoint(node_id: int) -> Endpoint:
    return Endpoint("sim", 9000 + node_id)


def voter(key: ReplicaKey) -> Voter:
    return Voter(key, ((LISTENER, endpoint(key.node_id)),))


@dataclass
class Host:
    """A machine: its disk, its clock, and the replica on it while it runs."""

    node_id: int
    key: ReplicaKey
    disk: Disk
    can_vote: bool
    offset_ms: int
    rate: float
    life: int = 0
    node: RaftNode | None = None
    writing: Ready | None = None
    paused_until: int = 0
    applied: int = 0
    requests: dict[int, Message] = field(default_factory=dict)
    led: object = None

    def clock(self, now: int) -> int:
        """Give what its clock says."""
        return self.offset_ms + int(now * self.rate)


@dataclass(frozen=True)
class Shape:
    """What a world is like. voters, others: how many controllers vote at first, and how many do not; loss: of a
    hundred messages; kraft_version: 0 with static voters; fetch_max_bytes: 1 lets each batch travel alone;
    patience_ms: the election timeout, and half of the others."""

    voters: int = 3
    others: int = 1
    brokers: int = 1
    kraft_version: int = 1
    auto_join: bool = False
    loss: int = 2
    duplicates: int = 2
    old_peers: bool = False
    max_delay_ms: int = 60
    max_write_ms: int = 12
    fetch_max_bytes: int = 400
    patience_ms: int = 1000


class World:
    """Run it with `run_until`; faults and wishes are scheduled by the tests."""

    def __init__(self, seed: int, shape: Shape) -> None:
        self.rng = Random(seed)
        self.shape = shape
        self.now = 0
        self.oracle = Oracle()
        self.faults = True
        self.blocked: set[tuple[int, int]] = set()
        self.trace: list[str] | None = None
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._tokens: dict[tuple[int, int, int], tuple[Host | None, int, int]] = {}
        self._token = count(1)
        ids = range(1, shape.voters + 1)
        keys = [ReplicaKey(i, directory(i)) for i in ids]
        self._formatted = b""
        self._static = VoterSet()
        if shape.kraft_version == 0:
            self._static = static_voters({i: endpoint(i) for i in ids}, LISTENER)
        else:
            first = VoterSet.of(voter(key) for key in keys)
            self._formatted = b"".join(
                snapshot_batches([], epoch=0, last_timestamp_ms=0, now_ms=0, kraft_version=1, voters=first)
            )
        total = shape.voters + shape.others + shape.brokers
        self.hosts = {i: self._host(i, i <= shape.voters + shape.others) for i in range(1, total + 1)}
        for host in self.hosts.values():
            self.start(host)

    def _host(self, node_id: int, can_vote: bool) -> Host:
        rate = 1 + self.rng.randrange(-50, 51) / 1000
        disk = Disk()
        if self.shape.kraft_version > 0 and node_id <= self.shape.voters:
            disk.snapshots[OffsetAndEpoch(0, 0)] = self._formatted
        key = ReplicaKey(node_id, directory(node_id))
        return Host(node_id, key, disk, can_vote, 10**12 + self.rng.randrange(10_000), rate)

    # -- time

    def at(self, delay_ms: int, act: Callable[[], None]) -> None:
        """Let something happen after a while."""
        heapq.heappush(self._events, (self.now + max(0, delay_ms), next(self._order), act))

    def run_until(self, end: int) -> None:
        """Let time pass."""
        while self._events and self._events[0][0] <= end:
            self.now, _, act = heapq.heappop(self._events)
            act()
        self.now = end

    def run_until_true(self, condition: Callable[[], bool], limit_ms: int) -> bool:
        """Let time pass until `condition` holds; False when it does not within the limit."""
        end = self.now + limit_ms
        while self.now < end:
            if condition():
                return True
            self.run_until(self.now + 50)
        return condition()

    # -- machines

    def running(self) -> Iterator[tuple[Host, RaftNode]]:
        """Give the hosts that run."""
        for host in self.hosts.values():
            if host.node is not None:
                yield host, host.node

    def leaders(self) -> list[tuple[Host, RaftNode, Leader]]:
        """Give those who believe that they lead and have committed something, latest epoch first."""
        return [found for found in self.believers() if found[2].high_watermark is not None]

    def believers(self) -> list[tuple[Host, RaftNode, Leader]]:
        """Give those who believe that they lead, whether they have committed anything or not, latest epoch first."""
        found = [(h, n, n.role) for h, n in self.running() if isinstance(n.role, Leader)]
        return sorted(found, key=lambda f: -f[2].epoch)

    def controls(self) -> Iterator[ControlState]:
        """Give the voters and kraft.version of every replica, in memory and on disk."""
        for host in self.hosts.values():
            yield host.disk.control(self._static)
            if host.node is not None:
                yield host.node.control

    def start(self, host: Host) -> None:
        """Start the replica from its disk."""
        shape = self.shape
        settings = QuorumSettings(
            can_vote=host.can_vote,
            auto_join=shape.auto_join and host.can_vote,
            bootstrap=tuple(endpoint(i) for i in range(1, shape.voters + shape.others + 1)),
            fetch_max_bytes=shape.fetch_max_bytes,
            election_timeout_ms=shape.patience_ms,
            fetch_timeout_ms=2 * shape.patience_ms,
            request_timeout_ms=2 * shape.patience_ms,
            fetch_snapshot_max_bytes=100,
        )
        host.life += 1
        host.writing = None
        host.led = None
        host.requests.clear()
        host.disk.part = b""
        host.applied = 0
        host.node = RaftNode(
            Identity(host.key, voter(host.key)),
            host.disk.election,
            host.disk.log_state(),
            host.disk.control(self._static),
            settings,
            Random(self.rng.randrange(2**32)),
            host.clock(self.now),
            cluster_id=CLUSTER,
        )
        self._note(f"start {host.node_id}")
        self.step(host, lambda node, now: node.tick(now))

    def crash(self, host: Host) -> None:
        """Stop the replica at once; of what it was writing a part may be on disk."""
        if host.node is None:
            return
        self._note(f"crash {host.node_id}")
        if host.writing is not None:
            steps = steps_of(host.writing)
            for step in steps[: self.rng.randrange(len(steps) + 1)]:
                host.disk.do(step)
        host.node = None
        host.writing = None

    def pause(self, host: Host, for_ms: int) -> None:
        """Let the machine sleep; what happens meanwhile reaches it when it wakes."""
        self._note(f"pause {host.node_id} for {for_ms}")
        host.paused_until = max(host.paused_until, self.now + for_ms)

    def wipe(self, host: Host) -> None:
        """Give a host that is down an empty disk with a new directory id."""
        self._note(f"wipe {host.node_id}")
        host.disk = Disk()
        host.key = ReplicaKey(host.node_id, directory(host.node_id, host.life % 200 + 1))

    def step(self, host: Host, act: Callable[[RaftNode, int], None]) -> None:
        """Let a replica take something in, check the invariants, and carry what it wants done."""
        node = host.node
        if node is None:
            return
        if host.paused_until > self.now:
            life = host.life
            self.at(host.paused_until - self.now, lambda: self.step(host, act) if host.life == life else None)
            return
        act(node, host.clock(self.now))
        self._check(host, node)
        self._carry(host, node)
        self._schedule_tick(host, node)

    def _schedule_tick(self, host: Host, node: RaftNode) -> None:
        due = node.next_deadline_ms()
        if due is None:
            return
        delay = int((due - host.clock(self.now)) / host.rate) + 1
        assert delay > -1000 or host.paused_until, f"node {host.node_id} wants to be woken in the past"

        def tick() -> None:
            if host.node is node and node.next_deadline_ms() == due:
                self.step(host, lambda n, now: n.tick(now))

        self.at(max(1, delay), tick)

    # -- carrying a Ready

    def _carry(self, host: Host, node: RaftNode) -> None:
        while host.writing is None and (ready := node.ready()) is not None:
            # A fetch that waited may count once more, and commit, when it is answered.
            self._check(host, node)
            if ready.must_save and self.shape.max_write_ms:
                host.writing = ready
                self._write(host, ready)
                return
            self._do(host, node, ready)

    def _write(self, host: Host, ready: Ready) -> None:
        life = host.life
        self.at(self.rng.randrange(self.shape.max_write_ms), lambda: self._written(host, life, ready))

    def _written(self, host: Host, life: int, ready: Ready) -> None:
        node = host.node
        if host.life != life or node is None or host.writing is not ready:
            return
        if host.paused_until > self.now:
            self.at(host.paused_until - self.now, lambda: self._written(host, life, ready))
            return
        host.writing = None
        self._do(host, node, ready)
        self._carry(host, node)
        self._schedule_tick(host, node)

    def _do(self, host: Host, node: RaftNode, ready: Ready) -> None:
        for step in steps_of(ready):
            host.disk.do(step)
        if ready.snapshot is not None and ready.snapshot.last:
            host.applied = 0
        for reply in ready.replies:
            self._reply(host, reply)
        for outgoing in ready.requests:
            self._send(host, outgoing)
        if ready.high_watermark is not None:
            host.applied = self.oracle.applied(host.node_id, host.disk, host.applied, ready.high_watermark)
        node.advance(ready, host.clock(self.now))
        self._check(host, node)

    def _check(self, host: Host, node: RaftNode) -> None:
        self.oracle.look_at(host.key, node)
        # A leader that is removed resigns in the step in which its removal is committed.
        for role in (host.led, node.role):
            if isinstance(role, Leader):
                self.oracle.committed(role, host.disk, self._voter_disks(role))
        host.led = node.role

    def _voter_disks(self, role: Leader) -> list[Disk]:
        return [self.hosts[p.key.node_id].disk for p in role.voters.values() if p.is_of(self.hosts[p.key.node_id].key)]

    # -- the network

    def _delay(self) -> int:
        return self.rng.randrange(1, self.shape.max_delay_ms) if self.faults else self.rng.randrange(1, 5)

    def _is_lost(self, source: int, target: int) -> bool:
        if (source, target) in self.blocked:
            return True
        return self.faults and self.rng.randrange(100) < self.shape.loss

    def _send(self, host: Host, outgoing: Outgoing) -> None:
        target = self.hosts[outgoing.to.endpoint.port - 9000]
        life, request_id = host.life, outgoing.request_id
        message = outgoing.message
        host.requests[request_id] = message
        version = self._version(message)
        if version is None:
            refused = VoteResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
            self.at(self._delay(), lambda: self._respond(host, life, request_id, refused))
            return
        copies = 1 + (self.faults and self.rng.randrange(100) < self.shape.duplicates)
        for _ in range(copies):
            if self._is_lost(host.node_id, target.node_id):
                if self.rng.randrange(2):
                    self.at(self._delay(), lambda: self._respond(host, life, request_id, None))
                    if not self.rng.randrange(4):  # something on the way refuses for the other
                        self.at(self._delay(), lambda: self._refuse(host, life, target))
                continue
            self.at(self._delay(), lambda: self._receive(host, life, request_id, target, message, version))

    def _version(self, message: Message) -> int | None:
        """Give the version in which a message is sent, None when it cannot be said in what old peers know."""
        if not self.shape.old_peers or isinstance(message, AddRaftVoterRequest) or not self.rng.randrange(2):
            return message.MAX_VERSION
        if isinstance(message, VoteRequest):
            old = self.rng.randrange(0, 2)
            return None if message.topics[0].partitions[0].pre_vote else old
        if isinstance(message, FetchRequest):
            return self.rng.randrange(12, 19)
        return self.rng.randrange(message.MIN_VERSION, message.MAX_VERSION + 1)

    def _receive(self, source: Host, life: int, request_id: int, target: Host, message: Message, version: int) -> None:
        if target.node is None:
            self.at(self._delay(), lambda: self._respond(source, life, request_id, None))
            self.at(self._delay(), lambda: self._refuse(source, life, target))
            return
        if isinstance(message, ApiVersionsRequest):
            feature = SupportedFeatureKey(name=KRAFT_VERSION_FEATURE, min_version=0, max_version=1)
            answer = ApiVersionsResponse(supported_features=[feature])
            self.at(self._delay(), lambda: self._respond(source, life, request_id, answer))
            return
        token = next(self._token)
        self._tokens[target.node_id, target.life, token] = (source, life, request_id)
        message = _over_the_wire(message, version)
        self.step(target, lambda node, now: node.request(token, message, version, LISTENER, now))

    def _reply(self, host: Host, reply: Reply) -> None:
        response = reply.response
        if reply.read is not None:
            data = host.disk.read(reply.read)
            if isinstance(response, FetchResponse):
                response.responses[0].partitions[0].records = data
            elif isinstance(response, FetchSnapshotResponse):
                response.topics[0].partitions[0].unaligned_records = data
        source, life, request_id = self._tokens.pop((host.node_id, host.life, reply.token))
        if source is None:
            self._note(f"answer {type(response).__name__} {getattr(response, 'error_code', '')}")
            return
        asked = source.requests.get(request_id)
        if isinstance(response, VoteResponse) and isinstance(asked, VoteRequest):
            self.oracle.voted(host.key, asked, response)
        if self._is_lost(host.node_id, source.node_id):
            return
        self.at(self._delay(), lambda: self._respond(source, life, request_id, response))

    def _refuse(self, host: Host, life: int, target: Host) -> None:
        """Let a host find that nobody listens where another is, or seems to be."""
        if host.life == life:
            self.step(host, lambda node, now: node.absent(endpoint(target.node_id), now))

    def _respond(self, host: Host, life: int, request_id: int, response: Message | None) -> None:
        if host.life == life:
            self.step(host, lambda node, now: node.response(request_id, response, now))

    # -- wishes

    def propose(self, value: bytes) -> None:
        """Ask whoever believes to lead to write."""
        leaders = self.leaders()
        if not leaders:
            return
        host = self.rng.choice(leaders)[0]
        if host.paused_until > self.now:
            return

        def act(node: RaftNode, now: int) -> None:
            try:
                node.propose([value, value], now)
            except NotLeaderError:
                return

        self.step(host, act)

    def ask(self, host: Host, message: Message) -> None:
        """Send an admin's request to a host."""
        if host.node is not None:
            token = next(self._token)
            self._tokens[host.node_id, host.life, token] = (None, 0, 0)
            self.step(host, lambda node, now: node.request(token, message, message.MAX_VERSION, LISTENER, now))

    def add_voter(self, leader: Host, host: Host) -> None:
        """Ask a leader to let a controller vote."""
        where = endpoint(host.node_id)
        self.ask(
            leader,
            AddRaftVoterRequest(
                cluster_id=CLUSTER,
                voter_id=host.node_id,
                voter_directory_id=host.key.directory_id,
                listeners=[AddListener(name=LISTENER, host=where.host, port=where.port)],
            ),
        )

    def remove_voter(self, leader: Host, key: ReplicaKey) -> None:
        """Ask a leader to let a controller vote no more."""
        removal = RemoveRaftVoterRequest(cluster_id=CLUSTER, voter_id=key.node_id, voter_directory_id=key.directory_id)
        self.ask(leader, removal)

    def snapshot(self, host: Host, trim: bool) -> None:
        """Let a host write a snapshot of what it has applied, and perhaps delete what it makes needless."""
        node = host.node
        if node is None or host.writing is not None or host.applied <= host.disk.start:
            return
        last = next((e for e in reversed(host.disk.entries) if e.end_offset <= host.applied), None)
        if last is None:
            return
        snapshot_id = OffsetAndEpoch(last.end_offset, last.epoch)
        data = b"".join(
            snapshot_batches(
                [self.oracle.digest(last.end_offset)],
                epoch=last.epoch,
                last_timestamp_ms=0,
                now_ms=0,
                kraft_version=node.control.kraft_version.at(last.end_offset - 1),
                voters=node.control.voters.at(last.end_offset - 1),
            )
        )
        host.disk.snapshots[snapshot_id] = data
        node.snapshot_written(SnapshotInfo(snapshot_id, len(data)))
        if trim:
            host.disk.trim(snapshot_id)
            node.log_trimmed(snapshot_id.offset)

    def _note(self, line: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.now} {line}")


def _over_the_wire(message: Message, version: int) -> Message:
    """Give the message as it arrives in that version."""
    if isinstance(message, FetchRequest) and version < 15:
        message = decode(FetchRequest, 18, encode(message, 18))
        message.replica_id = message.replica_state.replica_id
        message.replica_state = ReplicaState()
    elif version == message.MAX_VERSION:
        return message
    return decode(type(message), version, encode(message, version))


__all__ = ["ElectionState", "Host", "Shape", "World"]
