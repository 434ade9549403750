"""AlterPartitionReassignments v0-1 (v1 may forbid another replication factor): moves replicas. KIP-455."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.reassignments import alter_reassignments
from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(AlterPartitionReassignmentsRequest, authz=on_cluster(AclOperation.ALTER))
async def alter_partition_reassignments(
    req: AlterPartitionReassignmentsRequest, ctx: RequestContext
) -> AlterPartitionReassignmentsResponse:
    """Start and cancel reassignments."""
    schema = ctx.node.changes.schema
    response = await ctx.node.controller.write(lambda image: alter_reassignments(image, req, schema))
    response.throttle_time_ms = ctx.throttle_ms
    return response
