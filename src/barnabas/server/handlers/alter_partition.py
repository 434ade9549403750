"""AlterPartition v2-3 (v3 broker epochs): the ISR as the leader sees it. KIP-497, KIP-903."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.partition_requests import alter_partition as decide
from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(AlterPartitionRequest, authz=on_cluster(AclOperation.CLUSTER_ACTION))
async def alter_partition(req: AlterPartitionRequest, ctx: RequestContext) -> AlterPartitionResponse:
    """Take the ISRs that a leader proposes."""
    if not req.topics:
        return AlterPartitionResponse()
    schema = ctx.node.changes.schema
    return await ctx.node.controller.write(lambda image: decide(image, req, schema, version=ctx.version))
