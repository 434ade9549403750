"""A listening socket: bound first, so that its port is known; its owner accepts, and says which connections go on."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from barnabas.net.framed import FramedConnection, ReceiveBudget, Receiver
from barnabas.net.tls import ServerTls

HANDSHAKE_SECONDS: Final = 30.0
"""How long a peer may take for the TLS handshake."""
TLS_CLOSE_SECONDS: Final = 5.0
"""How long a peer is waited for that does not say goodbye when it is closed."""


class Listener:
    """One address."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        backlog: int = 50,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
    ) -> None:
        """host: "" is every interface; port: 0 is any free one. Buffers: -1 leaves them to the system."""
        self._backlog = backlog
        self._socket = _bind(host, port)
        self.port = int(self._socket.getsockname()[1])
        """The port, also when any free one was asked for."""
        self._socket.setblocking(False)
        # Accepted sockets inherit these; set before listen(), as the receive window is agreed on at the handshake.
        if send_buffer_bytes > 0:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        if receive_buffer_bytes > 0:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)

    def listen(self) -> None:
        """Let peers connect from now on; they wait until they are accepted."""
        self._socket.listen(self._backlog)

    async def accept(self) -> tuple[socket.socket, str]:
        """Give the next connection and the peer's IP; OSError when the system has no room for it.

        Everybody else on the loop has a turn first, however many peers stand in line.
        """
        await asyncio.sleep(0)
        while True:
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                await self._somebody_there()
            else:
                accepted.setblocking(False)
                return accepted, str(address[0])

    async def _somebody_there(self) -> None:
        # Not the loop's `sock_accept`: cancelled at the wrong moment, it loses the connection it has just accepted.
        loop = asyncio.get_running_loop()
        there = asyncio.Event()
        loop.add_reader(self._socket, there.set)
        try:
            await there.wait()
        finally:
            loop.remove_reader(self._socket)

    def close(self) -> None:
        """Accept no more; connections that stand are their owner's to close."""
        self._socket.close()


async def serve(
    accepted: socket.socket, receiver: Receiver, *, tls: ServerTls | None = None, budget: ReceiveBudget | None = None
) -> None:
    """Begin a connection; returns when it stands. OSError (`ssl.SSLError` is one) when there is no handshake."""
    loop = asyncio.get_running_loop()

    def connection() -> FramedConnection:
        return FramedConnection(receiver, loop, tls=tls is not None, budget=budget)

    if tls is None:
        await loop.connect_accepted_socket(connection, accepted)
    else:
        await loop.connect_accepted_socket(
            connection,
            accepted,
            ssl=tls.context,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
            ssl_shutdown_timeout=TLS_CLOSE_SECONDS,
        )


def _bind(host: str, port: int) -> socket.socket:
    if not host:
        return (
            _bound(socket.AF_INET6, "::", port)
            if socket.has_dualstack_ipv6()
            else _bound(socket.AF_INET, "0.0.0.0", port)
        )
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return _bound(family, str(address[0]), port)


def _bound(family: int, host: str, port: int) -> socket.socket:
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and host == "::":
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # every interface, the old ones too
        found.bind((host, port))
    except OSError as e:
        found.close()
        raise OSError(e.errno, f"cannot listen on {host}:{port}: {e.strerror}") from None
    return found
