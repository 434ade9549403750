"""ControlledShutdown v0-3 (v2 broker epoch): a broker in ZooKeeper mode is about to stop. KIP-380."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.zookeeper.membership import controlled_shutdown as decide
from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(ControlledShutdownRequest, authz=on_cluster(AclOperation.CLUSTER_ACTION))
async def controlled_shutdown(request: ControlledShutdownRequest, ctx: RequestContext) -> ControlledShutdownResponse:
    """Move its leaderships away; the answer names the partitions for which there is nobody else."""
    schema = ctx.node.changes.schema
    return await ctx.node.controller.write(lambda image: decide(image, schema, request))
