"""The log as the core knows it: offsets, epochs, snapshots; the bytes are the driver's.

It runs ahead of the disk: what was appended counts from the moment it was handed to a Ready.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum
from typing import Final, NamedTuple

from barnabas.core.raft.ready import LogState, SnapshotInfo
from barnabas.model.topic_partition import OffsetAndEpoch

BOOTSTRAP_SNAPSHOT: Final = OffsetAndEpoch(0, 0)
"""The snapshot that formatting makes: it is never served, the log from 0 on says more."""


class Fit(Enum):
    """How a replica's log relates to ours, from the end and last epoch that it names."""

    VALID = "a prefix of ours"
    DIVERGING = "not a prefix of ours; to be cut"
    SNAPSHOT = "too old; we no longer have what comes next"


class LogFit(NamedTuple):
    """at: where to cut, or the snapshot to fetch instead."""

    fit: Fit
    at: OffsetAndEpoch


class LogView:
    """Offsets and epochs of the log. epochs: their first offsets, ascending."""

    def __init__(self, state: LogState) -> None:
        self.start = state.start_offset
        self.end = state.end_offset
        self._epochs: list[int] = [epoch for epoch, _ in state.epochs]
        self._starts: list[int] = [start for _, start in state.epochs]
        self._snapshots: dict[OffsetAndEpoch, int] = {s.id: s.size_bytes for s in state.snapshots}
        self._last_snapshot = max(self._snapshots, default=None)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; 0 of nothing."""
        if self._epochs:
            return self._epochs[-1]
        return 0 if self._last_snapshot is None else self._last_snapshot.epoch

    @property
    def end_and_epoch(self) -> OffsetAndEpoch:
        """The end, and the epoch of the record before it."""
        return OffsetAndEpoch(self.end, self.last_epoch)

    @property
    def newest_snapshot(self) -> OffsetAndEpoch | None:
        """The newest snapshot, None when there is none."""
        return self._last_snapshot

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """Give the bytes of a snapshot, None when there is no such one."""
        return self._snapshots.get(snapshot_id)

    def reaches(self, end: OffsetAndEpoch) -> bool:
        """Say whether a log that ends at `end` is at least as far as this one: what a vote asks (Raft 5.4.1)."""
        return (end.epoch, end.offset) >= (self.last_epoch, self.end)

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Give the end of the greatest epoch that is not above `epoch`, with that epoch."""
        at = bisect_right(self._epochs, epoch)
        if at == len(self._epochs):
            # Of an epoch later than all of ours we know nothing better than where we end.
            return self.end_and_epoch
        if at > 0:
            return OffsetAndEpoch(self._starts[at], self._epochs[at - 1])
        oldest = min(self._snapshots, default=None)
        if oldest is not None and oldest.offset == self._starts[0]:
            return oldest
        return OffsetAndEpoch(self._starts[0], epoch)

    def fit(self, offset: int, epoch: int) -> LogFit:
        """Say how a log that ends at `offset` with a record of `epoch` relates to this one."""
        if offset == 0 and self._last_snapshot not in (None, BOOTSTRAP_SNAPSHOT):
            return LogFit(Fit.SNAPSHOT, self._newest())
        if self.start == 0 and offset == 0:
            return LogFit(Fit.VALID, OffsetAndEpoch(0, 0))
        oldest = min(self._snapshots, default=None)
        if oldest is not None and (
            offset < self.start or (offset == self.start and epoch != oldest.epoch) or epoch < oldest.epoch
        ):
            return LogFit(Fit.SNAPSHOT, self._newest())
        end = self.end_of_epoch(epoch)
        if end.epoch != epoch or end.offset < offset:
            return LogFit(Fit.DIVERGING, end)
        return LogFit(Fit.VALID, OffsetAndEpoch(offset, epoch))

    def cut_for(self, end: OffsetAndEpoch) -> int:
        """Give the offset down to which this log must be cut when the leader's of that epoch ends at `end`."""
        if end.epoch == 0:
            return min(end.offset, self.end)
        ours = self.end_of_epoch(end.epoch)
        return min(ours.offset, end.offset) if ours.epoch == end.epoch else ours.offset

    def append(self, epoch: int, end_offset: int) -> None:
        """Take note of records from the end on to `end_offset`."""
        if not self._epochs or self._epochs[-1] < epoch:
            self._epochs.append(epoch)
            self._starts.append(self.end)
        self.end = end_offset

    def truncate_to(self, offset: int) -> None:
        """Take note that nothing stands at `offset` or later."""
        self.end = min(self.end, offset)
        while self._starts and self._starts[-1] >= offset:
            self._starts.pop()
            self._epochs.pop()

    def add_snapshot(self, snapshot: SnapshotInfo) -> None:
        """Take note of a whole snapshot."""
        self._snapshots[snapshot.id] = snapshot.size_bytes
        self._last_snapshot = max(self._snapshots)

    def install(self, snapshot: SnapshotInfo) -> None:
        """Take note that the log begins and ends with a snapshot, and older ones are gone."""
        self._epochs.clear()
        self._starts.clear()
        self._snapshots = {snapshot.id: snapshot.size_bytes}
        self._last_snapshot = snapshot.id
        self.start = self.end = snapshot.id.offset

    def trim_to(self, start_offset: int) -> None:
        """Take note that what stood before `start_offset` is gone, snapshots that end before it as well."""
        self.start = max(self.start, start_offset)
        first = bisect_right(self._starts, start_offset) - 1
        if first > 0:
            del self._starts[:first], self._epochs[:first]
        if self._starts and self._starts[0] < start_offset:
            self._starts[0] = start_offset
        self._snapshots = {s: size for s, size in self._snapshots.items() if s.offset >= start_offset}
        self._last_snapshot = max(self._snapshots, default=None)

    def _newest(self) -> OffsetAndEpoch:
        return self._last_snapshot if self._last_snapshot is not None else BOOTSTRAP_SNAPSHOT
