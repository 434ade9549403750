"""UpdateMetadata v0-8 (v7 topic ids): a broker in ZooKeeper mode hears what clients are to be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(UpdateMetadataRequest, authz=on_cluster(AclOperation.CLUSTER_ACTION))
async def update_metadata(request: UpdateMetadataRequest, ctx: RequestContext) -> UpdateMetadataResponse:
    """Take up which brokers live, who leads, and which topics are gone."""
    await ctx.node.hear(request)
    return UpdateMetadataResponse()
