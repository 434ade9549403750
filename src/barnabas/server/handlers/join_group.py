"""JoinGroup v0-9 (v1 rebalance timeout, v4 known ids, v5 static members, v7 protocol type, v9 skip assignment).

KIP-62, KIP-345, KIP-394, KIP-559, KIP-814.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

FIRST_VERSION_WITH_NULL_PROTOCOL = 7


@handles(JoinGroupRequest, authz=BY_HANDLER)
async def join_group(request: JoinGroupRequest, ctx: RequestContext) -> JoinGroupResponse:
    """Take a member in, when the join phase of its group ends."""
    if not ctx.authorize(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return fit(JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED), ctx.version)
    if ctx.version == 0:
        request.rebalance_timeout_ms = request.session_timeout_ms
    try:
        response = await ctx.node.groups.join(request, ctx.client_id or "", ctx.host, ctx.version)
    except ApiError as e:
        response = JoinGroupResponse(error_code=e.code, member_id=request.member_id)
    return fit(response, ctx.version)


def fit(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """Say "no protocol" as the version does: null since v7, an empty name before."""
    if version < FIRST_VERSION_WITH_NULL_PROTOCOL:
        response.protocol_name = response.protocol_name or ""
    else:
        response.protocol_name = response.protocol_name or None
    return response
