"""LeaveGroup v0-5 (v3 many members, by instance as well; v5 reasons). KIP-345, KIP-800."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

FIRST_VERSION_WITH_MANY = 3


@handles(LeaveGroupRequest, authz=BY_HANDLER)
async def leave_group(request: LeaveGroupRequest, ctx: RequestContext) -> LeaveGroupResponse:
    """Let members go."""
    if not ctx.authorize(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    alone = ctx.version < FIRST_VERSION_WITH_MANY
    if alone:
        request = LeaveGroupRequest(group_id=request.group_id, members=[MemberIdentity(member_id=request.member_id)])
    try:
        response = await ctx.node.groups.leave(request)
    except ApiError as e:
        return LeaveGroupResponse(error_code=e.code)
    if alone:
        code = response.error_code or next((m.error_code for m in response.members), ErrorCode.NONE)
        return LeaveGroupResponse(error_code=code)
    return response
