"""Admin: access control lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barnabas.client.admin.outcome import ClusterAdmin, check, refusal
from barnabas.core.authorizer.standard import StandardAuthorizer
from barnabas.model.acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ApiError
from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from barnabas.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from barnabas.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


class AclsAdmin(ClusterAdmin):
    """Operations on ACLs."""

    async def describe_acls(self, wanted: AclBindingFilter) -> list[AclBinding]:
        """Give the rules that a filter matches."""
        response: DescribeAclsResponse = await self.cluster.call_any(
            DescribeAclsRequest(
                resource_type_filter=wanted.resource_type,
                resource_name_filter=wanted.name,
                pattern_type_filter=wanted.pattern_type,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission_type,
            )
        )
        check(response.error_code, response.error_message)
        return [
            _binding(
                r.resource_type, r.resource_name, r.pattern_type, a.principal, a.host, a.operation, a.permission_type
            )
            for r in response.resources
            for a in r.acls
        ]

    async def authorizer(
        self, super_users: Iterable[str] = (), *, allow_everyone_if_no_acl: bool = False
    ) -> StandardAuthorizer:
        """Give an authorizer with the cluster's rules, to be asked here and explained (`core.authorizer.explain`).

        DescribeAcls tells neither the ids of rules nor super users nor the default: ids are made up, the others are
        what is given.
        """
        rules = dict.fromkeys(await self.describe_acls(AclBindingFilter()))
        return StandardAuthorizer(frozenset(super_users), allow_everyone_if_no_acl).with_acls(numbered(rules))

    async def create_acls(self, bindings: Sequence[AclBinding]) -> list[ApiError | None]:
        """Add rules; give how each went, in the same order."""
        if not bindings:
            return []
        response: CreateAclsResponse = await self.cluster.call_any(
            CreateAclsRequest(
                creations=[
                    AclCreation(
                        resource_type=b.pattern.resource_type,
                        resource_name=b.pattern.name,
                        resource_pattern_type=b.pattern.pattern_type,
                        principal=b.principal,
                        host=b.host,
                        operation=b.operation,
                        permission_type=b.permission_type,
                    )
                    for b in bindings
                ]
            )
        )
        return [refusal(r.error_code, r.error_message) for r in response.results]

    async def delete_acls(self, filters: Sequence[AclBindingFilter]) -> list[AclBinding]:
        """Remove the rules that any of the filters matches, and give them; ApiError when one is refused."""
        response: DeleteAclsResponse = await self.cluster.call_any(
            DeleteAclsRequest(
                filters=[
                    DeleteAclsFilter(
                        resource_type_filter=f.resource_type,
                        resource_name_filter=f.name,
                        pattern_type_filter=f.pattern_type,
                        principal_filter=f.principal,
                        host_filter=f.host,
                        operation=f.operation,
                        permission_type=f.permission_type,
                    )
                    for f in filters
                ]
            )
        )
        removed = []
        for result in response.filter_results:
            check(result.error_code, result.error_message)
            for m in result.matching_acls:
                check(m.error_code, m.error_message)
                removed.append(
                    _binding(
                        m.resource_type,
                        m.resource_name,
                        m.pattern_type,
                        m.principal,
                        m.host,
                        m.operation,
                        m.permission_type,
                    )
                )
        return removed


def numbered(rules: Iterable[AclBinding]) -> dict[Uuid, AclBinding]:
    """Give rules whose ids nobody told under ids of our own: 1, 2, 3 ..."""
    return {Uuid(number.to_bytes(16, "big")): rule for number, rule in enumerate(rules, 1)}


def _binding(
    resource_type: int, name: str, pattern_type: int, principal: str, host: str, operation: int, permission_type: int
) -> AclBinding:
    return AclBinding(
        ResourcePattern(ResourceType(resource_type), name, PatternType(pattern_type)),
        principal,
        host,
        AclOperation(operation),
        AclPermissionType(permission_type),
    )
