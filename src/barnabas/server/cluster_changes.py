"""What the active controller has at hand when it decides: heartbeats, the schema of configs, chance and fresh ids.

And what it does by itself: it fences brokers that are silent or have ended, gives leadership back to preferred
replicas, elects leaders uncleanly where topics allow it, and removes delegation tokens that are past their time.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Final

import structlog

from barnabas.core.metadata.elections import balance_leaders, elect_unclean
from barnabas.core.metadata.heartbeats import BrokerHeartbeats, Suspect
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.registrations import fence_ended_broker, fence_stale_broker
from barnabas.core.metadata.token_changes import TokenRules, sweep_tokens
from barnabas.core.metadata.topic_changes import TopicPlans
from barnabas.model.ports import Clock
from barnabas.server.config import NodeConfig
from barnabas.server.config_schema import NodeConfigSchema
from barnabas.server.controller import Controller
from barnabas.server.ended_brokers import EndedBrokers
from barnabas.server.format import random_uuid
from barnabas.server.policies import Policies
from barnabas.wire.errors import ApiError

log = structlog.get_logger("kafka.controller")

_CHECKS_A_SESSION: Final = 8
"""Silent brokers are looked for so often in a session's time."""


class ClusterChanges:
    """See the module. `run` is its task, handlers use the rest, while this controller is the active one."""

    def __init__(self, config: NodeConfig, clock: Clock, controller: Controller, token_rules: TokenRules) -> None:
        self._config = config
        self._clock = clock
        self._controller = controller
        self.policies = Policies.load(config)
        self.schema = NodeConfigSchema(config, self.policies.alter_config)
        self.heartbeats = BrokerHeartbeats(config["broker.session.timeout.ms"])
        self.ended = EndedBrokers(self.heartbeats, lambda: controller.image, self._fence_ended)
        self._knows_own_broker = not config.is_broker
        self.token_rules = token_rules
        controller.on_active = self._activate
        self.plans = TopicPlans(
            schema=self.schema,
            new_uuid=random_uuid,
            random_below=random.randrange,
            num_partitions=config["num.partitions"],
            replication_factor=config["default.replication.factor"],
            check_policy=self.policies.create_topic,
        )

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

    def now_ms(self) -> int:
        """Give the clock that sessions are measured by."""
        return self._clock.monotonic_ms()

    def kraft_version(self) -> int:
        """Give the level of `kraft.version`, which the Raft layer keeps."""
        return self._controller.kraft_version

    async def run(self) -> None:
        """Look after the cluster for as long as this node is the active controller."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._fence_silent_brokers(), name="broker sessions")
            group.create_task(self.ended.run(), name="ended brokers")
            group.create_task(self._elect_unclean(), name="unclean elections")
            if self.token_rules.secrets is not None:
                group.create_task(self._sweep_tokens(), name="expired tokens")
            if self._config["auto.leader.rebalance.enable"]:
                group.create_task(self._balance_leaders(), name="leader balance")

    async def _fence_silent_brokers(self) -> None:
        interval_s = max(1, self.heartbeats.session_ms // _CHECKS_A_SESSION) / 1000
        while True:
            await asyncio.sleep(interval_s)
            with suppress(ApiError):  # not the active controller for now: its successor looks after them
                while await self._controller.write(
                    lambda image: fence_stale_broker(image, self.schema, self.heartbeats, self.now_ms())
                ):
                    log.warning("fenced a broker that was silent for too long")

    async def _fence_ended(self, suspect: Suspect) -> bool:
        return await self._controller.write(
            lambda image: fence_ended_broker(image, self.schema, self.heartbeats, suspect)
        )

    async def _balance_leaders(self) -> None:
        interval_s = self._config["leader.imbalance.check.interval.seconds"]
        while True:
            await asyncio.sleep(interval_s)
            with suppress(ApiError):
                while await self._controller.write(lambda image: balance_leaders(image, self.schema)):
                    pass

    async def _sweep_tokens(self) -> None:
        interval_s = self._config["delegation.token.expiry.check.interval.ms"] / 1000
        while True:
            await asyncio.sleep(interval_s)
            with suppress(ApiError):
                while gone := await self._controller.write(
                    lambda image: sweep_tokens(image.tokens, self._clock.now_ms())
                ):
                    log.info("delegation tokens are past their time", tokens=gone)

    async def _elect_unclean(self) -> None:
        interval_s = self._config["unclean.leader.election.interval.ms"] / 1000
        while True:
            await asyncio.sleep(interval_s)
            with suppress(ApiError):
                while await self._controller.write(lambda image: elect_unclean(image, self.schema)):
                    pass
