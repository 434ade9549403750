"""A process, what it has started, and what these have (Linux): its memory, its time, and that nothing of it is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_LOOK_SECONDS: Final = 0.05


class Process(NamedTuple):
    """One process. began: in ticks since the machine started, which tells it from a later one of the same id."""

    pid: int
    began: int

    @property
    def lives(self) -> bool:
        """Say whether it still runs."""
        return _began(self.pid) == self.began


def tree(pid: int) -> list[Process]:
    """Give a process and all below it, as far as they do not end while they are looked for."""
    began = _began(pid)
    if began is None:
        return []
    children: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            children += map(int, file.read_text().split())
    return [Process(pid, began), *(each for child in children for each in tree(child))]


def resident_bytes(pid: int) -> int:
    """Give the resident memory of a process and all below it; pages that several share count for each of them."""
    pages = 0
    for each in tree(pid):
        with suppress(OSError):
            pages += int(Path(f"/proc/{each.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def processor_seconds(pid: int) -> float:
    """Give the processor time that a process and all below it have used, and those of them that have ended."""
    ticks = 0
    for each in tree(pid):
        fields = _stat(each.pid)
        ticks += sum(map(int, fields[11:15])) if fields else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def end(processes: Iterable[Process], patience_s: float) -> None:
    """Wait until these have ended; kill those that have not by then."""
    until = time.monotonic() + patience_s
    left = [each for each in processes if each.lives]
    while left and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)
        left = [each for each in left if each.lives]
    for each in left:
        with suppress(ProcessLookupError):
            os.kill(each.pid, signal.SIGKILL)


def _began(pid: int) -> int | None:
    fields = _stat(pid)
    return None if not fields or fields[0] == "Z" else int(fields[19])


def _stat(pid: int) -> list[str]:
    """Give what /proc says from the state on, nothing when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
