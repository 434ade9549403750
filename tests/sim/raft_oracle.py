"""Knows what no single replica can know, and says when one of Raft's promises is broken."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from barnabas.core.raft.leader import Leader
from barnabas.core.raft.node import RaftNode
from barnabas.core.raft.ready import Entry
from barnabas.core.raft.voters import ReplicaKey
from barnabas.wire.messages.vote import VoteRequest, VoteResponse
from barnabas.wire.record_batch import decode_batch

from .raft_disk import Disk, value_of


@dataclass(frozen=True)
class Committed:
    """An entry, and the epoch of the leader that committed it."""

    entry: Entry
    by_epoch: int


class Oracle:
    """The promises: one leader an epoch; high watermarks and epochs never go back; committed data agree and are never
    lost; who becomes leader has everything that earlier epochs committed; a replica votes once an epoch."""

    def __init__(self) -> None:
        self.leaders: dict[int, ReplicaKey] = {}
        self.votes: dict[tuple[ReplicaKey, int], int] = {}
        self.log: list[Committed] = []
        self._epochs: dict[RaftNode, int] = {}
        self._marks: dict[RaftNode, int] = {}
        self._digests: dict[int, bytes] = {0: b""}
        self._ends: dict[int, int] = {0: 0}

    @property
    def end(self) -> int:
        """The end of what is committed."""
        return self.log[-1].entry.end_offset if self.log else 0

    def look_at(self, key: ReplicaKey, node: RaftNode) -> None:
        """Check what can be seen of one replica."""
        epoch = node.epoch
        assert epoch >= self._epochs.get(node, 0), f"the epoch of {key.node_id} goes back to {epoch}"
        self._epochs[node] = epoch
        mark = node.high_watermark
        if mark is not None:
            assert mark >= self._marks.get(node, 0), f"the high watermark of {key.node_id} goes back to {mark}"
            assert mark <= node.log_end_offset
            self._marks[node] = mark
        if isinstance(node.role, Leader):
            first = self.leaders.setdefault(epoch, key)
            assert first == key, f"{first.node_id} and {key.node_id} both lead epoch {epoch}"

    def voted(self, key: ReplicaKey, asked: VoteRequest, response: VoteResponse) -> None:
        """Check a vote that goes out."""
        want = asked.topics[0].partitions[0]
        if response.topics and response.topics[0].partitions[0].vote_granted and not want.pre_vote:
            first = self.votes.setdefault((key, want.replica_epoch), want.replica_id)
            assert first == want.replica_id, f"{key.node_id} votes twice in epoch {want.replica_epoch}"

    def elected(self, role: Leader, disk: Disk) -> None:
        """Check that a new leader has everything that earlier epochs committed."""
        for known in self.log:
            if known.by_epoch < role.epoch:
                assert disk.holds(known.entry), f"leader of {role.epoch} lacks committed {known.entry.base_offset}"

    def committed(self, role: Leader, disk: Disk, voters: list[Disk]) -> None:
        """Take in what a leader declares committed; more than half of its voters must hold it."""
        mark = role.high_watermark or 0
        if mark <= self.end:
            return
        self.elected(role, disk)
        for entry in disk.entries:
            if self.end <= entry.base_offset and entry.end_offset <= mark:
                self.log.append(Committed(entry, role.epoch))
                digest = sha256(self._digests[entry.base_offset] + entry.data).digest()
                self._digests[entry.end_offset] = digest
                self._ends[entry.end_offset] = len(self.log)
        assert self.end == mark, f"the high watermark {mark} lies inside a batch"
        holders = sum(d.holds(self.log[-1].entry) and d.end >= mark for d in voters)
        assert holders > len(role.voters) // 2, f"{mark} is committed, but only {holders} of {len(role.voters)} hold it"

    def applied(self, node_id: int, disk: Disk, applied: int, high_watermark: int) -> int:
        """Check what a replica applies; gives how far it got."""
        if applied < disk.start:
            newest = max(disk.snapshots)
            if newest.offset > 0:
                said = next(iter(decode_batch(value_of(disk.snapshots[newest])))).value
                assert said == self._digests[newest.offset], f"the snapshot of {node_id} at {newest} is another's"
            applied = max(applied, disk.start)
        for entry in disk.entries:
            if applied <= entry.base_offset and entry.end_offset <= high_watermark:
                index = self._ends.get(entry.base_offset, len(self.log))
                assert index < len(self.log), f"{node_id} has committed at {entry.base_offset} what nobody committed"
                assert self.log[index].entry.data == entry.data, (
                    f"{node_id} has other data committed at {entry.base_offset}"
                )
                applied = entry.end_offset
        assert applied == high_watermark, f"{node_id} cannot apply to {high_watermark}, only to {applied}"
        return applied

    def digest(self, offset: int) -> bytes:
        """Give what stands for the state at an offset."""
        return self._digests[offset]
