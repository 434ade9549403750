"""A controller that does not lead tells the one that does where it is and what it supports (KIP-919)."""

from __future__ import annotations

import asyncio

import structlog

from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.server.controller import Controller
from barnabas.server.forwarding.controller_channel import ControllerChannel
from barnabas.wire.errors import ErrorCode

log = structlog.get_logger("kafka.controller")

_RETRY_S = 0.5


class ControllerRegistrar:
    """A publisher that compares what the log says of this controller with what is so, and a task that tells it."""

    def __init__(self, controller: Controller, channel: ControllerChannel) -> None:
        self._controller = controller
        self._channel = channel
        self._wanted = asyncio.Event()

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take note of what the log says; the active controller writes its own registration when it begins to lead."""
        mine = self._controller.registration
        known = image.cluster.controllers.get(mine.controller_id)
        told = known is not None and known.incarnation_id == mine.incarnation_id
        if told or not image.levels.controller_registration:
            self._wanted.clear()
        else:
            self._wanted.set()

    async def run(self) -> None:
        """Register whenever the log does not know this incarnation, until cancelled."""
        while True:
            await self._wanted.wait()
            if not self._controller.is_active:
                request = self._controller.registration
                answer = await self._channel.call(request, request.MAX_VERSION)
                if answer.error_code:
                    log.warning("the active controller does not register this one",
                                error=ErrorCode(answer.error_code).name, why=answer.error_message)  # fmt: skip
            await asyncio.sleep(_RETRY_S)
