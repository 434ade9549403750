"""ControllerRegistration v0: a controller says where it is and what it supports. KIP-919."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.registrations import register_controller
from barnabas.model.acl import AclOperation
from barnabas.server.router import handles, on_cluster
from barnabas.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(ControllerRegistrationRequest, authz=on_cluster(AclOperation.CLUSTER_ACTION))
async def controller_registration(
    req: ControllerRegistrationRequest, ctx: RequestContext
) -> ControllerRegistrationResponse:
    """Note a controller's addresses and features."""
    await ctx.node.controller.write(lambda image: register_controller(image, req))
    return ControllerRegistrationResponse(error_message="", throttle_time_ms=ctx.throttle_ms)
