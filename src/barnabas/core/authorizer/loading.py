"""The authorizer of a node that does not know the cluster's rules yet (KIP-801).

Super users may do everything. The nodes of the quorum have to reach each other before anything can be committed, so
CLUSTER_ACTION on the cluster is granted to whom the rules in this node's own log grant it: what it has written itself,
committed or not. That log forgets nothing that this node has ever known, so nobody comes by a right that he had not
when it stopped; and without any it is that of a new cluster. All else waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from barnabas.core.authorizer.standard import AuthorizationResult, StandardAuthorizer, StandingRule
from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.authorizer import AuthorizerNotReadyError
from barnabas.model.principal import KafkaPrincipal


@dataclass(frozen=True, slots=True)
class LoadingAuthorizer:
    """See the module. own_rules: gives those of this node's log; asked only where they matter."""

    super_users: frozenset[str]
    own_rules: Callable[[], StandardAuthorizer] = field(repr=False)

    def knows(self, principal: KafkaPrincipal) -> bool:
        """Say whether every question about `principal` can be answered: it is a super user."""
        return str(principal) in self.super_users

    def authorize(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> AuthorizationResult:
        """Give what can be decided already; AuthorizerNotReadyError for all else."""
        if self.knows(principal):
            return _SUPER_USER
        if operation is AclOperation.CLUSTER_ACTION and resource_type is ResourceType.CLUSTER:
            result = self.own_rules().authorize(principal, host, operation, resource_type, name)
            if result.allowed:
                return result
        raise AuthorizerNotReadyError("the rules are not loaded yet")

    def authorize_by_resource_type(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Say yes to super users; AuthorizerNotReadyError for everybody else."""
        if self.knows(principal):
            return True
        raise AuthorizerNotReadyError("the rules are not loaded yet")


_SUPER_USER = AuthorizationResult(True, StandingRule.SUPER_USER)
