"""Authorizers that these tests' nodes load by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from barnabas.model.acl import AclOperation
from barnabas.model.authorizer import Action, AuthorizationContext, AuthorizerNotReadyError, Rules


class ByName:
    """Lets the cluster's own users do everything and `alice` read; knows nothing of counts or of rules."""

    configured: ClassVar[list[Mapping[str, str]]] = []
    asked: ClassVar[list[tuple[AuthorizationContext, tuple[Action, ...]]]] = []

    def configure(self, configs: Mapping[str, str]) -> None:
        self.configured.append(configs)

    def authorize(self, context: AuthorizationContext, actions: Sequence[Action]) -> list[bool]:
        self.asked.append((context, tuple(actions)))
        if context.principal.name == "bob":
            raise RuntimeError("bob is too much for it")
        own = context.principal.name in ("root", "controller", "broker-1")
        reads = (AclOperation.READ, AclOperation.DESCRIBE)
        return [own or (context.principal.name == "alice" and action.operation in reads) for action in actions]


class NoForwardedRules:
    """Decides by the rules of the metadata log, but refuses changes of rules that a broker forwards."""

    def __init__(self) -> None:
        self._rules: Rules | None = None

    def follow(self, rules: Rules) -> None:
        self._rules = rules

    def acl_count(self) -> int:
        return 0 if self._rules is None else self._rules.acl_count

    def authorize(self, context: AuthorizationContext, actions: Sequence[Action]) -> list[bool]:
        if self._rules is None:
            raise AuthorizerNotReadyError("no rules yet")
        if context.forwarding_principal is not None and context.request in ("CreateAcls", "DeleteAcls"):
            return [False] * len(actions)
        return [
            bool(self._rules.authorize(context.principal, context.host, a.operation, a.resource_type, a.name))
            for a in actions
        ]


class DiesOfRules:
    """Fails when it is handed rules."""

    def follow(self, rules: Rules) -> None:
        raise RuntimeError("these rules are too much for it")

    def authorize(self, context: AuthorizationContext, actions: Sequence[Action]) -> list[bool]:
        return [True] * len(actions)


class NoAuthorizer:
    """Has nothing that an authorizer has."""
