"""What AlterConfigs and IncrementalAlterConfigs share: which resources may be altered, and why others may not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from barnabas.core.metadata.config_changes import Change, Op
from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType
from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


class _Config(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> str | None: ...


class _Resource(Protocol):
    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...
    @property
    def configs(self) -> Sequence[_Config]: ...


class _IncrementalConfig(_Config, Protocol):
    @property
    def config_operation(self) -> int: ...


class _IncrementalResource(Protocol):
    @property
    def configs(self) -> Sequence[_IncrementalConfig]: ...


def resource_of(asked: _Resource) -> ConfigResource:
    """Give the resource that a part of a request is about."""
    return ConfigResource(ConfigResourceType.of(asked.resource_type), asked.resource_name)


def incremental_changes(asked: _IncrementalResource) -> dict[str, Change]:
    """Give what is asked for each key; ApiError INVALID_REQUEST for an operation that there is not."""
    changes: dict[str, Change] = {}
    for config in asked.configs:
        if config.config_operation not in tuple(Op):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"operation {config.config_operation} is unknown: want 0 (set), 1 (delete), 2 (append), 3 (subtract)",
            )
        changes[config.name] = (Op(config.config_operation), config.value)
    return changes


def refused_resources(resources: Iterable[_Resource], ctx: RequestContext) -> dict[int, ApiError]:
    """Give, by place in the request, what cannot be altered and why."""
    asked = list(resources)
    times = Counter((r.resource_type, r.resource_name) for r in asked)
    refused: dict[int, ApiError] = {}
    for place, resource in enumerate(asked):
        error = malformed(resource, times[resource.resource_type, resource.resource_name])
        if error is not None and resource_of(resource).type is ConfigResourceType.UNKNOWN and ctx.forwarded_by is None:
            error = ApiError(ErrorCode.UNSUPPORTED_VERSION, error.message)  # a controller's word for it
        error = error or _forbidden(resource, ctx)
        if error is not None:
            refused[place] = error
    return refused


def malformed(asked: _Resource, times: int) -> ApiError | None:
    """Give what is wrong with a resource whatever its configs are. times: how often the request names it."""
    if resource_of(asked).type is ConfigResourceType.UNKNOWN:
        return ApiError(ErrorCode.INVALID_REQUEST, f"resource type {asked.resource_type} is unknown")
    if times > 1:
        return ApiError(ErrorCode.INVALID_REQUEST, "the request names this resource more than once")
    keys = [config.name for config in asked.configs]
    if len(set(keys)) != len(keys):
        return ApiError(ErrorCode.INVALID_REQUEST, "the request names a key more than once")
    # AlterConfigs has no operations: there null has no meaning at all.
    nulls = [c.name for c in asked.configs if c.value is None and getattr(c, "config_operation", None) != Op.DELETE]
    if nulls:
        return ApiError(ErrorCode.INVALID_REQUEST, f"the value of {', '.join(nulls)} cannot be null")
    return None


def named_elsewhere(asked: _Resource, ctx: RequestContext) -> ApiError | None:
    """Refuse what only another broker can judge: a client asks the broker whose configs it wants to change."""
    resource, here = resource_of(asked), str(ctx.node.config.node_id)
    if resource.type is not ConfigResourceType.BROKER or resource.name in ("", here):
        return None
    return ApiError(
        ErrorCode.INVALID_REQUEST, f"this is broker {here}: send changes for broker {resource.name!r} to that broker"
    )


def _forbidden(asked: _Resource, ctx: RequestContext) -> ApiError | None:
    resource = resource_of(asked)
    wanted = {
        ConfigResourceType.TOPIC: (ResourceType.TOPIC, resource.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ConfigResourceType.GROUP: (ResourceType.GROUP, resource.name, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    }.get(resource.type, (ResourceType.CLUSTER, CLUSTER_NAME, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    resource_type, name, code = wanted
    if ctx.authorize(AclOperation.ALTER_CONFIGS, resource_type, name):
        return None
    return ApiError(code, f"not authorized: ALTER_CONFIGS on {resource_type.name} {name} would allow it")
