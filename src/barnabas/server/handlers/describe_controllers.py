"""DescribeCluster v1-2 on controllers' listeners: it tells of controllers, to those who may ALTER the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation
from barnabas.server.handlers.describe_cluster import EndpointType, check_endpoint_type, described
from barnabas.server.router import handles, on_cluster
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(DescribeClusterRequest, authz=on_cluster(AclOperation.ALTER))
def describe_controllers(request: DescribeClusterRequest, ctx: RequestContext) -> DescribeClusterResponse:
    """Describe the registered controllers at their addresses on the listener."""
    if not ctx.node.image().levels.controller_registration:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "controllers are not registered at this metadata.version, so they cannot be described",
        )
    check_endpoint_type(request, EndpointType.CONTROLLER, ctx)
    listener = ctx.listener_name
    controllers = [
        DescribeClusterBroker(broker_id=node_id, host=one.listeners[listener].host, port=one.listeners[listener].port)
        for node_id, one in sorted(ctx.node.image().cluster.controllers.items())
        if listener in one.listeners
    ]
    leader = ctx.node.replica.leader.node_id
    return described(request, EndpointType.CONTROLLER, controllers, -1 if leader is None else leader, ctx)
