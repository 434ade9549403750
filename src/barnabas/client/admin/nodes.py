"""Admin: the cluster's nodes, their log directories and the feature levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from barnabas.client.admin.outcome import ClusterAdmin, check
from barnabas.client.cluster import CONTROLLERS, Node
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from barnabas.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from barnabas.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse


class UpgradeType(IntEnum):
    """How a feature level may change; the numbers are the wire's."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureLevels(NamedTuple):
    """Feature levels as one node sees them. supported: name -> (min, max); finalized: name -> level."""

    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, int]
    epoch: int


class FeatureUpdate(NamedTuple):
    """A feature level to set; level 0 removes the feature."""

    feature: str
    level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


class NodesAdmin(ClusterAdmin):
    """Operations on nodes."""

    async def describe_cluster(self, *, include_fenced: bool = False) -> DescribeClusterResponse:
        """Give the cluster's id, its brokers and its controller; with bootstrap.controllers the controllers instead."""
        request = DescribeClusterRequest(include_fenced_brokers=include_fenced)
        if self.cluster.config.asks_controllers:
            request.endpoint_type = CONTROLLERS
        response: DescribeClusterResponse = await self.cluster.call_any(request)
        check(response.error_code, response.error_message)
        return response

    async def nodes(self) -> list[Node]:
        """Give the live brokers."""

        async def once() -> None:
            await self.cluster.refresh(())

        await self.cluster.retry(once)
        return sorted(self.cluster.nodes.values())

    async def api_versions(self, node_id: int) -> Mapping[int, tuple[int, int]]:
        """Give the APIs that a node serves, with the versions of each."""
        return (await self.cluster.channel(node_id)).api_versions

    async def describe_log_dirs(self, brokers: Sequence[int] | None = None) -> dict[int, list[DescribeLogDirsResult]]:
        """Give the log directories of these brokers, of all when None, with the partitions in them."""
        chosen = [n.id for n in await self.nodes()] if brokers is None else brokers
        found = {}
        for broker in chosen:
            response: DescribeLogDirsResponse = await self.cluster.call_node(
                broker, DescribeLogDirsRequest(topics=None)
            )
            check(response.error_code)
            found[broker] = response.results
        return found

    async def unregister_broker(self, broker: int) -> None:
        """Forget a broker that is gone for good; ApiError when refused."""
        response: UnregisterBrokerResponse = await self.cluster.call_any(UnregisterBrokerRequest(broker_id=broker))
        check(response.error_code, response.error_message)

    async def describe_features(self, node_id: int | None = None) -> FeatureLevels:
        """Give the feature levels that are finalised, and those that one node supports."""

        async def once() -> FeatureLevels:
            cluster = self.cluster
            channel = await (cluster.any_channel() if node_id is None else cluster.channel(node_id))
            await channel.negotiate()
            return FeatureLevels(
                channel.supported_features,
                {name: levels[1] for name, levels in channel.finalized_features.items()},
                channel.finalized_features_epoch,
            )

        return await self.cluster.retry(once)

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
    ) -> dict[str, ApiError | None]:
        """Set feature levels, all or none; give how each went."""
        request = UpdateFeaturesRequest(
            timeout_ms=self.timeout_ms,
            feature_updates=[
                FeatureUpdateKey(feature=u.feature, max_version_level=u.level, upgrade_type=u.upgrade_type)
                for u in updates
            ],
            validate_only=validate_only,
        )
        response: UpdateFeaturesResponse = await self.cluster.call_any(request)
        check(response.error_code, response.error_message)
        results: dict[str, ApiError | None] = {u.feature: None for u in updates}
        for r in response.results:
            if r.error_code != ErrorCode.NONE:
                results[r.feature] = ApiError(ErrorCode(r.error_code), r.error_message)
        return results
