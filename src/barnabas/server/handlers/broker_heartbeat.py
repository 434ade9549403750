"""BrokerHeartbeat v0-2 (v1 offline directories, v2 cordoned ones). KIP-500, KIP-858."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.registrations import process_heartbeat
from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(BrokerHeartbeatRequest, authz=on_cluster(AclOperation.CLUSTER_ACTION))
async def broker_heartbeat(req: BrokerHeartbeatRequest, ctx: RequestContext) -> BrokerHeartbeatResponse:
    """Hear a broker, and tell it whether it is fenced and whether it may stop."""
    sessions, schema = ctx.node.broker_sessions, ctx.node.changes.schema
    heartbeats = sessions.heartbeats
    heartbeats.contacted(req.broker_id, req.broker_epoch, sessions.now_ms(), ctx.connection.id)
    reply = await ctx.node.controller.write(lambda image: process_heartbeat(image, req, schema, heartbeats))
    if reply.in_controlled_shutdown:
        image = sessions.committed_image
        broker = image.cluster.brokers.get(req.broker_id)
        if broker is not None:
            heartbeats.shutting_down(image, broker, image.offset_epoch.offset)
    return BrokerHeartbeatResponse(
        is_caught_up=reply.caught_up,
        is_fenced=reply.fenced,
        should_shut_down=reply.should_shut_down,
        throttle_time_ms=ctx.throttle_ms,
    )
