"""A principal builder that reads the claims of tokens, for the authorizer of `tests.mechanisms.builders`."""

from __future__ import annotations

from barnabas.model.principal_builder import AuthenticationContext
from tests.mechanisms.builders import TenantBuilder, TenantPrincipal


class ClaimedTenant(TenantBuilder):
    """The tenant is what a token claims, where there is a token."""

    def build(self, context: AuthenticationContext) -> TenantPrincipal:
        tenant = context.attributes.get("tenant")
        if tenant is None:
            return super().build(context)
        who = context.default()
        return TenantPrincipal(who.principal_type, who.name, who.token_authenticated, tenant)
