"""DescribeCluster v0-2 on clients' listeners (v1 endpoint types, v2 fenced brokers). KIP-700, KIP-919, KIP-1073.

It tells of brokers, to anybody.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.server.router import ALWAYS_ALLOWED, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


class EndpointType(IntEnum):
    """Whose addresses are asked for; the numbers are the wire's."""

    BROKER = 1
    CONTROLLER = 2


@handles(DescribeClusterRequest, authz=ALWAYS_ALLOWED)
def describe_cluster(request: DescribeClusterRequest, ctx: RequestContext) -> DescribeClusterResponse:
    """Describe the brokers at their addresses on the client's listener."""
    check_endpoint_type(request, EndpointType.BROKER, ctx)
    listener = ctx.listener_name
    brokers = [
        DescribeClusterBroker(
            broker_id=broker_id,
            host=broker.listeners[listener].host,
            port=broker.listeners[listener].port,
            rack=broker.rack,
            is_fenced=broker.fenced,
        )
        for broker_id, broker in sorted(ctx.node.image().cluster.brokers.items())
        if listener in broker.listeners and (request.include_fenced_brokers or not broker.fenced)
    ]
    return described(request, EndpointType.BROKER, brokers, ctx.node.shown_controller(), ctx)


def check_endpoint_type(request: DescribeClusterRequest, served: EndpointType, ctx: RequestContext) -> None:
    """Refuse by ApiError a request for nodes of the other kind."""
    if request.endpoint_type == served:
        return
    if request.endpoint_type not in list(EndpointType):
        code, message = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"endpoint type {request.endpoint_type}: want 1 or 2"
    else:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = (
            f"this endpoint describes {served.name} nodes, the request wants "
            f"{EndpointType(request.endpoint_type).name} nodes"
        )
    raise ApiError(ErrorCode.INVALID_REQUEST if ctx.version == 0 else code, message)


def described(
    request: DescribeClusterRequest,
    served: EndpointType,
    nodes: list[DescribeClusterBroker],
    controller_id: int,
    ctx: RequestContext,
) -> DescribeClusterResponse:
    """Give the answer that both kinds of listener share."""
    response = DescribeClusterResponse(
        endpoint_type=served,
        cluster_id=ctx.node.cluster_id,
        controller_id=controller_id if any(n.broker_id == controller_id for n in nodes) else -1,
        brokers=nodes,
    )
    if request.include_cluster_authorized_operations:
        allowed = ctx.authorize(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
        response.cluster_authorized_operations = (
            ctx.authorized_operations(ResourceType.CLUSTER, CLUSTER_NAME) if allowed else 0
        )
    return response
