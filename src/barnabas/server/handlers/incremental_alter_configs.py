"""IncrementalAlterConfigs v0-1: sets, deletes, appends and subtracts single keys. KIP-339, KIP-412 (loggers)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.config_changes import Change
from barnabas.core.metadata.config_changes import incremental_alter_configs as decide
from barnabas.core.metadata.configs import ConfigResourceType
from barnabas.server.alter_config_requests import incremental_changes, refused_resources, resource_of
from barnabas.server.logger_changes import alter_loggers
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(IncrementalAlterConfigsRequest, authz=BY_HANDLER)
async def incremental_alter_configs(
    req: IncrementalAlterConfigsRequest, ctx: RequestContext
) -> IncrementalAlterConfigsResponse:
    """Change keys of each resource on which the principal has ALTER_CONFIGS; levels of loggers need CLUSTER_ACTION."""
    ctx.authz.decided = not req.resources
    loggers = {p for p, r in enumerate(req.resources) if r.resource_type == ConfigResourceType.BROKER_LOGGER}
    others = [p for p in range(len(req.resources)) if p not in loggers]
    found = refused_resources((req.resources[p] for p in others), ctx)
    errors: dict[int, ApiError | None] = {others[i]: error for i, error in found.items()}
    for place in sorted(loggers):
        errors[place] = alter_loggers(req.resources[place], ctx, validate_only=req.validate_only)
    changes: dict[int, dict[str, Change]] = {}
    for place in others:
        if place not in errors:
            try:
                changes[place] = incremental_changes(req.resources[place])
            except ApiError as e:
                errors[place] = e
    wanted = {resource_of(req.resources[place]): change for place, change in changes.items()}
    schema = ctx.node.changes.schema
    results = await ctx.node.entities.write(
        lambda image: decide(
            image, wanted, schema, validate_only=req.validate_only, forwarded=ctx.forwarded_by is not None
        )
    )
    for place in changes:
        errors[place] = results[resource_of(req.resources[place])]
    return IncrementalAlterConfigsResponse(
        responses=[_result(resource, errors[place]) for place, resource in enumerate(req.resources)],
        throttle_time_ms=ctx.throttle_ms,
    )


def _result(resource: AlterConfigsResource, error: ApiError | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
