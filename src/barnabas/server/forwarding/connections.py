"""Connections to one controller: a few, each with one request under way at a time.

A node answers the requests of a connection in order, so a slow one would hold up whatever was sent behind it. With
some connections side by side it holds up nobody until all are slow (KAFKA-15406); what is more waits its turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from barnabas.net.client import Channel, ChannelError, ChannelSettings, DisconnectedError

if TYPE_CHECKING:
    from barnabas.server.forwarding.controller_channel import ActiveController

FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 0.25


class ControllerConnections:
    """See the module. Each connection learns the controller's versions when it is made (KIP-590)."""

    def __init__(
        self,
        target: ActiveController,
        settings: Callable[[], ChannelSettings],
        limit: int,
        opened: Callable[[Channel], None],
    ) -> None:
        """settings: as of the moment a connection is made; limit: how many there may be; opened: hears of each."""
        self.target = target
        self._settings = settings
        self._limit = limit
        self._opened = opened
        self._idle: list[Channel] = []
        self._busy: set[Channel] = set()
        self._connecting = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False
        self._probe: asyncio.Task[bool] | None = None
        self._failure: ChannelError | None = None
        self._try_again_at = 0.0
        self._pause_s = FIRST_PAUSE_S

    async def acquire(self) -> Channel:
        """Give a connection that nobody uses; ChannelError when none can be made. `release` gives it back."""
        while True:
            if self._closed:
                raise DisconnectedError("another controller is active")
            while self._idle:
                channel = self._idle.pop()
                if not channel.is_closed:
                    self._busy.add(channel)
                    return channel
            if self._failure is not None and asyncio.get_running_loop().time() < self._try_again_at:
                raise type(self._failure)(str(self._failure))
            if len(self._busy) + self._connecting < self._limit:
                channel = await self._connect()
                self._busy.add(channel)
                return channel
            await self._turn()

    @property
    def in_use(self) -> bool:
        """Say whether something is under way on any of them."""
        return bool(self._busy or self._connecting)

    def release(self, channel: Channel) -> None:
        """Take a connection back that nothing is under way on."""
        self._busy.discard(channel)
        if self._closed:
            self._close(channel)
        elif not channel.is_closed:
            self._idle.append(channel)
        self._wake()

    async def answers(self, within_ms: int) -> bool:
        """Say whether the controller's process still talks: makes a connection of its own to see.

        Many may ask at once; they share one look.
        """
        if self._probe is None:
            self._probe = asyncio.create_task(self._answers(within_ms))
            self._probe.add_done_callback(self._probed)
        return await asyncio.shield(self._probe)

    def close(self) -> None:
        """Make no more connections, and close each once nothing is under way on it."""
        self._closed = True
        for channel in self._idle:
            self._close(channel)
        self._idle.clear()
        while self._waiting:
            self._wake()

    def abort(self) -> None:
        """Close all connections at once; those who wait for an answer get a DisconnectedError."""
        for channel in (*self._idle, *self._busy):
            self._close(channel)
        self._idle.clear()

    async def closed(self) -> None:
        """Close everything and wait until it is."""
        self.close()
        self.abort()
        if self._probe is not None:
            self._probe.cancel()
        while self._closing:
            await asyncio.wait(self._closing)

    async def _connect(self) -> Channel:
        self._connecting += 1
        try:
            channel = await Channel.open(self.target.host, self.target.port, self._settings())
        except ChannelError as e:
            self._failed(e)
            raise
        finally:
            self._connecting -= 1
            self._wake()
        self._failure, self._pause_s = None, FIRST_PAUSE_S
        self._opened(channel)
        return channel

    def _failed(self, error: ChannelError) -> None:
        """Let nobody try for a moment: however many wait, a node that is down is asked a few times a second."""
        self._failure = error
        self._try_again_at = asyncio.get_running_loop().time() + self._pause_s
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
        for _ in range(len(self._waiting)):
            self._wake()

    async def _turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._wake()  # it was ours, and somebody else can have it
            raise

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    async def _answers(self, within_ms: int) -> bool:
        settings = self._settings()
        quick = replace(settings, connect_timeout_ms=within_ms, request_timeout_ms=within_ms)
        try:
            channel = await Channel.open(self.target.host, self.target.port, quick)
        except ChannelError:
            return False
        self._opened(channel)
        await channel.close()
        return True

    def _probed(self, probe: asyncio.Task[bool]) -> None:
        self._probe = None
        if not probe.cancelled():
            probe.exception()

    def _close(self, channel: Channel) -> None:
        if not channel.is_closed:
            task = asyncio.create_task(channel.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
