"""The disk of a simulated replica: what is durable, and what a crash leaves of a Ready that was being written."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.core.raft.control import ControlState, control_messages
from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.ready import Entry, InstallSnapshot, LogRead, LogState, Ready, SnapshotInfo, SnapshotRead
from barnabas.core.raft.voters import VoterSet
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.wire.record_batch import iter_headers, read_header

Step = ElectionState | int | InstallSnapshot | Entry


def steps_of(ready: Ready) -> list[Step]:
    """Give what a Ready writes, in order; a crash keeps the first so many."""
    steps: list[Step] = []
    if ready.election is not None:
        steps.append(ready.election)
    if ready.truncate_to is not None:
        steps.append(ready.truncate_to)
    if ready.snapshot is not None:
        steps.append(ready.snapshot)
    return [*steps, *ready.entries]


@dataclass
class Disk:
    """Everything here survives a crash, but for the beginning of a snapshot."""

    election: ElectionState | None = None
    start: int = 0
    entries: list[Entry] = field(default_factory=list)
    snapshots: dict[OffsetAndEpoch, bytes] = field(default_factory=dict)
    part: bytes = b""

    @property
    def end(self) -> int:
        """The end offset of the log."""
        return self.entries[-1].end_offset if self.entries else self.start

    def do(self, step: Step) -> None:
        """Write one step of a Ready."""
        if isinstance(step, ElectionState):
            assert self.election is None or step.epoch >= self.election.epoch, "an epoch goes back"
            self.election = step
        elif isinstance(step, InstallSnapshot):
            self._install(step)
        elif isinstance(step, Entry):
            assert step.base_offset == self.end, f"an entry at {step.base_offset} does not follow {self.end}"
            assert not self.entries or self.entries[-1].epoch <= step.epoch, "epochs in the log go back"
            self.entries.append(step)
        else:
            while self.entries and self.entries[-1].base_offset >= step:
                self.entries.pop()
            assert self.end == step, f"a cut at {step} leaves {self.end}"

    def _install(self, step: InstallSnapshot) -> None:
        self.part = (self.part if step.position else b"") + step.data
        assert len(self.part) == step.position + len(step.data), "a hole in a snapshot"
        if step.last:
            self.snapshots = {step.id: self.part}
            self.part = b""
            self.entries.clear()
            self.start = step.id.offset

    def trim(self, snapshot_id: OffsetAndEpoch) -> None:
        """Let a snapshot take the place of what lies before it."""
        self.entries = [e for e in self.entries if e.base_offset >= snapshot_id.offset]
        self.start = snapshot_id.offset
        self.snapshots = {s: data for s, data in self.snapshots.items() if s.offset >= snapshot_id.offset}

    def log_state(self) -> LogState:
        """Give what the core is told of it at the start."""
        epochs: list[tuple[int, int]] = []
        for entry in self.entries:
            if not epochs or epochs[-1][0] != entry.epoch:
                epochs.append((entry.epoch, entry.base_offset))
        infos = tuple(SnapshotInfo(s, len(data)) for s, data in sorted(self.snapshots.items()))
        return LogState(self.start, self.end, tuple(epochs), infos)

    def control(self, static: VoterSet) -> ControlState:
        """Give the voters and kraft.version that newest snapshot and log set."""
        control = ControlState(static)
        newest = OffsetAndEpoch(0, 0)
        if self.snapshots:
            newest = max(self.snapshots)
            data = self.snapshots[newest]
            opening = control_messages(data[: read_header(data).size])
            control.restore(newest.offset - 1, [message for _, message in opening])
        for entry in self.entries:
            if entry.base_offset >= newest.offset and read_header(entry.data).is_control:
                for offset, message in control_messages(entry.data):
                    control.replay(offset, message)
        return control

    def read(self, read: LogRead | SnapshotRead) -> bytes:
        """Give the bytes that a reply asks for."""
        if isinstance(read, SnapshotRead):
            return self.snapshots.get(read.id, b"")[read.position : read.position + read.max_bytes]
        found = b""
        for entry in self.entries:
            if entry.base_offset >= read.start_offset and entry.end_offset <= read.end_offset:
                if found and len(found) + len(entry.data) > read.max_bytes:
                    break
                found += entry.data
        return found

    def holds(self, entry: Entry) -> bool:
        """Say whether the log or a snapshot holds a committed entry."""
        if entry.base_offset < self.start:
            return True
        return any(e.base_offset == entry.base_offset and e.data == entry.data for e in self.entries)


def value_of(snapshot: bytes) -> bytes:
    """Give the batch between the first and the last of a snapshot."""
    positions = [position for position, _ in iter_headers(snapshot)]
    return snapshot[positions[1] : positions[2]]
