"""What the core hands its driver, in the order in which it must be done.

1. To disk, durably, in this order: `election`, `truncate_to`, `snapshot`, `entries`. 2. Then everything that others may
see of it: `replies`, `requests`, `high_watermark`, `leadership`, `leader`. 3. `advance` tells the core, which may then
have more to do. What a reply needs from the disk (`Reply.read`) has to be read before the next Ready is done: that one
may cut the log.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.core.raft.election import ElectionState
from barnabas.core.raft.voters import Endpoint
from barnabas.model.topic_partition import OffsetAndEpoch
from barnabas.wire.message import Message


@dataclass(frozen=True, slots=True)
class Entry:
    """One record batch, encoded, offsets and leader epoch set. count: its records."""

    base_offset: int
    epoch: int
    count: int
    data: bytes

    @property
    def end_offset(self) -> int:
        """The offset after its last record."""
        return self.base_offset + self.count


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """A whole snapshot on disk. id: the offset after the last record in it, and that one's epoch."""

    id: OffsetAndEpoch
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LogState:
    """The log as it stands on disk when a replica starts.

    epochs: (epoch, offset of its first record), ascending, of what is between start and end; snapshots: the whole
    ones, oldest first.
    """

    start_offset: int = 0
    end_offset: int = 0
    epochs: tuple[tuple[int, int], ...] = ()
    snapshots: tuple[SnapshotInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """A stretch of a snapshot that is fetched from the leader; `position` 0 begins a new file, whatever was there.

    When it is the `last`, the snapshot is made whole, the log is cut to begin and end at its id, the older snapshots
    go, and the state machine restores it; the core has taken over its voters and kraft.version by itself.
    """

    id: OffsetAndEpoch
    position: int
    data: bytes
    last: bool


@dataclass(frozen=True, slots=True)
class LogRead:
    """Whole batches of the log from the one that holds `start_offset`, none beyond `end_offset`.

    max_bytes: what they may take together; the first batch counts however large it is. They go into `records` of the
    only partition of the FetchResponse.
    """

    start_offset: int
    end_offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class SnapshotRead:
    """Bytes of a snapshot, for `unaligned_records` of the only partition of the FetchSnapshotResponse."""

    id: OffsetAndEpoch
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to the request that came with `token`; read: what of the disk belongs into it."""

    token: int
    response: Message
    read: LogRead | SnapshotRead | None = None


@dataclass(frozen=True, slots=True)
class Peer:
    """Whom a request goes to. node_id: below -1 for a bootstrap server whose id is not known yet."""

    node_id: int
    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request to another replica, in the highest version that both speak; `RaftNode.response` takes what comes of it.

    After `timeout_ms` without an answer it has failed.
    """

    request_id: int
    to: Peer
    message: Message
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Leadership:
    """This replica leads the epoch, and everything before `start_offset` is committed and known to it."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class LeaderAndEpoch:
    """Who leads; None: nobody that this replica knows of."""

    node_id: int | None
    epoch: int


@dataclass(frozen=True, slots=True)
class Ready:
    """A step for the driver; `election` comes with the kraft.version and voters that its file form needs."""

    election: ElectionState | None = None
    kraft_version: int = 0
    voter_ids: tuple[int, ...] = ()
    truncate_to: int | None = None
    snapshot: InstallSnapshot | None = None
    entries: tuple[Entry, ...] = ()
    replies: tuple[Reply, ...] = ()
    requests: tuple[Outgoing, ...] = ()
    high_watermark: int | None = None
    leadership: Leadership | None = None
    leader: LeaderAndEpoch | None = None

    @property
    def must_save(self) -> bool:
        """Say whether anything has to reach the disk."""
        return (
            self.election is not None or self.truncate_to is not None or self.snapshot is not None or bool(self.entries)
        )


@dataclass(frozen=True, slots=True)
class Proposal:
    """Where proposed records stand, if they are ever committed: [base_offset, end_offset) of this epoch."""

    base_offset: int
    end_offset: int
    epoch: int


class InconsistentLogError(Exception):
    """The leader asks this replica to give up what is committed: one of the two has lost data. Nothing was changed."""


class NotLeaderError(Exception):
    """This replica does not lead, so it takes no proposals."""


class BatchTooLargeError(Exception):
    """Records that must stand in one batch are more than a batch may hold."""
