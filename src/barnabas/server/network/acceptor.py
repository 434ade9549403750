"""Lets connections in, one after the other: one that must wait keeps the later ones waiting, as Kafka's acceptor does.

A connection counts from here on, so that the limits hold for peers as well that never finish their TLS handshake.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

import structlog

from barnabas.model.addresses import host_text
from barnabas.net.listener import Listener, serve
from barnabas.server.network.connection import Connection
from barnabas.server.network.connection_limits import Verdict

if TYPE_CHECKING:
    from barnabas.server.network.connection_limits import ConnectionLimits
    from barnabas.server.network.listeners import ServedListener

log = structlog.get_logger("kafka.network.SocketServer")

_NO_ROOM: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
NO_ROOM_SECONDS: Final = 1.0
"""How long to leave peers waiting when the system has no descriptor for them."""


class Acceptor:
    """Accepts on one listener until it is stopped."""

    def __init__(self, owner: ServedListener, listener: Listener, limits: ConnectionLimits) -> None:
        self._owner = owner
        self._listener = listener
        self._limits = limits
        self._name = owner.endpoint.listener_name
        self._beginning: set[asyncio.Task[None]] = set()
        self._kept_waiting: set[socket.socket] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Accept from now on."""
        self._listener.listen()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"acceptor {self._name}")

    async def stop(self) -> None:
        """Accept no more; connections that have not begun end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        # By now every handshake has taken its first step: one cancelled before would leave its socket open.
        for task in self._beginning:
            task.cancel()
        if self._beginning:
            await asyncio.wait(self._beginning)
        for one in self._kept_waiting:
            one.close()
        self._listener.close()

    async def _run(self) -> None:
        while True:
            try:
                accepted, host = await self._listener.accept()
            except OSError as e:
                # The peer may be gone already; else there is no room, and asking at once again would not help.
                if e.errno in _NO_ROOM:
                    log.error("cannot accept connections", listener=self._name, why=e.strerror)
                    await asyncio.sleep(NO_ROOM_SECONDS)
                continue
            try:
                await self._let_in(accepted, host_text(host))
            except asyncio.CancelledError:
                accepted.close()
                raise

    async def _let_in(self, accepted: socket.socket, host: str) -> None:
        clock, traffic = self._owner.node.clock, self._owner.traffic
        traffic.accepted += 1
        await self._slot(host)
        admission = self._limits.admit(self._name, host, clock.monotonic_ms())
        if admission.verdict is Verdict.TOO_FAST_FROM_IP:
            # Closed late and not served, so that a peer that tries again at once gains nothing (KIP-612).
            log.debug("connection refused", listener=self._name, peer=host, reason="connection_creation_rate of its IP")
            traffic.kept_ip_waiting(admission.wait_ms)
            self._close_later(accepted, admission.wait_ms)
            return
        if not admission.counted:
            log.info("connection refused", listener=self._name, peer=host, reason="max.connections.per.ip")
            accepted.close()
            return
        connection = Connection(self._owner, host)
        self._owner.connections[connection] = host
        traffic.created += 1
        self._owner.node.close_excess_connections()
        try:
            if admission.wait_ms:
                traffic.kept_waiting(admission.wait_ms)
                await asyncio.sleep(admission.wait_ms / 1000)
        except asyncio.CancelledError:
            self._owner.released(connection)
            raise
        self._begin(self._handshake(accepted, connection))

    async def _slot(self, host: str) -> None:
        """Wait until there is room for a further connection."""
        if not self._limits.has_slot(self._name):
            log.warning("no room for more connections (max.connections); peers wait", listener=self._name, peer=host)
        while not self._limits.has_slot(self._name):
            freed = asyncio.get_running_loop().create_future()
            self._limits.when_freed(lambda freed=freed: freed.done() or freed.set_result(None))  # type: ignore[misc]
            await freed

    def _close_later(self, accepted: socket.socket, wait_ms: int) -> None:
        def close() -> None:
            self._kept_waiting.discard(accepted)
            accepted.close()

        self._kept_waiting.add(accepted)
        asyncio.get_running_loop().call_later(wait_ms / 1000, close)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    async def _handshake(self, accepted: socket.socket, connection: Connection) -> None:
        try:
            await serve(accepted, connection, tls=self._owner.tls, budget=self._owner.budget)
        except OSError as e:
            accepted.close()
            self._owner.traffic.failed_logins += 1
            log.info("no TLS handshake", listener=self._name, peer=connection.host, why=_reason(e))
        finally:
            if connection.client is None:
                self._owner.released(connection)


def _reason(error: OSError) -> str:
    return getattr(error, "reason", None) or str(error) or type(error).__name__
