"""ListGroups v0-5 (v4 states, v5 types). KIP-518, KIP-848."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(ListGroupsRequest, authz=BY_HANDLER)
def list_groups(request: ListGroupsRequest, ctx: RequestContext) -> ListGroupsResponse:
    """List this node's groups: all for who may describe the cluster, else those that one may describe."""
    all_of_them = ctx.authorize(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, audit_denied=False)
    groups = ctx.node.groups.listed(request.states_filter, request.types_filter)
    if not all_of_them:
        names = [g.group_id for g in groups]
        allowed = ctx.authorize_many(AclOperation.DESCRIBE, ResourceType.GROUP, names, audit_denied=False)
        groups = [g for g in groups if g.group_id in allowed]
    return ListGroupsResponse(groups=groups)
