"""AddRaftVoter v0-1 (v1 answers before the commit when asked to): a controller becomes a voter. KIP-853."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext
    from barnabas.wire.message import Message


@handles(AddRaftVoterRequest, authz=on_cluster(AclOperation.ALTER))
async def add_raft_voter(request: AddRaftVoterRequest, ctx: RequestContext) -> Message:
    """Add a voter to a dynamic quorum."""
    return await ctx.node.replica.serve(request, ctx.version, ctx.listener_name)
