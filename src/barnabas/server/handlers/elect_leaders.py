"""ElectLeaders v0-2 (v1 unclean elections). KIP-183, KIP-460."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.elections import elect_leaders as decide
from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(ElectLeadersRequest, authz=on_cluster(AclOperation.ALTER))
async def elect_leaders(req: ElectLeadersRequest, ctx: RequestContext) -> ElectLeadersResponse:
    """Make preferred replicas leaders, or any replica of partitions that have none."""
    schema = ctx.node.changes.schema
    response = await ctx.node.controller.write(lambda image: decide(image, req, schema))
    response.throttle_time_ms = ctx.throttle_ms
    return response
