"""A principal builder that tests name in `principal.builder.class`."""

from __future__ import annotations

from barnabas.model.principal import KafkaPrincipal
from barnabas.model.principal_builder import AuthenticationContext
from barnabas.server.logins.principals import DefaultBuilder


class WholeName(DefaultBuilder):
    """Whoever comes with a ticket of an administrator is known by its whole name."""

    def build(self, context: AuthenticationContext) -> KafkaPrincipal:
        who = context.default()
        name = str(context.attributes.get("principal", ""))
        return KafkaPrincipal("Admin", name) if name.startswith("admin/") else who
