"""The listeners of a node: what each serves, whom it lets in, and the connections that it holds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from barnabas.model.config import ConfigError
from barnabas.model.principal import ANONYMOUS, KafkaPrincipal
from barnabas.net.distinguished_name import PrincipalMapper, PrincipalMappingError
from barnabas.net.framed import ReceiveBudget
from barnabas.net.listener import Listener
from barnabas.net.tls import ServerTls, TlsConfig, peer_principal
from barnabas.server.config import Endpoint, NodeConfig
from barnabas.server.context import ClientConnection
from barnabas.server.network.acceptor import Acceptor
from barnabas.server.network.authentication import SaslGate
from barnabas.server.network.connection import Connection
from barnabas.server.network.traffic import Traffic
from barnabas.server.request_metrics import RequestTable
from barnabas.server.router import Router

if TYPE_CHECKING:
    from barnabas.server.authorizers import RequestAuthorizer
    from barnabas.server.network.connection_limits import ConnectionLimits
    from barnabas.server.node import Node

log = structlog.get_logger("kafka.network.SocketServer")

TLS_RELOAD_SECONDS: Final = 2.0
"""How often certificate files are looked at, and idle connections for."""
SHORTEST_ROUND_SECONDS: Final = 0.05


class ServedListener:
    """A listener and what its connections need of it."""

    def __init__(
        self,
        node: Node,
        endpoint: Endpoint,
        router: Router,
        limits: ConnectionLimits,
        budget: ReceiveBudget | None,
        *,
        privileged: bool,
        early: bool,
    ) -> None:
        """privileged: the quorum's; early: opens before the ACLs are loaded (KIP-801)."""
        config = node.config
        name = endpoint.listener_name
        self.node = node
        self.endpoint = endpoint
        self.router = router
        self.privileged = privileged
        self.early = early
        self.max_request_bytes: int = config.on_listener(name, "socket.request.max.bytes")
        self.max_bytes_before_login: int = config.on_listener(name, "sasl.server.max.receive.size")
        self.failed_login_delay_ms: int = config.on_listener(name, "connection.failed.authentication.delay.ms")
        self.budget = budget
        self.max_idle_s = config.on_listener(name, "connections.max.idle.ms") / 1000
        self._limits = limits
        self.traffic: Traffic = Traffic()
        self.requests: RequestTable = node.metrics.requests.table()
        self._numbers = 0
        self._mapper = _mapper(config, name)
        self._tls_settings = config.tls_settings(name) if endpoint.tls else {}
        self.tls = ServerTls(TlsConfig.parse(self._tls_settings)) if endpoint.tls else None
        self.connections: dict[Connection, str] = {}
        self.listener = Listener(
            endpoint.host,
            endpoint.port,
            backlog=config["socket.listen.backlog.size"],
            send_buffer_bytes=config["socket.send.buffer.bytes"],
            receive_buffer_bytes=config["socket.receive.buffer.bytes"],
        )
        self._acceptor = Acceptor(self, self.listener, limits)

    def start(self) -> None:
        """Let clients in from now on."""
        self._acceptor.start()

    @property
    def port(self) -> int:
        """Give the port that is listened on."""
        return self.listener.port

    def released(self, connection: Connection) -> None:
        """Count a connection out that was let in."""
        host = self.connections.pop(connection, None)
        if host is not None:
            self.traffic.closed += 1
            self._limits.closed(self.endpoint.listener_name, host)

    def connection_id(self, host: str, port: int) -> str:
        """Give a connection its name: both ends, and a number."""
        self._numbers += 1
        return f"{self.endpoint.host}:{self.port}-{host}:{port}-{self._numbers}"

    def tls_principal(self, transport: asyncio.Transport, host: str) -> KafkaPrincipal:
        """Give who the peer is as far as TLS says; ANONYMOUS where SASL will say it. ValueError when it is refused."""
        endpoint = self.endpoint
        if endpoint.sasl:
            return ANONYMOUS
        tls = transport.get_extra_info("ssl_object")
        return self.node.principals.of_peer(
            endpoint.security_protocol,
            endpoint.listener_name,
            host,
            None if tls is None else tls.getpeercert(binary_form=True),
            lambda: ANONYMOUS if tls is None else peer_principal(tls, self._mapper),
        )

    def sasl_gate(self, client: ClientConnection) -> SaslGate:
        """Give the machine that a connection logs in by."""
        return self.node.authentication.gate(client)

    def authorizer(self) -> RequestAuthorizer | None:
        """Give the authorizer as of now; None when everybody may do everything."""
        return self.node.authorizer()

    def reconfigure(self, config: NodeConfig) -> None:
        """Take up settings changed while running: keys and trust for connections made from now on (KIP-226)."""
        name = self.endpoint.listener_name
        settings = config.tls_settings(name)
        if self.tls is None or settings == self._tls_settings:
            return
        self._tls_settings = settings
        try:
            self.tls, self._mapper = ServerTls(TlsConfig.parse(settings)), _mapper(config, name)
        except ConfigError as e:
            log.error("changed ssl settings cannot be used, the old ones stay", listener=name, why=str(e))
            return
        log.info("changed ssl settings taken up", listener=name)

    def close_idle(self, now: float) -> None:
        """Close what has been silent for too long, and take memory back from what is just quiet."""
        for connection in list(self.connections):
            silent_s = now - connection.idle_since
            if silent_s > self.max_idle_s:
                connection.close(f"idle for {silent_s:.0f} s (connections.max.idle.ms)")
            elif silent_s > 1:
                connection.shrink()

    def close_excess(self) -> None:
        """Close the connections silent for longest while there are more than `max.connections` (KIP-402)."""
        name = self.endpoint.listener_name
        while self.connections and self._limits.excess(name):
            connection = min(self.connections, key=lambda c: c.idle_since)
            connection.abort("room for a connection between brokers (max.connections)")
            self.released(connection)

    async def stop(self) -> None:
        """Accept no more and close every connection."""
        await self._acceptor.stop()
        for connection in list(self.connections):
            connection.close("")


def _mapper(config: NodeConfig, listener: str) -> PrincipalMapper:
    try:
        return PrincipalMapper.parse(config.on_listener(listener, "ssl.principal.mapping.rules"))
    except PrincipalMappingError as e:
        raise ConfigError(str(e)) from None


async def tend(listeners: list[ServedListener]) -> None:
    """Look after connections and certificates until cancelled."""
    loop = asyncio.get_running_loop()
    interval_s = min([TLS_RELOAD_SECONDS, *(listener.max_idle_s / 4 for listener in listeners)])
    while True:
        await asyncio.sleep(max(interval_s, SHORTEST_ROUND_SECONDS))
        for listener in listeners:
            if listener.tls is not None and listener.tls.reload_if_changed():
                log.info("certificates taken up anew", listener=listener.endpoint.listener_name)
            listener.close_idle(loop.time())
            listener.close_excess()


def receive_budget(config: NodeConfig) -> ReceiveBudget | None:
    """Give the bound on bytes of requests in memory, None when there is none."""
    limit: int = config["queued.max.request.bytes"]
    return ReceiveBudget(limit) if limit > 0 else None
