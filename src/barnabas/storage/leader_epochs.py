"""Where each leader epoch begins in a log: what a follower or a client asks to find where histories part (KIP-101)."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from barnabas.storage import checkpoint
from barnabas.storage.fs import FileSystem

UNDEFINED_EPOCH: Final = -1
UNDEFINED_EPOCH_OFFSET: Final = -1


class LeaderEpochs:
    """The `leader-epoch-checkpoint` of a partition, kept in memory; both epochs and start offsets only grow.

    A new epoch waits for `sync` to be written, so that a node can take over many partitions without waiting for the
    disk: until the recovery point has passed an epoch's first record, its batches tell of it when the log is opened
    after a crash, and an epoch without records is forgotten then anyway. Kafka writes each at once. So do we where a
    new epoch contradicts what the file holds, and where it begins before what was flushed already (the log was cut
    since): a recovery point of then may still stand in the directory's checkpoint.

    Changes may come from several threads; answers need no lock, a change in between makes them old, not wrong.
    """

    __slots__ = ("_epochs", "_flushed_to", "_fs", "_lock", "_path", "_starts", "_writing", "_written")

    def __init__(
        self, fs: FileSystem, path: Path, entries: Sequence[tuple[int, int]] = (), recovery_point: int = 0
    ) -> None:
        self._fs = fs
        self._path = path
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        """Held while the file is written; taken before `_lock`, which nobody holds while the disk works."""
        self._written = list(entries)
        self._flushed_to = recovery_point
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]

    @classmethod
    def load(cls, fs: FileSystem, directory: Path, recovery_point: int = 0) -> LeaderEpochs:
        """Open a partition's epochs; CheckpointError when the file is damaged."""
        path = directory / checkpoint.LEADER_EPOCHS
        return cls(fs, path, checkpoint.read_epochs(fs, path), recovery_point)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """Give (epoch, start offset) pairs, oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest_epoch(self) -> int | None:
        return self._epochs[-1] if self._epochs else None

    @property
    def earliest(self) -> tuple[int, int] | None:
        return (self._epochs[0], self._starts[0]) if self._epochs else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` begins at `start_offset`; entries that contradict it go."""
        with self._lock:
            is_news = self._note(epoch, start_offset)
            must_save = is_news and (start_offset < self._flushed_to or self._is_file_wrong())
        if must_save:
            self.save()

    def assign_unsaved(self, epoch: int, start_offset: int) -> None:
        """As `assign`, but never written at once: for recovery, which saves at its end."""
        self._note(epoch, start_offset)

    def _note(self, epoch: int, start_offset: int) -> bool:
        if self._epochs and epoch == self._epochs[-1] and start_offset >= self._starts[-1]:
            return False
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Give (epoch, end offset) for a question about `epoch`, or (-1, -1) when nothing is known.

        The answer's epoch is the greatest known one that is not past the asked one; the end offset is where the
        next known epoch begins, the log end offset for the newest.
        """
        epochs = self._epochs
        if epoch == UNDEFINED_EPOCH or not epochs or epoch > epochs[-1]:
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        if epoch == epochs[-1]:
            return epoch, log_end_offset
        above = bisect_right(epochs, epoch)
        return (epochs[above - 1] if above else epoch), self._starts[above]

    def epoch_for_offset(self, offset: int) -> int | None:
        """Give the epoch in which `offset` was (or will be) written, None before the first known one."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else None

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop epochs that begin at or after `end_offset`; says whether the file knows any of them (then `save`)."""
        with self._lock:
            keep = bisect_left(self._starts, end_offset)
            del self._epochs[keep:]
            del self._starts[keep:]
            return self._is_file_wrong()

    def truncate_from_start(self, start_offset: int) -> bool:
        """Drop epochs that end before `start_offset`; the one that covers it begins there.

        Says whether the file knows them otherwise (then `save`).
        """
        with self._lock:
            covered = bisect_right(self._starts, start_offset)
            if not covered or (covered == 1 and self._starts[0] == start_offset):
                return False
            epoch = self._epochs[covered - 1]
            self._epochs[:covered] = [epoch]
            self._starts[:covered] = [start_offset]
            return self._is_file_wrong()

    def clear(self) -> None:
        """Forget everything (the log starts anew elsewhere); `save` follows."""
        self._epochs.clear()
        self._starts.clear()

    def save(self) -> None:
        """Write the checkpoint file, durably."""
        with self._writing:
            with self._lock:
                entries = self.entries
            self._write(entries)

    def sync(self, end_offset: int) -> None:
        """See to it that the file has, durably, every epoch with records before `end_offset`."""
        with self._writing:
            with self._lock:
                entries = [entry for entry in self.entries if entry[1] < end_offset]
                self._flushed_to = max(self._flushed_to, end_offset)
            if entries != self._written[: len(entries)]:
                self._write(entries)

    def _is_file_wrong(self) -> bool:
        """Say whether the file holds anything else than the first of the entries."""
        return self.entries[: len(self._written)] != self._written

    def _write(self, entries: list[tuple[int, int]]) -> None:
        checkpoint.write_epochs(self._fs, self._path, entries)
        self._written = entries

    def moved_to(self, directory: Path) -> None:
        """Take note that the partition's directory was renamed."""
        self._path = directory / checkpoint.LEADER_EPOCHS
