"""Admin: configurations of topics, brokers, loggers, groups and client metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from barnabas.client.admin.outcome import ClusterAdmin, check, refusal
from barnabas.wire.errors import ApiError
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse


class ConfigResourceType(IntEnum):
    """What has a configuration; the numbers are the wire's."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """One thing with a configuration. A BROKER without a name is the cluster's default."""

    type: ConfigResourceType
    name: str


class AlterConfigOp(IntEnum):
    """What to do with a value; the numbers are the wire's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One change of one key. value: None with DELETE."""

    key: str
    op: AlterConfigOp
    value: str | None = None


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers are the wire's."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigsAdmin(ClusterAdmin):
    """Operations on configurations."""

    async def describe_configs(
        self,
        resources: Sequence[ConfigResource],
        *,
        keys: Sequence[str] | None = None,
        synonyms: bool = True,
        documentation: bool = False,
    ) -> dict[ConfigResource, list[DescribeConfigsResourceResult] | ApiError]:
        """Give the configuration of each resource, every key or only `keys`."""
        found: dict[ConfigResource, list[DescribeConfigsResourceResult] | ApiError] = {}
        for node, group in self._by_node(resources).items():
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=r.type,
                        resource_name=r.name,
                        configuration_keys=None if keys is None else list(keys),
                    )
                    for r in group
                ],
                include_synonyms=synonyms,
                include_documentation=documentation,
            )
            response: DescribeConfigsResponse = await (
                self.cluster.call_any(request) if node is None else self.cluster.call_node(node, request)
            )
            for result in response.results:
                resource = ConfigResource(ConfigResourceType(result.resource_type), result.resource_name)
                found[resource] = refusal(result.error_code, result.error_message) or result.configs
        return found

    async def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> dict[ConfigResource, ApiError | None]:
        """Change single keys of configurations; give how each resource went."""
        results: dict[ConfigResource, ApiError | None] = {}
        for node, group in self._by_node(list(changes)).items():
            request = IncrementalAlterConfigsRequest(
                resources=[
                    AlterConfigsResource(
                        resource_type=r.type,
                        resource_name=r.name,
                        configs=[AlterableConfig(name=c.key, config_operation=c.op, value=c.value) for c in changes[r]],
                    )
                    for r in group
                ],
                validate_only=validate_only,
            )
            response: IncrementalAlterConfigsResponse = await (
                self.cluster.call_any(request) if node is None else self.cluster.call_node(node, request)
            )
            for result in response.responses:
                resource = ConfigResource(ConfigResourceType(result.resource_type), result.resource_name)
                results[resource] = refusal(result.error_code, result.error_message)
        return results

    async def list_config_resources(self, kind: ConfigResourceType) -> list[str]:
        """Give the names of the resources of a kind that have a configuration of their own (KIP-1142)."""
        response: ListConfigResourcesResponse = await self.cluster.call_any(
            ListConfigResourcesRequest(resource_types=[kind])
        )
        check(response.error_code)
        return sorted(r.resource_name for r in response.config_resources if r.resource_type == kind)

    def _by_node(self, resources: Sequence[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
        """Group resources by the node that must be asked: a broker knows its own values and loggers best."""
        if self.cluster.config.asks_controllers:
            return {None: list(resources)}
        groups: dict[int | None, list[ConfigResource]] = {}
        for resource in resources:
            own = resource.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and resource.name
            groups.setdefault(int(resource.name) if own and resource.name.isdigit() else None, []).append(resource)
        return groups
