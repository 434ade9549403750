"""DescribeConfigs v1-4 (v1 synonyms, v3 types and documentation). KIP-133, KIP-226, KIP-412, KIP-569."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from barnabas.core.metadata.configs import ConfigResourceType
from barnabas.core.metadata.topic_names import invalid_name
from barnabas.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.server import loggers
from barnabas.server.described_configs import DescribedConfigs, Source, Telling
from barnabas.server.router import BY_HANDLER, handles
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

_CLUSTER: Final = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER, ConfigResourceType.CLIENT_METRICS)
_Entries = Iterable[DescribeConfigsResourceResult]


@handles(DescribeConfigsRequest, authz=BY_HANDLER)
def describe_configs(request: DescribeConfigsRequest, ctx: RequestContext) -> DescribeConfigsResponse:
    """Describe each resource as far as the principal may know of it."""
    ctx.authz.decided = not request.resources
    _check_types(request, ctx)
    node = ctx.node
    configs = DescribedConfigs(node.static_config, node.config, node.image())
    telling = Telling(request.include_synonyms, request.include_documentation)
    results = [_described(resource, configs, telling, ctx) for resource in request.resources]
    results.sort(key=lambda r: r.error_code in _UNAUTHORIZED)  # Kafka answers those last
    return DescribeConfigsResponse(results=results)


def _check_types(request: DescribeConfigsRequest, ctx: RequestContext) -> None:
    """Refuse the whole request for one resource of a type that nobody knows, as Kafka does."""
    for resource in request.resources:
        if ConfigResourceType.of(resource.resource_type) is ConfigResourceType.UNKNOWN:
            ctx.authz.decided = True
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected resource type {resource.resource_type} for resource {resource.resource_name}",
            )


_UNAUTHORIZED: Final = (
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
)


def _described(
    resource: DescribeConfigsResource, configs: DescribedConfigs, telling: Telling, ctx: RequestContext
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
    )
    try:
        kind = ConfigResourceType.of(resource.resource_type)
        _authorize(kind, resource, ctx)
        entries = _entries(kind, resource.resource_name, configs, telling, ctx)
        wanted = resource.configuration_keys or None
        result.configs = [entry for entry in entries if wanted is None or entry.name in wanted]
    except ApiError as e:
        result.error_code, result.error_message = e.code, e.message
    return result


def _authorize(kind: ConfigResourceType, resource: DescribeConfigsResource, ctx: RequestContext) -> None:
    """Ask for DESCRIBE_CONFIGS on what the resource belongs to; ApiError when it is not given."""
    if kind in _CLUSTER:
        where, name, code = ResourceType.CLUSTER, CLUSTER_NAME, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    elif kind is ConfigResourceType.TOPIC:
        where, name, code = ResourceType.TOPIC, resource.resource_name, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    else:
        where, name, code = ResourceType.GROUP, resource.resource_name, ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not ctx.authorize(AclOperation.DESCRIBE_CONFIGS, where, name):
        raise ApiError(code)


def _entries(
    kind: ConfigResourceType, name: str, configs: DescribedConfigs, telling: Telling, ctx: RequestContext
) -> _Entries:
    match kind:
        case ConfigResourceType.TOPIC:
            _check_topic(name, ctx)
            return configs.topic(name, telling)
        case ConfigResourceType.BROKER:
            if not name:
                return configs.cluster_default(telling)
            _check_broker(name, ctx, or_empty=True)
            return configs.broker(telling)
        case ConfigResourceType.BROKER_LOGGER:
            _check_broker(name, ctx, or_empty=False)
            return _loggers()
        case ConfigResourceType.GROUP:
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "the configuration of a group is asked for by its name")
            return configs.group(name, telling)
        case _:
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "a metrics subscription is asked for by its name")
            return configs.client_metrics(name, telling)


def _check_topic(name: str, ctx: RequestContext) -> None:
    invalid = invalid_name(name)
    if invalid is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, invalid)
    if name not in ctx.node.image().topics.by_name:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _check_broker(name: str, ctx: RequestContext, *, or_empty: bool) -> None:
    mine = ctx.node.config.node_id
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a broker's loggers are asked for by the id of the broker")
    try:
        asked = int(name)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{name!r} is not the id of a broker") from None
    if asked != mine:
        wanted = f"{mine}, or no name for the default of all brokers" if or_empty else str(mine)
        raise ApiError(ErrorCode.INVALID_REQUEST, f"this broker answers for itself only: want {wanted}, not {name}")


def _loggers() -> _Entries:
    for name, level in loggers.levels().items():
        yield DescribeConfigsResourceResult(name=name, value=level, config_source=Source.LOGGER, documentation=None)
