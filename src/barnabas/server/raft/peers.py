"""Connections to the other replicas of the metadata log: one an address, pipelined, made when it is first needed.

A request that cannot be sent, or gets no answer in its time, is answered with None; the core decides what then. After
a failed attempt to connect the next one waits, longer each time. Where a connection broke or could not be made the
address is tried once more: the core also hears whether it refuses, so that nobody is there to wait for.

Where this node's credentials, certificates or rights are not what the other wants, the log says which settings to look
at; to the core it is as if nobody were there.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog

from barnabas.core.raft.ready import Outgoing
from barnabas.core.raft.voters import Endpoint
from barnabas.model.config import ConfigError
from barnabas.net.client import (
    SOFTWARE_NAME,
    SOFTWARE_VERSION,
    AuthenticationError,
    Channel,
    ChannelError,
    ChannelSettings,
    TlsHandshakeError,
    UnsupportedVersionError,
)
from barnabas.net.refusal import refuses
from barnabas.server.complaints import OnceInAWhile
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.refusals import refuse

log = structlog.get_logger("kafka.raft.channel")

_BACKOFF_MS: Final = 50
_MAX_BACKOFF_MS: Final = 500
_JITTER: Final = 0.2

_LOOK_MS: Final = 1_000

_REFUSED: Final = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the principal that this node has there must be one of super.users of that "
    "node, or have ClusterAction on the cluster",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "this node's directories were formatted for another cluster: compare cluster.id "
    "in meta.properties",
}

Answered = Callable[[int, Message | None], None]


class _Connection:
    """One address. Connecting is nobody's request's affair: it goes on while requests come and expire."""

    def __init__(self, endpoint: Endpoint, settings: Callable[[], ChannelSettings], listener: str) -> None:
        self.endpoint = endpoint
        self._settings = settings
        self._listener = listener
        self._channel: Channel | None = None
        self._failures = 0
        self._not_before = 0.0
        self._complained: str | None = None

    @property
    def channel(self) -> Channel | None:
        """Give the open channel, None when there is none."""
        return self._channel if self._channel is not None and not self._channel.is_closed else None

    async def open(self) -> None:
        """Connect, once the time for that has come; ChannelError, ConfigError or OSError when it fails."""
        await asyncio.sleep(self._not_before - asyncio.get_running_loop().time())
        try:
            self._channel = await Channel.open(self.endpoint.host, self.endpoint.port, self._settings())
        except (ChannelError, ConfigError, OSError) as e:
            self._failed(e)
            raise
        if self._failures:
            log.info("another controller is reached again", host=self.endpoint.host, port=self.endpoint.port)
        self._failures, self._complained = 0, None

    def _failed(self, error: Exception) -> None:
        steady_ms = min(_MAX_BACKOFF_MS, _BACKOFF_MS << min(self._failures, 8))
        backoff_ms = steady_ms * (1 + random.uniform(-_JITTER, _JITTER))
        self._failures += 1
        self._not_before = asyncio.get_running_loop().time() + backoff_ms / 1000
        if str(error) != self._complained:
            self._complained = str(error)
            facts = {"host": self.endpoint.host, "port": self.endpoint.port, "reason": str(error)}
            remedy = _remedy(error, self._listener)
            if remedy is not None:
                log.error("another controller cannot be reached", **facts, remedy=remedy)
            elif isinstance(error, ConfigError):
                log.error("another controller cannot be reached", **facts)
            else:
                log.warning("another controller cannot be reached", **facts)

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()


class RaftPeers:
    """See the module. settings: makes what the connections share, asked when the first is needed; listener: the name of
    the controller listener that they go to.

    answered: whom answers go to, absent: whom addresses that refuse connections; both set by who sends.
    """

    def __init__(self, settings: Callable[[], ChannelSettings], listener: str) -> None:
        self._make_settings = settings
        self._listener = listener
        self._due = OnceInAWhile(time.monotonic)
        self._made: ChannelSettings | None = None
        self.answered: Answered = lambda request_id, answer: None
        self.absent: Callable[[Endpoint], None] = lambda endpoint: None
        self._connections: dict[Endpoint, _Connection] = {}
        self._connecting: set[Endpoint] = set()
        self._waiting: dict[Endpoint, Outgoing] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def prepare(self) -> None:
        """Make the settings now; ConfigError when they are at fault."""
        self._settings()

    def send(self, outgoing: Outgoing) -> None:
        """Send a request; its answer, or None, comes to `answered` in a later turn of the loop.

        While the connection is being made the newest request waits for it, and those before are given up: what the
        core says now is all that counts.
        """
        if isinstance(outgoing.message, ApiVersionsRequest):
            # Asked of a voter to be; who does not say what software it is gets no answer (KIP-511).
            outgoing.message.client_software_name = SOFTWARE_NAME
            outgoing.message.client_software_version = SOFTWARE_VERSION
        endpoint = outgoing.to.endpoint
        connection = self._connections.get(endpoint)
        if connection is None:
            connection = self._connections[endpoint] = _Connection(endpoint, self._settings, self._listener)
        if connection.channel is not None:
            self._do(self._exchange(connection.channel, outgoing))
            return
        before = self._waiting.get(endpoint)
        self._waiting[endpoint] = outgoing
        loop = asyncio.get_running_loop()
        loop.call_later(outgoing.timeout_ms / 1000, self._expire, outgoing)
        if before is not None:
            loop.call_soon(self.answered, before.request_id, None)
        if endpoint not in self._connecting:
            self._connecting.add(endpoint)
            self._do(self._connect(connection))

    async def close(self) -> None:
        """Drop what is under way and close every connection."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._waiting.clear()
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()

    async def _connect(self, connection: _Connection) -> None:
        try:
            await connection.open()
        except (ChannelError, ConfigError, OSError):
            self._do(self._look(connection.endpoint))  # it has complained itself
        finally:
            self._connecting.discard(connection.endpoint)
        outgoing = self._waiting.pop(connection.endpoint, None)
        if outgoing is None:
            return
        if connection.channel is None:
            self.answered(outgoing.request_id, None)
        else:
            await self._exchange(connection.channel, outgoing)

    def _expire(self, outgoing: Outgoing) -> None:
        """Give a request up for which there was no connection in time; connecting goes on."""
        if self._waiting.get(outgoing.to.endpoint) is outgoing:
            del self._waiting[outgoing.to.endpoint]
            self.answered(outgoing.request_id, None)

    async def _exchange(self, channel: Channel, outgoing: Outgoing) -> None:
        answer: Message | None
        try:
            answer = await channel.call(outgoing.message, timeout_ms=outgoing.timeout_ms)
        except UnsupportedVersionError:
            answer = refuse(outgoing.message, _newest(outgoing.message), ErrorCode.UNSUPPORTED_VERSION)
        except (ChannelError, OSError) as e:
            log.debug("no answer", request=outgoing.message.NAME, node=outgoing.to.node_id, reason=str(e))
            answer = None
            self._do(self._look(outgoing.to.endpoint))
        else:
            self._complain(outgoing, answer)
        self.answered(outgoing.request_id, answer)

    def _complain(self, outgoing: Outgoing, answer: Message) -> None:
        """Say so when this node has no right to ask, or asks those of another cluster."""
        error = getattr(answer, "error_code", ErrorCode.NONE)
        remedy = _REFUSED.get(error)
        if remedy is None or self._due.due((outgoing.to.endpoint, error)) is None:
            return
        log.error(
            "another controller refuses this node's requests",
            host=outgoing.to.endpoint.host,
            port=outgoing.to.endpoint.port,
            error=ErrorCode(error).name,
            remedy=remedy,
        )

    async def _look(self, endpoint: Endpoint) -> None:
        if await refuses(endpoint.host, endpoint.port, _LOOK_MS):
            self.absent(endpoint)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="raft request")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _settings(self) -> ChannelSettings:
        if self._made is None:
            self._made = self._make_settings()
        return self._made


def _remedy(error: Exception, listener: str) -> str | None:
    """Give where to look when another controller does not let this node in; None when that is not why."""
    prefix = f"listener.name.{listener.lower()}."
    if isinstance(error, AuthenticationError):
        return (
            f"compare sasl.mechanism.controller.protocol and {prefix}<mechanism>.sasl.jaas.config of this node "
            "(username, password) with the users that the other accepts (user_<name> of the same key there)"
        )
    if isinstance(error, TlsHandshakeError):
        return (
            f"see whether each node trusts the other's certificate ({prefix}ssl.truststore.*), whether this node has "
            f"one that the other wants ({prefix}ssl.keystore.* here, ssl.client.auth there), and whether the other's "
            "names the host that it is reached at"
        )
    return None


def _newest(message: Any) -> int:
    return int(message.MAX_VERSION)
