"""Fences brokers whose process has ended without waiting for the end of their session.

A broker becomes a suspect when the connection that its last heartbeat came by ends, when it is one process with a
controller that led until a moment ago, or when another run of it wants to register with a controller that has never
heard of the one before. Its addresses are tried then: where all of them refuse connections nobody is
left to hear from. A broker that hangs or is cut off refuses nothing and has its session's time; so has one whose
connection broke, which is heard of again (docs/decisions/cluster.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog

from barnabas.core.metadata.heartbeats import BrokerHeartbeats, Suspect
from barnabas.core.metadata.image import MetadataImage
from barnabas.net.refusal import refuses
from barnabas.wire.errors import ApiError

log = structlog.get_logger("kafka.controller")

_LOOKS_AFTER_S: Final = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
"""A process that ends may close its listeners after its connections, on a busy machine long after. One that lives is
heard of again before the last of these."""
_LOOK_MS: Final = 1_000


class EndedBrokers:
    """See the module. `run` is its task; fence: has the active controller fence a suspect, and says whether it did."""

    def __init__(
        self,
        heartbeats: BrokerHeartbeats,
        image: Callable[[], MetadataImage],
        fence: Callable[[Suspect], Awaitable[bool]],
    ) -> None:
        self._heartbeats = heartbeats
        self._image = image
        self._fence = fence
        self._suspects: asyncio.Queue[Suspect] = asyncio.Queue()

    def connection_ended(self, connection: str) -> None:
        """Take note that a connection to this controller has ended."""
        suspect = self._heartbeats.cut_off(connection)
        if suspect is not None:
            self.suspect(suspect)

    def registers_again(self, broker_id: int) -> None:
        """Take note that a broker was refused because an earlier run of it is thought alive."""
        broker = self._image().cluster.brokers.get(broker_id)
        suspect = None if broker is None else self._heartbeats.never_heard(broker_id, broker.epoch)
        if suspect is not None:
            self.suspect(suspect)

    def suspect(self, suspect: Suspect) -> None:
        """Look soon whether that broker has ended."""
        self._suspects.put_nowait(suspect)

    async def run(self) -> None:
        """Look after suspects until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._look_at(await self._suspects.get()), name="suspected broker")

    async def _look_at(self, suspect: Suspect) -> None:
        for wait_s in _LOOKS_AFTER_S:
            await asyncio.sleep(wait_s)
            if not self._heartbeats.unheard(suspect):
                return
            if await self._is_gone(suspect):
                with suppress(ApiError):  # not the active controller any more: its successor looks after brokers
                    if await self._fence(suspect):
                        log.warning("fenced a broker whose process has ended", broker=suspect.broker)
                return

    async def _is_gone(self, suspect: Suspect) -> bool:
        broker = self._image().cluster.brokers.get(suspect.broker)
        if broker is None or broker.epoch != suspect.epoch:
            return False
        looks = [refuses(e.host, e.port, _LOOK_MS) for e in broker.listeners.values()]
        return bool(looks) and all(await asyncio.gather(*looks))
