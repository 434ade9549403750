"""CreateAcls v1-3 (v1 prefixed patterns, v3 user resources). KIP-140, KIP-290, KIP-801."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.model.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.server.acl_codes import enum_of
from barnabas.server.router import handles, on_cluster
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(CreateAclsRequest, authz=on_cluster(AclOperation.ALTER))
async def create_acls(req: CreateAclsRequest, ctx: RequestContext) -> CreateAclsResponse:
    """Add rules; the answer follows the order of the request."""
    if not ctx.node.keeps_acls():
        raise ApiError(ErrorCode.SECURITY_DISABLED, "no authorizer keeps ACLs here: set authorizer.class.name")
    bindings = [_binding(creation) for creation in req.creations]
    results = await ctx.node.acl_store.create(bindings)
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_message=None)
            if error is None
            else AclCreationResult(error_code=error.code, error_message=error.message)
            for error in results
        ],
        throttle_time_ms=ctx.throttle_ms,
    )


def _binding(creation: AclCreation) -> AclBinding:
    pattern = ResourcePattern(
        enum_of(ResourceType, creation.resource_type),
        creation.resource_name,
        enum_of(PatternType, creation.resource_pattern_type),
    )
    return AclBinding(
        pattern,
        creation.principal,
        creation.host,
        enum_of(AclOperation, creation.operation),
        enum_of(AclPermissionType, creation.permission_type),
    )
