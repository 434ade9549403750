"""Principal builders that tests name in `principal.builder.class`."""

from __future__ import annotations

import json
from dataclasses import dataclass

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
