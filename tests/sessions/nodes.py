"""A node whose sessions end, and what tests look at."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final, Self

import pytest

from barnabas.net.clock import SystemClock
from barnabas.server.network.conduct import SessionConduct
from barnabas.testing.cluster import Cluster
from barnabas.testing.ports import free_ports
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.server.frames import FramePeer

if TYPE_CHECKING:
    from barnabas.model.ports import Clock
    from barnabas.server.context import ClientConnection

OPEN, LONG, SHORT, SSL, SECURE = "OPEN", "LONG", "SHORT", "TLS", "SASL_SSL"
"""Listeners of `session_settings`: without a login; with sessions of a minute, but PLAIN's of two; with sessions of
SHORT_MS; TLS alone; and TLS with a login, whose sessions last as the node's setting says."""
SHORT_MS: Final = 30_000
DEFAULT_MS: Final = 90_000
KILLED: Final = "kafka.network:type=SocketServer,name=ExpiredConnectionsKilledCount"
_USERS: Final = 'user_alice="alice-secret" user_root="root-secret"'
_PLAIN: Final = f"org.apache.kafka.common.security.plain.PlainLoginModule required {_USERS};"


class StandingClock(SystemClock, SessionConduct):
    """Measures the sessions of clients, as a Cluster's conduct, on a clock that moves only when a test says so.

    So a session ends when a test wants it to, and never because a test, or its node, was slow.
    """

    def __init__(self) -> None:
        self._at_ms = super().monotonic_ms()

    def clock(self, client: ClientConnection, clock: Clock) -> Clock:
        """Give this one, but to the node itself."""
        return clock if client.privileged else self

    def monotonic_ms(self) -> int:
        """Give where it stands."""
        return self._at_ms

    def move(self, duration_ms: int) -> None:
        """Move it on."""
        self._at_ms += duration_ms

    def pass_over(self, lifetime_ms: int) -> None:
        """Let sessions that last so long, and have begun, come to their end."""
        self.move(lifetime_ms + 1)


class WorkingClock(SystemClock, SessionConduct):
    """Measures the sessions of clients, as a Cluster's conduct, on a clock that goes while this process is at work.

    It falls behind when the machine lets the process wait, and is never ahead: so a client in this process that renews
    its session a tenth of its life before the end is in time there, however long both were kept waiting. Use as a
    context manager.
    """

    _LOOK_S: Final = 0.01
    _MOST_S: Final = 0.1
    """What passes at most from one look to the next: less than the least that is left of a session of three seconds
    when it is renewed."""

    def __init__(self) -> None:
        self._at_s = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go, name="sessions' clock")
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Self:
        # Renewals that are seconds apart may be within a second of each other here.
        self._patch.setattr("barnabas.core.sasl.server.LEAST_INTERVAL_MS", 0)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._patch.undo()

    def clock(self, client: ClientConnection, clock: Clock) -> Clock:
        """Give this one."""
        return self

    def monotonic_ms(self) -> int:
        """Give how far it is."""
        return int(self._at_s * 1000)

    def _go(self) -> None:
        before = time.monotonic()
        while not self._stop.wait(self._LOOK_S):
            now = time.monotonic()
            self._at_s += min(now - before, self._MOST_S)
            before = now


def session_settings(**settings: str) -> dict[str, str]:
    """Give settings for a Cluster with listeners whose sessions end at different times; dots are written as `__`."""
    names = (SECURE, OPEN, LONG, SHORT, SSL, "CONTROLLER")
    ports = free_ports(len(names))
    at = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)}
    return {
        "listeners": ",".join(f"{name}://{address}" for name, address in at.items()),
        "listener.security.protocol.map": f"{SECURE}:SASL_SSL,{OPEN}:PLAINTEXT,{LONG}:SASL_PLAINTEXT,"
        f"{SHORT}:SASL_PLAINTEXT,{SSL}:SSL,CONTROLLER:SASL_SSL",
        "controller.quorum.bootstrap.servers": at["CONTROLLER"],
        "connections.max.reauth.ms": str(DEFAULT_MS),
        "listener.name.long.connections.max.reauth.ms": "60000",
        "listener.name.long.plain.connections.max.reauth.ms": "120000",
        "listener.name.short.connections.max.reauth.ms": str(SHORT_MS),
        "listener.name.long.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,SCRAM-SHA-256",
        "listener.name.short.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,SCRAM-SHA-256",
        "listener.name.long.plain.sasl.jaas.config": _PLAIN,
        "listener.name.short.plain.sasl.jaas.config": _PLAIN,
        "super.users": "User:admin;User:root;User:ANONYMOUS",
        **{key.replace("__", "."): value for key, value in settings.items()},
    }


def beans(cluster: Cluster, pattern: str) -> dict[str, dict[str, Any]]:
    """Give what the node shows, as seen on its own loop."""

    async def look(_: object) -> dict[str, dict[str, Any]]:
        return {name: dict(attributes) for name, attributes in cluster.node.metrics.registry.values(pattern)}

    found: dict[str, dict[str, Any]] = cluster.run(look)
    return found


def listener_bean(cluster: Cluster, listener: str) -> dict[str, Any]:
    """Give the measurements of a listener."""
    name = f"kafka.server:type=socket-server-metrics,listener={listener},networkProcessor=0"
    return beans(cluster, name)[name]


def killed(cluster: Cluster) -> int:
    """Give how many connections the node has closed because their sessions had ended."""
    return int(beans(cluster, KILLED)[KILLED]["Value"])


def renew(peer: FramePeer, user: str = "root", password: str = "", *, mechanism: str = "PLAIN") -> Any:
    """Log in once more on the connection; gives the answer to the token."""
    shaken = peer.call(SaslHandshakeRequest(mechanism=mechanism))
    assert shaken.error_code == 0
    token = f"\0{user}\0{password or user + '-secret'}".encode()
    return peer.call(SaslAuthenticateRequest(auth_bytes=token))


def pass_over(started: float, lifetime_ms: int) -> None:
    """Let a session that began at or before `started`, on the monotonic clock, come to its end.

    There is no event for it: nothing happens when a session ends, only when it is used again.
    """
    while (left := started + (lifetime_ms + 50) / 1000 - time.monotonic()) > 0:
        time.sleep(left)


def served(peer: FramePeer) -> bool:
    """Say whether the node answers an ordinary request."""
    return bool(peer.call(MetadataRequest(topics=[]), 9).brokers)
