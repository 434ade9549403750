"""DescribeQuorum v0-2 (v1 fetch times, v2 directory ids and addresses). KIP-595, KIP-836, KIP-853."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext
    from barnabas.wire.message import Message


@handles(DescribeQuorumRequest, authz=on_cluster(AclOperation.DESCRIBE))
async def describe_quorum(request: DescribeQuorumRequest, ctx: RequestContext) -> Message:
    """Describe voters and observers of the metadata log as their leader sees them."""
    return await ctx.node.replica.serve(request, ctx.version, ctx.listener_name)
