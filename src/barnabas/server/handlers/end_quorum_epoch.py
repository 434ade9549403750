"""EndQuorumEpoch v0-1 (v1 endpoints, directory ids): a leader steps down. KIP-595, KIP-853."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.end_quorum_epoch import EndQuorumEpochRequest

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext
    from barnabas.wire.message import Message


@handles(EndQuorumEpochRequest, authz=on_cluster(AclOperation.CLUSTER_ACTION))
async def end_quorum_epoch(request: EndQuorumEpochRequest, ctx: RequestContext) -> Message:
    """Stand for election in the order that the leader has laid down."""
    return await ctx.node.replica.serve(request, ctx.version, ctx.listener_name)
