"""Producer ids, handed out from blocks that the controller allots (KIP-730)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

Allocate = Callable[[AllocateProducerIdsRequest], Awaitable[AllocateProducerIdsResponse]]


class ProducerIds:
    """The block of this broker; a new one is asked for when it is used up."""

    def __init__(self, allocate: Allocate, request: Callable[[], AllocateProducerIdsRequest]) -> None:
        """request makes the question, with the broker's id and present epoch."""
        self._allocate = allocate
        self._request = request
        self._next = 0
        self._end = 0
        self._refill = asyncio.Lock()

    async def next(self) -> int:
        """Give an id that nobody else has; COORDINATOR_LOAD_IN_PROGRESS while no block can be had."""
        await self.provide()
        return self.take()

    @property
    def at_hand(self) -> bool:
        """Say whether there is an id to take."""
        return self._next < self._end

    async def provide(self) -> None:
        """See that there is an id to take; COORDINATOR_LOAD_IN_PROGRESS while no block can be had."""
        async with self._refill:
            if self._next == self._end:
                answer = await self._allocate(self._request())
                if answer.error_code:
                    raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                self._next = answer.producer_id_start
                self._end = self._next + answer.producer_id_len

    def take(self) -> int:
        """Give an id that nobody else has; COORDINATOR_LOAD_IN_PROGRESS when none is at hand."""
        if self._next == self._end:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self._next += 1
        return self._next - 1
