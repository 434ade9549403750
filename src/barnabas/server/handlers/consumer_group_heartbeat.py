"""ConsumerGroupHeartbeat v0-1 (v1 regular expressions, members name themselves). KIP-848, KIP-1082."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.groups.consumer_protocol import require_consumer_protocol
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(ConsumerGroupHeartbeatRequest, authz=BY_HANDLER)
async def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, ctx: RequestContext
) -> ConsumerGroupHeartbeatResponse:
    """Let a member join, go on or leave, and tell it what to read."""
    require_consumer_protocol(ctx)
    if not ctx.authorize(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = set(request.subscribed_topic_names or ())
    if ctx.authorize_many(AclOperation.DESCRIBE, ResourceType.TOPIC, sorted(names)) != names:
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    allowed = partial(ctx.authorize_many, AclOperation.DESCRIBE, ResourceType.TOPIC, audit_denied=False)
    try:
        return await ctx.node.groups.consumer_heartbeat(request, ctx.version, ctx.client_id or "", ctx.host, allowed)
    except ApiError as e:
        return ConsumerGroupHeartbeatResponse(error_code=e.code, error_message=e.message or None)
