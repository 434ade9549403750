"""RemoveRaftVoter v0: a controller ceases to be a voter. KIP-853."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext
    from barnabas.wire.message import Message


@handles(RemoveRaftVoterRequest, authz=on_cluster(AclOperation.ALTER))
async def remove_raft_voter(request: RemoveRaftVoterRequest, ctx: RequestContext) -> Message:
    """Remove a voter from a dynamic quorum."""
    return await ctx.node.replica.serve(request, ctx.version, ctx.listener_name)
