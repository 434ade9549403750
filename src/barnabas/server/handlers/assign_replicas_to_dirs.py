"""AssignReplicasToDirs v0: in which log directories a broker has its replicas. KIP-858."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.partition_requests import assign_replicas_to_dirs as decide
from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(AssignReplicasToDirsRequest, authz=on_cluster(AclOperation.CLUSTER_ACTION))
async def assign_replicas_to_dirs(
    req: AssignReplicasToDirsRequest, ctx: RequestContext
) -> AssignReplicasToDirsResponse:
    """Note where replicas are."""
    schema = ctx.node.changes.schema
    response = await ctx.node.controller.write(lambda image: decide(image, req, schema))
    response.throttle_time_ms = ctx.throttle_ms
    return response
