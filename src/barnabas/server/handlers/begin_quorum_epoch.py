"""BeginQuorumEpoch v0-1 (v1 endpoints): a new leader tells the voters of itself. KIP-595, KIP-853."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext
    from barnabas.wire.message import Message


@handles(BeginQuorumEpochRequest, authz=on_cluster(AclOperation.CLUSTER_ACTION))
async def begin_quorum_epoch(request: BeginQuorumEpochRequest, ctx: RequestContext) -> Message:
    """Follow a new leader."""
    return await ctx.node.replica.serve(request, ctx.version, ctx.listener_name)
