"""What the active controller has at hand when it decides: the schema of configs, policies, chance and fresh ids.

And what it does by itself: it gives leadership back to preferred replicas, elects leaders uncleanly where topics allow
it, and removes delegation tokens that are past their time.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import structlog

from barnabas.core.metadata.elections import balance_leaders, elect_unclean
from barnabas.core.metadata.token_changes import TokenRules, sweep_tokens
from barnabas.core.metadata.topic_changes import TopicPlans
from barnabas.model.ports import Clock
from barnabas.server.cluster_metadata import DecidingController
from barnabas.server.config import NodeConfig
from barnabas.server.config_schema import NodeConfigSchema
from barnabas.server.format import random_uuid
from barnabas.server.policies import Policies
from barnabas.wire.errors import ApiError

log = structlog.get_logger("kafka.controller")


class ClusterChanges:
    """See the module. `run` is its task, handlers use the rest, while this node's controller is the active one."""

    def __init__(self, config: NodeConfig, clock: Clock, token_rules: TokenRules) -> None:
        self._config = config
        self._clock = clock
        self.policies = Policies.load(config)
        self.schema = NodeConfigSchema(config, self.policies.alter_config)
        self.token_rules = token_rules
        self.plans = TopicPlans(
            schema=self.schema,
            new_uuid=random_uuid,
            random_below=random.randrange,
            num_partitions=config["num.partitions"],
            replication_factor=config["default.replication.factor"],
            check_policy=self.policies.create_topic,
        )

    async def run(self, controller: DecidingController) -> None:
        """Look after the cluster for as long as `controller` is the active one; its successor does so else."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._elect_unclean(controller), name="unclean elections")
            if self.token_rules.secrets is not None:
                group.create_task(self._sweep_tokens(controller), name="expired tokens")
            if self._config["auto.leader.rebalance.enable"]:
                group.create_task(self._balance_leaders(controller), name="leader balance")

    async def _balance_leaders(self, controller: DecidingController) -> None:
        interval_s = self._config["leader.imbalance.check.interval.seconds"]
        while True:
            await asyncio.sleep(interval_s)
            with suppress(ApiError):
                while await controller.write(lambda image: balance_leaders(image, self.schema)):
                    pass

    async def _sweep_tokens(self, controller: DecidingController) -> None:
        interval_s = self._config["delegation.token.expiry.check.interval.ms"] / 1000
        while True:
            await asyncio.sleep(interval_s)
            with suppress(ApiError):
                while gone := await controller.write(lambda image: sweep_tokens(image.tokens, self._clock.now_ms())):
                    log.info("delegation tokens are past their time", tokens=gone)

    async def _elect_unclean(self, controller: DecidingController) -> None:
        interval_s = self._config["unclean.leader.election.interval.ms"] / 1000
        while True:
            await asyncio.sleep(interval_s)
            with suppress(ApiError):
                while await controller.write(lambda image: elect_unclean(image, self.schema)):
                    pass
