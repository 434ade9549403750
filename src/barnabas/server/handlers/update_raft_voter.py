"""UpdateRaftVoter v0: a voter tells the leader of its endpoints and the kraft.versions it runs. KIP-853."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.update_raft_voter import UpdateRaftVoterRequest

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext
    from barnabas.wire.message import Message


@handles(UpdateRaftVoterRequest, authz=on_cluster(AclOperation.CLUSTER_ACTION))
async def update_raft_voter(request: UpdateRaftVoterRequest, ctx: RequestContext) -> Message:
    """Take note of a voter's endpoints."""
    return await ctx.node.replica.serve(request, ctx.version, ctx.listener_name)
