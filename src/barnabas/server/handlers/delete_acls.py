"""DeleteAcls v1-3 (v1 prefixed patterns, v3 user resources). KIP-140, KIP-290, KIP-801."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.acl_changes import FilterResult
from barnabas.model.acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from barnabas.server.acl_codes import enum_of
from barnabas.server.router import handles, on_cluster
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(DeleteAclsRequest, authz=on_cluster(AclOperation.ALTER))
async def delete_acls(req: DeleteAclsRequest, ctx: RequestContext) -> DeleteAclsResponse:
    """Remove the rules that the filters match."""
    if not ctx.node.keeps_acls():
        raise ApiError(ErrorCode.SECURITY_DISABLED, "no authorizer keeps ACLs here: set authorizer.class.name")
    filters = [_filter(wanted) for wanted in req.filters]
    results = await ctx.node.acl_store.delete(filters)
    return DeleteAclsResponse(filter_results=[_result(result) for result in results], throttle_time_ms=ctx.throttle_ms)


def _filter(wanted: DeleteAclsFilter) -> AclBindingFilter:
    return AclBindingFilter(
        resource_type=enum_of(ResourceType, wanted.resource_type_filter),
        name=wanted.resource_name_filter,
        pattern_type=enum_of(PatternType, wanted.pattern_type_filter),
        principal=wanted.principal_filter,
        host=wanted.host_filter,
        operation=enum_of(AclOperation, wanted.operation),
        permission_type=enum_of(AclPermissionType, wanted.permission_type),
    )


def _result(result: FilterResult) -> DeleteAclsFilterResult:
    if isinstance(result, ApiError):
        return DeleteAclsFilterResult(error_code=result.code, error_message=result.message)
    return DeleteAclsFilterResult(error_message=None, matching_acls=[_matching(binding) for binding in result])


def _matching(binding: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=binding.pattern.resource_type,
        resource_name=binding.pattern.name,
        pattern_type=binding.pattern.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission_type,
    )
