"""Principal builders that tests name in `principal.builder.class`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.model.acl import ResourceType
from barnabas.model.authorizer import Action, AuthorizationContext
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.principal_builder import AuthenticationContext


@dataclass(frozen=True, slots=True)
class TenantPrincipal(KafkaPrincipal):
    """Somebody of a tenant."""

    tenant: str = ""


class TenantBuilder:
    """The tenant is what stands before the first dash of the user's name, `none` where there is no user."""

    def build(self, context: AuthenticationContext) -> TenantPrincipal:
        who = context.default()
        tenant = "none" if context.user is None else context.user.partition("-")[0]
        return TenantPrincipal(who.principal_type, who.name, who.token_authenticated, tenant)

    def serialize(self, principal: KafkaPrincipal) -> bytes:
        assert isinstance(principal, TenantPrincipal)
        fields = [principal.principal_type, principal.name, principal.token_authenticated, principal.tenant]
        return json.dumps(fields).encode()

    def deserialize(self, data: bytes) -> TenantPrincipal:
        return TenantPrincipal(*json.loads(data))


class WithoutSerde:
    """Builds, and cannot write down what it built."""

    def build(self, context: AuthenticationContext) -> KafkaPrincipal:
        return context.default()


class Refusing(TenantBuilder):
    """Wants nobody called mallory."""

    def build(self, context: AuthenticationContext) -> TenantPrincipal:
        if context.user == "mallory":
            raise LookupError("no such person")
        return super().build(context)


class OwnTenant:
    """An authorizer: changes need a tenant whose name the resource's begins with; the cluster's own users may all."""

    def authorize(self, context: AuthorizationContext, actions: Sequence[Action]) -> list[bool]:
        return [self._may(context, action) for action in actions]

    def _may(self, context: AuthorizationContext, action: Action) -> bool:
        assert isinstance(context.principal, TenantPrincipal)
        if context.principal.tenant in ("root", "controller", "broker"):
            return True
        return action.resource_type is ResourceType.TOPIC and action.name.startswith(context.principal.tenant)


class ByClaim(TenantBuilder):
    """The tenant is what an OAUTHBEARER token claims; who claims none is refused."""

    def build(self, context: AuthenticationContext) -> TenantPrincipal:
        who = super().build(context)
        if context.mechanism != "OAUTHBEARER":
            return who
        return TenantPrincipal(who.principal_type, who.name, who.token_authenticated, context.attributes["tenant"])
