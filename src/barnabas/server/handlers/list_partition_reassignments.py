"""ListPartitionReassignments v0: the reassignments under way. KIP-455."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.reassignments import list_reassignments
from barnabas.core.replicated import answer
from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(ListPartitionReassignmentsRequest, authz=on_cluster(AclOperation.DESCRIBE))
async def list_partition_reassignments(
    req: ListPartitionReassignmentsRequest, ctx: RequestContext
) -> ListPartitionReassignmentsResponse:
    """Show reassignments; what is seen is committed before it is answered."""
    response = await ctx.node.controller.write(lambda image: answer(list_reassignments(image, req)))
    response.throttle_time_ms = ctx.throttle_ms
    return response
