"""DescribeGroups v0-6 (v3 authorized operations, v4 static members, v6 absent groups are errors). KIP-430, KIP-1043."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

FIRST_VERSION_WITH_OPERATIONS = 3


@handles(DescribeGroupsRequest, authz=BY_HANDLER)
def describe_groups(request: DescribeGroupsRequest, ctx: RequestContext) -> DescribeGroupsResponse:
    """Describe groups and their members."""
    ctx.authz.decided = not request.groups
    allowed = ctx.authorize_many(AclOperation.DESCRIBE, ResourceType.GROUP, request.groups)
    refused = [
        DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in request.groups
        if group_id not in allowed
    ]
    described = ctx.node.groups.describe([g for g in request.groups if g in allowed], ctx.version)
    if ctx.version >= FIRST_VERSION_WITH_OPERATIONS and request.include_authorized_operations:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ctx.authorized_operations(ResourceType.GROUP, group.group_id)
    return DescribeGroupsResponse(groups=refused + described)
