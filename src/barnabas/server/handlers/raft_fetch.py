"""Fetch v4-18 on the listener of controllers: replicas copy the metadata log from its leader. KIP-595."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.fetch import FetchRequest

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext
    from barnabas.wire.message import Message


@handles(FetchRequest, authz=on_cluster(AclOperation.CLUSTER_ACTION))
async def raft_fetch(request: FetchRequest, ctx: RequestContext) -> Message:
    """Give a replica what comes next, once there is something; or tell it where its log departs from ours."""
    return await ctx.node.replica.serve(request, ctx.version, ctx.listener_name)
