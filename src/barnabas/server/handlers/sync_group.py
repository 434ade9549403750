"""SyncGroup v0-5 (v3 static members, v5 the protocol must be named). KIP-62, KIP-345, KIP-559."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

FIRST_VERSION_NAMING_PROTOCOL = 5


@handles(SyncGroupRequest, authz=BY_HANDLER)
async def sync_group(request: SyncGroupRequest, ctx: RequestContext) -> SyncGroupResponse:
    """Give a member its assignment, once the leader has sent it."""
    unnamed = request.protocol_type is None or request.protocol_name is None
    if ctx.version >= FIRST_VERSION_NAMING_PROTOCOL and unnamed:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not ctx.authorize(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    try:
        return await ctx.node.groups.sync(request)
    except ApiError as e:
        return SyncGroupResponse(error_code=e.code)
