"""DescribeAcls v1-3 (v1 pattern types, v3 user resources). KIP-140, KIP-290, KIP-801."""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from barnabas.core.metadata.acl_changes import looked_through, refused_filter
from barnabas.model.acl import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.server.router import handles, on_cluster
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

E = TypeVar("E", bound=IntEnum)


@handles(DescribeAclsRequest, authz=on_cluster(AclOperation.DESCRIBE))
async def describe_acls(request: DescribeAclsRequest, ctx: RequestContext) -> DescribeAclsResponse:
    """List the rules that match, by what they cover; looking for them among many thousands holds up nobody."""
    if not ctx.node.keeps_acls():
        raise ApiError(ErrorCode.SECURITY_DISABLED, "this cluster has no authorizer, so there are no rules to describe")
    wanted = _filter(request)
    refusal = refused_filter(wanted)
    if refusal is not None:
        raise refusal
    found = []
    for some in looked_through(ctx.node.acl_store.known(), wanted):
        found += some
        await asyncio.sleep(0)
    covered: dict[ResourcePattern, list[AclDescription]] = {}
    for _, rule in sorted(found):
        description = AclDescription(
            principal=rule.principal,
            host=rule.host,
            operation=rule.operation,
            permission_type=rule.permission_type,
        )
        covered.setdefault(rule.pattern, []).append(description)
    resources = [
        DescribeAclsResource(
            resource_type=pattern.resource_type,
            resource_name=pattern.name,
            pattern_type=pattern.pattern_type,
            acls=acls,
        )
        for pattern, acls in covered.items()
    ]
    return DescribeAclsResponse(error_message=None, resources=resources)


def _filter(request: DescribeAclsRequest) -> AclBindingFilter:
    return AclBindingFilter(
        resource_type=_member(ResourceType, request.resource_type_filter),
        name=request.resource_name_filter,
        pattern_type=_member(PatternType, request.pattern_type_filter),
        principal=request.principal_filter,
        host=request.host_filter,
        operation=_member(AclOperation, request.operation),
        permission_type=_member(AclPermissionType, request.permission_type),
    )


def _member(enum: type[E], code: int) -> E:
    try:
        return enum(code)
    except ValueError:
        return enum(0)  # UNKNOWN
