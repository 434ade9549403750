"""AlterConfigs v0-2: replaces all overrides of a resource; IncrementalAlterConfigs is its better successor. KIP-133."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.config_changes import alter_configs as decide
from barnabas.core.metadata.configs import ConfigResourceType
from barnabas.server.alter_config_requests import refused_resources, resource_of
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(AlterConfigsRequest, authz=BY_HANDLER)
async def alter_configs(req: AlterConfigsRequest, ctx: RequestContext) -> AlterConfigsResponse:
    """Replace the overrides of each resource on which the principal has ALTER_CONFIGS."""
    ctx.authz.decided = not req.resources
    refused = refused_resources(req.resources, ctx)
    for place, resource in enumerate(req.resources):
        if place not in refused and resource_of(resource).type is ConfigResourceType.BROKER_LOGGER:
            refused[place] = ApiError(
                ErrorCode.INVALID_REQUEST, "this API cannot set the levels of loggers: use IncrementalAlterConfigs"
            )
    wanted = {
        resource_of(resource): {config.name: config.value for config in resource.configs}
        for place, resource in enumerate(req.resources)
        if place not in refused
    }
    schema = ctx.node.changes.schema
    results = await ctx.node.entities.write(
        lambda image: decide(
            image, wanted, schema, validate_only=req.validate_only, forwarded=ctx.forwarded_by is not None
        )
    )
    responses = []
    for place, resource in enumerate(req.resources):
        error = refused.get(place) or results.get(resource_of(resource))
        responses.append(
            AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return AlterConfigsResponse(responses=responses, throttle_time_ms=ctx.throttle_ms)
