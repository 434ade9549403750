"""BrokerRegistration v0-4 (v2 log directories, v3 previous epoch). KIP-500, KIP-858, KIP-966."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.registrations import register_broker
from barnabas.core.replicated import Decision
from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(BrokerRegistrationRequest, authz=on_cluster(AclOperation.CLUSTER_ACTION))
async def broker_registration(req: BrokerRegistrationRequest, ctx: RequestContext) -> BrokerRegistrationResponse:
    """Take a broker into the cluster; it stays fenced until its heartbeats say that it has caught up."""
    sessions, controller = ctx.node.broker_sessions, ctx.node.controller

    def decide(image: MetadataImage) -> Decision[int]:
        return register_broker(
            image,
            req,
            ctx.node.changes.schema,
            sessions.heartbeats,
            cluster_id=ctx.node.cluster_id,
            new_epoch=image.offset_epoch.offset + 1,
            now_ms=sessions.now_ms(),
            kraft_version=ctx.node.replica.kraft_version,
            knows_previous_epoch=ctx.version >= 3,
        )

    try:
        epoch = await controller.write(decide)
    except ApiError as e:
        if e.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            sessions.ended.registers_again(req.broker_id)
        raise
    sessions.heartbeats.registered(req.broker_id, epoch, sessions.committed_image.offset_epoch.offset)
    return BrokerRegistrationResponse(broker_epoch=epoch, throttle_time_ms=ctx.throttle_ms)
