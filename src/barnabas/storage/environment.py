"""What the logs of a node share: disk, clock, chance, deferred deletions, and whom to tell of failures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from barnabas.model.ports import Clock
from barnabas.storage.fs import FileSystem

log = structlog.get_logger("kafka.storage")


class DelayedDeletes:
    """Files and directories that were renamed away and go when their time comes (`file.delete.delay.ms`)."""

    def __init__(self) -> None:
        self._queue: list[tuple[int, tuple[Path, ...]]] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, due_ms: int, paths: Sequence[Path]) -> None:
        """Plan a deletion. due_ms: on the monotonic clock."""
        with self._lock:
            self._queue.append((due_ms, tuple(paths)))

    def run(self, fs: FileSystem, now_ms: int) -> int:
        """Delete what is due; gives how many entries were. A failure is logged, the next start tries again."""
        with self._lock:
            due = [paths for at, paths in self._queue if at <= now_ms]
            self._queue = [(at, paths) for at, paths in self._queue if at > now_ms]
        for paths in due:
            for path in paths:
                try:
                    if fs.is_dir(path):
                        fs.remove_tree(path)
                    else:
                        fs.remove(path)
                except OSError as e:
                    log.warning("deletion failed", path=str(path), reason=str(e))
        return len(due)


def no_jitter(bound_ms: int) -> int:
    """Give no jitter at all."""
    return 0


def ignore_failure(directory: Path, error: OSError) -> None:
    """Tell nobody: the caller of the failed call has the error."""


def ignore_flush(took_ms: float) -> None:
    """Measure nothing."""


@dataclass(slots=True)
class LogEnvironment:
    """jitter: gives a number in [0, bound) by chance; on_io_error: told the log directory and the error; flushed: told,
    on the thread that did it, how long a flush took."""

    fs: FileSystem
    clock: Clock
    deletes: DelayedDeletes = field(default_factory=DelayedDeletes)
    jitter: Callable[[int], int] = no_jitter
    on_io_error: Callable[[Path, OSError], None] = ignore_failure
    producer_expiration_ms: int = 86_400_000
    verify_transactions: bool = False
    """Whether the first batch of a transaction needs the guard of a verification (KIP-890)."""
    flushed: Callable[[float], None] = ignore_flush
