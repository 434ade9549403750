"""Changes of the levels of this node's loggers, as IncrementalAlterConfigs asks for them (KIP-412)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.config_changes import Op
from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.server.alter_config_requests import incremental_changes
from barnabas.server.loggers import LEVELS, ROOT, levels, set_level
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext
    from barnabas.wire.messages.incremental_alter_configs import AlterConfigsResource


def alter_loggers(asked: AlterConfigsResource, ctx: RequestContext, *, validate_only: bool) -> ApiError | None:
    """Set the levels that a resource names, all or none; gives why not. The principal needs CLUSTER_ACTION."""
    if not ctx.authorize(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        if asked.resource_name != str(ctx.node.config.node_id):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"loggers belong to a node: want {ctx.node.config.node_id} here, not {asked.resource_name!r}",
            )
        changes = incremental_changes(asked)
        for name, (op, level) in changes.items():
            _check(name, op, level)
        if not validate_only:
            for name, (op, level) in changes.items():
                set_level(name, level if op is Op.SET else None)
    except ApiError as e:
        return e
    return None


def _check(name: str, op: Op, level: str | None) -> None:
    if op not in (Op.SET, Op.DELETE):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{op.name} has no meaning for a logger: use SET or DELETE")
    if name not in levels():
        raise ApiError(ErrorCode.INVALID_CONFIG, f"there is no logger {name!r}")
    if op is Op.SET and level not in LEVELS:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{level!r} is not a level: want one of {', '.join(LEVELS)}")
    if op is Op.DELETE and name == ROOT:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{ROOT} must have a level: set another one")
