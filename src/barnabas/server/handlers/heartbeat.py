"""Heartbeat v0-4 (v3 static members). KIP-62, KIP-345."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(HeartbeatRequest, authz=BY_HANDLER)
async def heartbeat(request: HeartbeatRequest, ctx: RequestContext) -> HeartbeatResponse:
    """Note that a member lives, and tell it of a rebalance."""
    if not ctx.authorize(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    try:
        return await ctx.node.groups.heartbeat(request)
    except ApiError as e:
        # While the group is being loaded nobody's session runs: all is well, as far as the member goes.
        loading = e.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if loading else e.code)
