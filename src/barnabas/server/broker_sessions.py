"""Which brokers the active controller of a metadata quorum hears of, and which it fences: silent and ended ones."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import structlog

from barnabas.core.metadata.config_changes import ConfigSchema
from barnabas.core.metadata.heartbeats import BrokerHeartbeats, Suspect
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.registrations import fence_ended_broker, fence_stale_broker
from barnabas.model.ports import Clock
from barnabas.server.config import NodeConfig
from barnabas.server.controller import Controller
from barnabas.server.ended_brokers import EndedBrokers
from barnabas.wire.errors import ApiError

log = structlog.get_logger("kafka.controller")

_CHECKS_A_SESSION: Final = 8
"""Silent brokers are looked for so often in a session's time."""


class BrokerSessions:
    """See the module. `run` is its task; handlers use the rest, while this controller is the active one."""

    def __init__(self, config: NodeConfig, clock: Clock, controller: Controller, schema: ConfigSchema) -> None:
        self._config = config
        self._clock = clock
        self._controller = controller
        self._schema = schema
        self.heartbeats = BrokerHeartbeats(config["broker.session.timeout.ms"])
        self.ended = EndedBrokers(self.heartbeats, lambda: controller.image, self._fence_ended)
        self._knows_own_broker = not config.is_broker
        controller.on_active = self._activate

    def _activate(self, image: MetadataImage) -> None:
        """Begin with what the predecessor's log says: nobody is silent yet."""
        # Before this process has registered its own broker, what the log says of that one is an earlier run's.
        own_id = None if self._knows_own_broker else self._config.node_id
        self._knows_own_broker = True
        self.heartbeats.activate(image, self.now_ms(), own_id=own_id)
        predecessor = image.cluster.brokers.get(self._controller.predecessor)
        if predecessor is not None and not predecessor.fenced:
            # One process with the controller that led before, which has ended unless it only lost the lead.
            self.ended.suspect(Suspect(predecessor.id, predecessor.epoch, ""))

    @property
    def committed_image(self) -> MetadataImage:
        """Give the committed metadata as the controller knows it."""
        return self._controller.committed_image

    def now_ms(self) -> int:
        """Give the clock that sessions are measured by."""
        return self._clock.monotonic_ms()

    async def run(self) -> None:
        """Look after the brokers for as long as this node is the active controller."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._fence_silent_brokers(), name="broker sessions")
            group.create_task(self.ended.run(), name="ended brokers")

    async def _fence_silent_brokers(self) -> None:
        interval_s = max(1, self.heartbeats.session_ms // _CHECKS_A_SESSION) / 1000
        while True:
            await asyncio.sleep(interval_s)
            with suppress(ApiError):  # not the active controller for now: its successor looks after them
                while await self._controller.write(
                    lambda image: fence_stale_broker(image, self._schema, self.heartbeats, self.now_ms())
                ):
                    log.warning("fenced a broker that was silent for too long")

    async def _fence_ended(self, suspect: Suspect) -> bool:
        return await self._controller.write(
            lambda image: fence_ended_broker(image, self._schema, self.heartbeats, suspect)
        )
