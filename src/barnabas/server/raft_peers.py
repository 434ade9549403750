"""Connections to the other replicas of the metadata log: one an address, pipelined, made when it is first needed.

A request that cannot be sent, or gets no answer in its time, is answered with None; the core decides what then. After
a failed attempt to connect the next one waits, longer each time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import structlog

from barnabas.core.raft.ready import Outgoing
from barnabas.core.raft.voters import Endpoint
from barnabas.model.config import ConfigError
from barnabas.net.client import (
    AuthenticationError,
    Channel,
    ChannelError,
    ChannelSettings,
    RequestTimeoutError,
    TlsHandshakeError,
    UnsupportedVersionError,
)
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.refusals import refuse

log = structlog.get_logger("kafka.raft.channel")

_BACKOFF_MS: Final = 50
_MAX_BACKOFF_MS: Final = 500
_JITTER: Final = 0.2

Answered = Callable[[int, Message | None], None]


class _Connection:
    """One address. Requests share the channel; the first one that needs it makes it."""

    def __init__(self, endpoint: Endpoint, settings: Callable[[], ChannelSettings]) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._channel: Channel | None = None
        self._opening = asyncio.Lock()
        self._failures = 0
        self._not_before = 0.0
        self._complained: str | None = None

    async def call(self, request: Message, timeout_ms: int) -> Message:
        """Give the answer; ChannelError when there is none in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        try:
            async with asyncio.timeout_at(deadline):
                channel = await self._open()
        except TimeoutError:
            raise RequestTimeoutError(f"no connection to {self._endpoint.host}:{self._endpoint.port} in time") from None
        left_ms = max(1, int((deadline - loop.time()) * 1000))
        answer: Message = await channel.call(request, timeout_ms=left_ms)
        return answer

    async def _open(self) -> Channel:
        async with self._opening:
            if self._channel is not None and not self._channel.is_closed:
                return self._channel
            await asyncio.sleep(self._not_before - asyncio.get_running_loop().time())
            try:
                self._channel = await Channel.open(self._endpoint.host, self._endpoint.port, self._settings())
            except (ChannelError, ConfigError, OSError) as e:
                self._failed(e)
                raise
            if self._failures:
                log.info("reached again", host=self._endpoint.host, port=self._endpoint.port)
            self._failures, self._complained = 0, None
            return self._channel

    def _failed(self, error: Exception) -> None:
        backoff_ms = min(_MAX_BACKOFF_MS, _BACKOFF_MS << min(self._failures, 8))
        backoff_ms *= 1 + random.uniform(-_JITTER, _JITTER)
        self._failures += 1
        self._not_before = asyncio.get_running_loop().time() + backoff_ms / 1000
        if str(error) != self._complained:
            self._complained = str(error)
            at_fault = isinstance(error, AuthenticationError | TlsHandshakeError | ConfigError)
            tell = log.error if at_fault else log.warning
            tell("another controller cannot be reached", host=self._endpoint.host, port=self._endpoint.port,
                 reason=str(error))  # fmt: skip

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()


class RaftPeers:
    """See the module. settings: makes what the connections share, asked when the first is needed.

    answered: whom answers go to; set by who sends.
    """

    def __init__(self, settings: Callable[[], ChannelSettings]) -> None:
        self._make_settings = settings
        self._made: ChannelSettings | None = None
        self.answered: Answered = lambda request_id, answer: None
        self._connections: dict[Endpoint, _Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def prepare(self) -> None:
        """Make the settings now; ConfigError when they are at fault."""
        self._settings()

    def send(self, outgoing: Outgoing) -> None:
        """Send a request; its answer, or None, comes to `answered` in a later turn of the loop."""
        connection = self._connections.get(outgoing.to.endpoint)
        if connection is None:
            connection = _Connection(outgoing.to.endpoint, self._settings)
            self._connections[outgoing.to.endpoint] = connection
        task = asyncio.create_task(self._exchange(connection, outgoing), name=f"raft request to {outgoing.to.node_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Drop what is under way and close every connection."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()

    async def _exchange(self, connection: _Connection, outgoing: Outgoing) -> None:
        answer: Message | None
        try:
            answer = await connection.call(outgoing.message, outgoing.timeout_ms)
        except UnsupportedVersionError:
            answer = refuse(outgoing.message, _newest(outgoing.message), ErrorCode.UNSUPPORTED_VERSION)
        except (ChannelError, ConfigError, OSError) as e:
            log.debug("no answer", request=outgoing.message.NAME, node=outgoing.to.node_id, reason=str(e))
            answer = None
        self.answered(outgoing.request_id, answer)

    def _settings(self) -> ChannelSettings:
        if self._made is None:
            self._made = self._make_settings()
        return self._made


def _newest(message: Any) -> int:
    return int(message.MAX_VERSION)


def impatient(settings: ChannelSettings, timeout_ms: int) -> ChannelSettings:
    """Give settings with which connecting takes no longer than a request may."""
    return replace(settings, connect_timeout_ms=min(settings.connect_timeout_ms, timeout_ms))
