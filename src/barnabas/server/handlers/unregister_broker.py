"""UnregisterBroker v0: forgets a broker for good. KIP-500."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.registrations import unregister_broker as decide
from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(UnregisterBrokerRequest, authz=on_cluster(AclOperation.ALTER))
async def unregister_broker(req: UnregisterBrokerRequest, ctx: RequestContext) -> UnregisterBrokerResponse:
    """Take a broker out of the cluster."""
    schema = ctx.node.changes.schema
    await ctx.node.controller.write(lambda image: decide(image, schema, req.broker_id))
    return UnregisterBrokerResponse(error_message="", throttle_time_ms=ctx.throttle_ms)
