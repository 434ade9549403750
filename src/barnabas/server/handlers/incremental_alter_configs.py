"""IncrementalAlterConfigs v0-1: sets, deletes, appends and subtracts single keys. KIP-339, KIP-412 (loggers)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.config_changes import Change, Op
from barnabas.core.metadata.config_changes import incremental_alter_configs as decide
from barnabas.core.metadata.configs import ConfigResourceType
from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.server.alter_config_requests import refused_resources, resource_of
from barnabas.server.loggers import LEVELS, ROOT, levels, set_level
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
    nulls = {i: _nulls(req.resources[p]) for i, p in enumerate(others)}
    found = refused_resources((req.resources[p] for p in others), ctx, nulls)
    errors: dict[int, ApiError | None] = {others[i]: error for i, error in found.items()}
    for place in sorted(loggers):
        errors[place] = _alter_loggers(req.resources[place], ctx, validate_only=req.validate_only)
    changes: dict[int, dict[str, Change]] = {}
    for place in others:
        if place not in errors:
            try:
                changes[place] = _changes(req.resources[place])
            except ApiError as e:
                errors[place] = e
    wanted = {resource_of(req.resources[place]): change for place, change in changes.items()}
    schema = ctx.node.changes.schema
    results = await ctx.node.controller.write(
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


def _nulls(resource: AlterConfigsResource) -> list[str]:
    return [c.name for c in resource.configs if c.value is None and c.config_operation != Op.DELETE]


def _changes(resource: AlterConfigsResource) -> dict[str, Change]:
    changes: dict[str, Change] = {}
    for config in resource.configs:
        if config.config_operation not in tuple(Op):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"operation {config.config_operation} is unknown: want 0 (set), 1 (delete), 2 (append), 3 (subtract)",
            )
        changes[config.name] = (Op(config.config_operation), config.value)
    return changes


def _alter_loggers(resource: AlterConfigsResource, ctx: RequestContext, *, validate_only: bool) -> ApiError | None:
    if not ctx.authorize(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        if resource.resource_name != str(ctx.node.config.node_id):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"loggers belong to a node: want {ctx.node.config.node_id} here, not {resource.resource_name!r}",
            )
        changes = _changes(resource)
        for name, (op, level) in changes.items():
            _check_logger(name, op, level)
        if not validate_only:
            for name, (op, level) in changes.items():
                set_level(name, level if op is Op.SET else None)
    except ApiError as e:
        return e
    return None


def _check_logger(name: str, op: Op, level: str | None) -> None:
    if op not in (Op.SET, Op.DELETE):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{op.name} has no meaning for a logger: use SET or DELETE")
    if name not in levels():
        raise ApiError(ErrorCode.INVALID_CONFIG, f"there is no logger {name!r}")
    if op is Op.SET and level not in LEVELS:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{level!r} is not a level: want one of {', '.join(LEVELS)}")
    if op is Op.DELETE and name == ROOT:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{ROOT} must have a level: set another one")


def _result(resource: AlterConfigsResource, error: ApiError | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
