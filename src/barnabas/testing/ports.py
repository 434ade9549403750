"""Loopback ports that stay a node's own while it is down.

A port that the system picks is from the range of outgoing connections, and while a killed node is down any of those may
take it, one of a client that keeps trying to reach that very port even by connecting to itself. These ports lie outside
that range, in blocks that this process keeps to itself, for as long as it lives, by holding their first port.
"""

from __future__ import annotations

import atexit
import random
import socket
import threading
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
_OUTGOING: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUALLY_OUTGOING: Final = (32_768, 60_999)
_LOWEST: Final = 10_000
_END: Final = 65_536
_BLOCK: Final = 64

_lock: Final = threading.Lock()
_guards: Final[list[socket.socket]] = []
_left: Final[list[int]] = []


@atexit.register
def _let_go() -> None:
    for guard in _guards:
        guard.close()


def free_ports(count: int) -> list[int]:
    """Give ports that nobody listens on, and that no other process is given; OSError when there are no more."""
    found: list[int] = []
    with _lock:
        while len(found) < count:
            if not _left:
                _left.extend(_claim_block())
            port = _left.pop(0)
            if _held(port, _guards, keep=False):
                found.append(port)
    return found


def _claim_block() -> range:
    first, end = _not_outgoing()
    starts = list(range(first, end - _BLOCK + 1, _BLOCK))
    random.SystemRandom().shuffle(starts)  # a seeded run beside this one must not look in the same order
    for start in starts:
        if _held(start, _guards, keep=True):
            return range(start + 1, start + _BLOCK)
    raise OSError(f"no free block of ports from {first} to {end}")


def _not_outgoing() -> tuple[int, int]:
    """Give the larger stretch of ports below or above those of outgoing connections."""
    try:
        low, high = (int(text) for text in _OUTGOING.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        low, high = _USUALLY_OUTGOING
    return max((_LOWEST, low), (high + 1, _END), key=lambda stretch: stretch[1] - stretch[0])


def _held(port: int, guards: list[socket.socket], *, keep: bool) -> bool:
    """Say whether the port could be bound; keep: it stays so."""
    probe = socket.socket()
    try:
        probe.bind((HOST, port))
    except OSError:
        probe.close()
        return False
    if keep:
        guards.append(probe)
    else:
        probe.close()
    return True
