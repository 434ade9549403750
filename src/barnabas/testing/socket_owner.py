"""Which process made a TCP connection on this machine (Linux: the kernel is asked by sock_diag)."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable
from typing import Final

Address = tuple[str, int]
_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_REQUEST: Final = 1
_ALL: Final = 0xFFFFFFFF
_HEADER: Final = struct.Struct("=IHHII")
_ABOUT: Final = struct.Struct("=BBBBI")
_PORTS: Final = struct.Struct("!HH")
_NO_COOKIE: Final = struct.pack("=III", 0, _ALL, _ALL)
_ADDRESS_SIZE: Final = 16
_INODE: Final = struct.Struct("=I")
_INODE_AT: Final = _HEADER.size + 4 + _PORTS.size + 2 * _ADDRESS_SIZE + 12 + 4 * 4
_ANSWER_BYTES: Final = 4096


def owner_of(local: Address, remote: Address, processes: Iterable[int]) -> int | None:
    """Give which of these processes holds the socket with these two ends (IPv4), None for none of them."""
    inode = _inode(local, remote)
    if inode is None:
        return None
    wanted = f"socket:[{inode}]"
    return next((pid for pid in processes if _holds(pid, wanted)), None)


def _inode(local: Address, remote: Address) -> int | None:
    if not hasattr(socket, "AF_NETLINK"):
        return None
    ends = (socket.inet_aton(end[0]).ljust(_ADDRESS_SIZE, b"\0") for end in (local, remote))
    wanted = _ABOUT.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ALL)
    wanted += _PORTS.pack(local[1], remote[1]) + b"".join(ends) + _NO_COOKIE
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.send(_HEADER.pack(_HEADER.size + len(wanted), _SOCK_DIAG_BY_FAMILY, _REQUEST, 0, 0) + wanted)
        answer = kernel.recv(_ANSWER_BYTES)
    if _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None
    return int(_INODE.unpack_from(answer, _INODE_AT)[0])


def _holds(pid: int, wanted: str) -> bool:
    directory = f"/proc/{pid}/fd"
    try:
        names = os.listdir(directory)
    except OSError:  # it has ended
        return False
    for name in names:
        try:
            if os.readlink(f"{directory}/{name}") == wanted:
                return True
        except OSError:  # closed meanwhile
            continue
    return False
