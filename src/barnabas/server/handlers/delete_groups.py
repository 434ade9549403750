"""DeleteGroups v0-2. KIP-229."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(DeleteGroupsRequest, authz=BY_HANDLER)
async def delete_groups(request: DeleteGroupsRequest, ctx: RequestContext) -> DeleteGroupsResponse:
    """Delete groups that have no members, with their offsets."""
    names = list(dict.fromkeys(request.groups_names))
    ctx.authz.decided = not names
    allowed = ctx.authorize_many(AclOperation.DELETE, ResourceType.GROUP, names)
    results = await ctx.node.groups.delete_groups([n for n in names if n in allowed])
    results += [
        DeletableGroupResult(group_id=name, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for name in names
        if name not in allowed
    ]
    return DeleteGroupsResponse(results=results)
