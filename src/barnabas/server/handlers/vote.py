"""Vote v0-2 (v1 directory ids, v2 pre-votes): another controller stands for election. KIP-595, KIP-853, KIP-996."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.vote import VoteRequest

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext
    from barnabas.wire.message import Message


@handles(VoteRequest, authz=on_cluster(AclOperation.CLUSTER_ACTION))
async def vote(request: VoteRequest, ctx: RequestContext) -> Message:
    """Vote, or say whether this replica would."""
    return await ctx.node.replica.serve(request, ctx.version, ctx.listener_name)
