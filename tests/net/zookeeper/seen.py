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
        await self.until_true(lambda: self.states.count(state) >= count)
        return [event for event in self.events if event.state is state][count - 1]

    async def until_true(self, ask: Callable[[], bool]) -> None:
        """Wait until it is so, asking at each event."""
        async with asyncio.timeout(LIMIT_S):
            while not ask():
                self._news.clear()
                await self._news.wait()

    def _heard(self, event: SessionEvent) -> None:
        self.events.append(event)
        self._news.set()
