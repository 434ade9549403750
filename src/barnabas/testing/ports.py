"""Loopback ports that stay a node's own while it is down.

A port that the system picks is from the range of outgoing connections, and while a killed node is down any of those may
take it, one of a client that keeps trying to reach that very port even by connecting to itself. These ports lie outside
that range, and a UDP socket of the same number marks each as taken for other test processes.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
_LOWEST: Final = 10_000
_OUTGOING: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_OUTGOING_BEGIN: Final = 32_768
_TRIES: Final = 2_000


class ReservedPorts:
    """Ports taken from the machine until `close`."""

    def __init__(self) -> None:
        self._marks: list[socket.socket] = []
        self._first_outgoing = _first_outgoing()

    def take(self, wanted: int = 0) -> int:
        """Give a port that nobody listens on: `wanted`, or any for 0; OSError when there is none."""
        if wanted:
            if self._reserve(wanted):
                return wanted
            raise OSError(f"port {wanted} is in use")
        for _ in range(_TRIES):
            port = random.SystemRandom().randrange(_LOWEST, self._first_outgoing)
            if self._reserve(port):
                return port
        raise OSError(f"no free port from {_LOWEST} to {self._first_outgoing}")

    def close(self) -> None:
        """Give all of them back."""
        while self._marks:
            self._marks.pop().close()

    def _reserve(self, port: int) -> bool:
        mark = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            mark.bind((HOST, port))
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((HOST, port))
        except OSError:
            mark.close()
            return False
        self._marks.append(mark)
        return True


def _first_outgoing() -> int:
    try:
        first = int(_OUTGOING.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _OUTGOING_BEGIN
    return first if first > _LOWEST + 1_000 else 65_536
