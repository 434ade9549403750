"""Tells whether an address refuses connections: the machine is there, and nobody listens.

That is what is left of a process that has ended. One that hangs, or is cut off, refuses nothing.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any, Final

_NO_SUCH_NETWORK: Final = (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""From a machine without IPv6, for example; that says nothing of the other side."""


async def refuses(host: str, port: int, timeout_ms: int) -> bool:
    """Say whether every address that `host` has refuses connections to `port`; False when it cannot be told in time."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            told = [await _refused(family, address) for family, _, _, _, address in found]
    except (TimeoutError, OSError):
        return False
    return True in told and False not in told


async def _refused(family: int, address: Any) -> bool | None:
    """Say whether one address refuses; None when this machine has no way to it."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            await asyncio.get_running_loop().sock_connect(probe, address)
    except ConnectionRefusedError:
        return True
    except OSError as e:
        if e.errno in _NO_SUCH_NETWORK:
            return None
        raise
    return False
