"""A few replicas in one process, with a network that is instant and loses nothing unless told to, for the traces."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from barnabas.core.raft.leader import Leader
from barnabas.core.raft.node import Identity, RaftNode
from barnabas.core.raft.ready import Outgoing, Ready, SnapshotInfo
from barnabas.core.raft.settings import QuorumSettings
from barnabas.core.raft.snapshot_batches import snapshot_batches
from barnabas.core.raft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.model.uuid import Uuid
from barnabas.wire.message import Message
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from barnabas.wire.messages.fetch import FetchResponse
from barnabas.wire.messages.fetch_snapshot import FetchSnapshotResponse
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from tests.sim.raft_disk import Disk, steps_of

from .trace_words import said


class Turns:
    """Chance without chance: node 1 waits the shortest election timeout, node 2 a bit longer, and so on."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id

    def randrange(self, stop: int, /) -> int:
        """Give a number below `stop` that depends on the node alone."""
        return min(stop - 1, (self.node_id - 1) * stop // 10)


def key_of(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, Uuid(bytes([1]) + node_id.to_bytes(15, "big")))


def voter_of(node_id: int) -> Voter:
    return Voter(key_of(node_id), (("CONTROLLER", Endpoint("host", node_id)),))


@dataclass
class Machine:
    """One replica and its disk; node: None while it is down."""

    node_id: int
    disk: Disk
    node: RaftNode | None = None
    life: int = 0
    applied: int = 0
    shown: str = ""


@dataclass
class Cluster:
    """voters: who votes at first; the rest observes. Lines of what happens gather in `lines`."""

    voters: tuple[int, ...]
    machines: dict[int, Machine]
    now: int = 0
    lines: list[str] = field(default_factory=list)
    cut: set[int] = field(default_factory=set)
    waiting: dict[int, Callable[[Message], None]] = field(default_factory=dict)
    _events: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _count: count[int] = field(default_factory=count)

    @classmethod
    def of(cls, voters: tuple[int, ...], others: tuple[int, ...]) -> Cluster:
        """Give a formatted cluster, everything down."""
        first = VoterSet.of(voter_of(v) for v in voters)
        formatted = b"".join(
            snapshot_batches([], epoch=0, last_timestamp_ms=0, now_ms=0, kraft_version=1, voters=first)
        )
        machines = {n: Machine(n, Disk()) for n in (*voters, *others)}
        for n in voters:
            machines[n].disk.snapshots[OffsetAndEpoch(0, 0)] = formatted
        return cls(voters, machines)

    def start(self, node_id: int) -> None:
        """Start a replica from its disk."""
        machine = self.machines[node_id]
        machine.life += 1
        machine.applied = 0
        settings = QuorumSettings(
            bootstrap=tuple(Endpoint("host", v) for v in self.voters),
            fetch_snapshot_max_bytes=150,
        )
        machine.node = RaftNode(
            Identity(key_of(node_id), voter_of(node_id)),
            machine.disk.election,
            machine.disk.log_state(),
            machine.disk.control(VoterSet()),
            settings,
            Turns(node_id),
            self.now,
            cluster_id="trace",
        )
        self.step(machine, lambda node: node.tick(self.now))

    def step(self, machine: Machine, act: Callable[[RaftNode], object]) -> None:
        """Let a replica take something in and carry what it wants done."""
        node = machine.node
        if node is None:
            return
        act(node)
        while (ready := node.ready()) is not None:
            self._do(machine, node, ready)
        due = node.next_deadline_ms()
        if due is not None:
            self._at(due, lambda: self._tick(machine, node, due))

    def _tick(self, machine: Machine, node: RaftNode, due: int) -> None:
        if machine.node is node and node.next_deadline_ms() == due:
            self.step(machine, lambda n: n.tick(self.now))

    def _do(self, machine: Machine, node: RaftNode, ready: Ready) -> None:
        for step in steps_of(ready):
            machine.disk.do(step)
        for reply in ready.replies:
            response = reply.response
            if reply.read is not None:
                data = machine.disk.read(reply.read)
                if isinstance(response, FetchResponse):
                    response.responses[0].partitions[0].records = data
                elif isinstance(response, FetchSnapshotResponse):
                    response.topics[0].partitions[0].unaligned_records = data
            self.waiting.pop(reply.token)(response)
        for outgoing in ready.requests:
            self._send(machine, outgoing)
        machine.applied = ready.high_watermark or machine.applied
        node.advance(ready, self.now)

    def _send(self, machine: Machine, outgoing: Outgoing) -> None:
        target = self.machines[outgoing.to.endpoint.port]
        life, message = machine.life, outgoing.message

        def answered(response: Message | None) -> None:
            line = said(message, response)
            if line:
                self.lines.append(f"{machine.node_id} -> {target.node_id} {line}")
            if machine.life == life:
                self.step(machine, lambda node: node.response(outgoing.request_id, response, self.now))

        def arrive() -> None:
            if target.node is None or {machine.node_id, target.node_id} & self.cut:
                self._at(self.now, lambda: answered(None))
            elif isinstance(message, ApiVersionsRequest):
                feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
                answered(ApiVersionsResponse(supported_features=[feature]))
            else:
                self.request(target, message, answered)

        self._at(self.now, arrive)

    def request(self, machine: Machine, message: Message, answered: Callable[[Message], None]) -> None:
        """Let a request come in; `answered` gets the answer."""
        token = next(self._count)
        self.waiting[token] = lambda response: self._at(self.now, lambda: answered(response))
        self.step(machine, lambda n: n.request(token, message, message.MAX_VERSION, "CONTROLLER", self.now))

    def _at(self, when: int, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(when, self.now), next(self._count), act))

    def run_until(self, when: int) -> None:
        """Let time pass."""
        while self._events and self._events[0][0] <= when:
            self.now, _, act = heapq.heappop(self._events)
            act()
        self.now = when

    # -- what people do

    def leader(self) -> Machine:
        """Give the leader of the latest epoch."""
        led = [m for m in self.machines.values() if m.node is not None and isinstance(m.node.role, Leader)]
        return max(led, key=lambda m: m.node.epoch if m.node else 0)

    def admin(self, message: Message) -> None:
        """Send the leader an admin's request."""
        self.request(self.leader(), message, lambda response: self.lines.append(f"admin: {said(message, response)}"))

    def add(self, node_id: int) -> None:
        """Ask that a controller votes."""
        self.admin(
            AddRaftVoterRequest(
                cluster_id="trace",
                voter_id=node_id,
                voter_directory_id=key_of(node_id).directory_id,
                listeners=[Listener(name="CONTROLLER", host="host", port=node_id)],
            )
        )

    def remove(self, node_id: int) -> None:
        """Ask that a controller votes no more."""
        directory_id = key_of(node_id).directory_id
        self.admin(RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=directory_id))

    def snapshot(self, node_id: int) -> None:
        """Let a replica write a snapshot of what is committed, and delete the log before it."""
        machine = self.machines[node_id]
        node = machine.node
        assert node is not None
        last = next(e for e in reversed(machine.disk.entries) if e.end_offset <= machine.applied)
        snapshot_id = OffsetAndEpoch(last.end_offset, last.epoch)
        voters = node.control.voters.at(last.end_offset - 1)
        data = b"".join(
            snapshot_batches([], epoch=last.epoch, last_timestamp_ms=0, now_ms=0, kraft_version=1, voters=voters)
        )
        machine.disk.snapshots[snapshot_id] = data
        node.snapshot_written(SnapshotInfo(snapshot_id, len(data)))
        machine.disk.trim(snapshot_id)
        node.log_trimmed(snapshot_id.offset)

    def show(self) -> list[str]:
        """Give what has changed of the replicas."""
        changed = []
        for machine in self.machines.values():
            line = _describe(machine)
            if line != machine.shown:
                machine.shown = line
                changed.append(f"{machine.node_id} {line}")
        return changed


def _describe(machine: Machine) -> str:
    node = machine.node
    if node is None:
        return "down"
    role = type(node.role).__name__.lower()
    leader = node.role.leader_id
    follows = (
        f" of {leader}" if role == "follower" else f" leader={leader}" if role in ("unattached", "prospective") else ""
    )
    voters = ",".join(map(str, node.control.voters.last.value.node_ids))
    mark = "?" if node.high_watermark is None else node.high_watermark
    last = machine.disk.entries[-1].epoch if machine.disk.entries else "-"
    log = f"log={machine.disk.start}..{machine.disk.end}@{last}"
    return f"{role}{follows} epoch={node.epoch} {log} hw={mark} voters={voters}"
