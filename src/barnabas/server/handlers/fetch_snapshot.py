"""FetchSnapshot v0-1 (v1 directory ids, endpoints): a replica that is far behind copies a snapshot. KIP-630."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.fetch_snapshot import FetchSnapshotRequest

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext
    from barnabas.wire.message import Message


@handles(FetchSnapshotRequest, authz=on_cluster(AclOperation.CLUSTER_ACTION))
async def fetch_snapshot(request: FetchSnapshotRequest, ctx: RequestContext) -> Message:
    """Give a stretch of a snapshot."""
    return await ctx.node.replica.serve(request, ctx.version, ctx.listener_name)
