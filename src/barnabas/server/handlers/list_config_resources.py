"""ListConfigResources v0-1 (v0 client metrics only, v1 every kind): what has a configuration. KIP-714, KIP-1142."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.metadata.configs import ConfigResourceType
from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

_LISTED: Final = (
    ConfigResourceType.GROUP,
    ConfigResourceType.CLIENT_METRICS,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.BROKER,
    ConfigResourceType.TOPIC,
)


@handles(ListConfigResourcesRequest, authz=on_cluster(AclOperation.DESCRIBE_CONFIGS))
def list_config_resources(request: ListConfigResourcesRequest, ctx: RequestContext) -> ListConfigResourcesResponse:
    """List brokers and topics, and the groups and metrics subscriptions that were configured."""
    known = _LISTED if ctx.version >= 1 else (ConfigResourceType.CLIENT_METRICS,)
    asked = request.resource_types or list(known)
    if not set(asked) <= set(known):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, throttle_time_ms=ctx.throttle_ms)
    found = [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in _LISTED
        if kind in asked
        for name in _names(kind, ctx)
    ]
    return ListConfigResourcesResponse(config_resources=found, throttle_time_ms=ctx.throttle_ms)


def _names(kind: ConfigResourceType, ctx: RequestContext) -> list[str]:
    image = ctx.node.image()
    if kind is ConfigResourceType.TOPIC:
        return sorted(image.topics.by_name)
    if kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
        return [str(broker.node_id) for broker in ctx.node.live_brokers(ctx.listener_name)]
    return sorted(resource.name for resource in image.configs.by_resource if resource.type is kind)
