"""What a client has told of its session, waited for by event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from barnabas.core.zookeeper.values import SessionEvent, SessionState
from barnabas.net.zookeeper.client import ZooKeeperClient

LIMIT_S: Final = 90


class Seen:
    """Listens from its making on."""

    def __init__(self, client: ZooKeeperClient) -> None:
        self.events: list[SessionEvent] = []
        self._news = asyncio.Event()
        client.on_state(self._heard)

    @property
    def states(self) -> list[SessionState]:
        """What has been, in order, without details."""
        return [event.state for event in self.events]

    async def until(self, state: SessionState, count: int = 1) -> SessionEvent:
        """Wait until there have been so many of a state, and give the last of these."""
        await self._until(lambda: self.states.count(state) >= count)
        return [event for event in self.events if event.state is state][count - 1]

    async def after(self, known: int, *states: SessionState) -> SessionEvent:
        """Wait for one of the states that comes after so many events, and give it."""
        await self._until(lambda: any(state in states for state in self.states[known:]))
        return next(event for event in self.events[known:] if event.state in states)

    async def _until(self, ask: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not ask():
                self._news.clear()
                await self._news.wait()

    def _heard(self, event: SessionEvent) -> None:
        self.events.append(event)
        self._news.set()
