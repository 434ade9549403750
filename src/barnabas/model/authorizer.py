"""Authorizers as plug-ins: what a class gives that `authorizer.class.name` names (KIP-504, KIP-801).

The key names it as `module:Class`, as `module.Class`, or by an entry point in the group `barnabas.authorizers`::

    class NoForwardedRules:
        def follow(self, rules):
            self._rules = rules

        def authorize(self, context, actions):
            return [self._may(context, action) for action in actions]

        def _may(self, context, action):
            if context.forwarding_principal is not None and context.request == "CreateAcls":
                return False
            return bool(self._rules.authorize(
                context.principal, context.host, action.operation, action.resource_type, action.name))

Only `authorize` has to be there. What else a class may have:

- `configure(configs)`: takes the node's properties, texts by key, once, before anything is asked.
- `follow(rules)`: takes the rules of the metadata log, all of them, whenever they change. With it the cluster's ACLs
  are served as with StandardAuthorizer, and it is not asked before the first ones are here; without it there are no
  ACLs to create or describe.
- `authorize_any(context, operation, resource_type)`: says whether there is any resource of that type on which the
  principal may (KIP-679); without it `authorize` is asked about a topic, say, that is called `hardcode`, as by Kafka.
- `acl_count()`: what the gauge AclCount shows; -1 without it (A-31).
- `close()`: lets go of what it holds, when the node stops.

It is asked in the node's own loop, so it must answer at once. What it raises refuses the request with
UNKNOWN_SERVER_ERROR. It writes an audit trail of its own, if any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.principal import KafkaPrincipal

NO_COUNT: Final = -1
"""What AclCount shows where nobody counts."""


class AuthorizerNotReadyError(Exception):
    """The authorizer does not know its rules yet; who asks may ask again."""


@dataclass(frozen=True, slots=True)
class AuthorizationContext:
    """Who asks, and by what request.

    host: the client's IP as text; listener_name, security_protocol: where the request came in, at the broker or, when
    it was forwarded, at the controller; request: the API's name, `CreateTopics`; forwarding_principal: the broker that
    vouches for the principal (KIP-590), None when the client asks itself.
    """

    principal: KafkaPrincipal
    host: str
    listener_name: str
    security_protocol: str
    client_id: str | None
    request: str
    forwarding_principal: KafkaPrincipal | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """What somebody wants to do.

    references: how often the request names the resource; log_if_allowed, log_if_denied: false where nothing is granted
    or nobody asked for this very resource (A-40).
    """

    operation: AclOperation
    resource_type: ResourceType
    name: str
    references: int = 1
    log_if_allowed: bool = True
    log_if_denied: bool = True


class Rules(Protocol):
    """The rules of the metadata log at one moment, as StandardAuthorizer decides by them; they never change."""

    @property
    def acl_count(self) -> int:
        """How many there are."""
        ...

    def authorize(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> object:
        """Give a decision, true in a condition when it allows."""
        ...

    def authorize_by_resource_type(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Say whether there is any resource of that type on which the principal may."""
        ...


class Authorizer(Protocol):
    """What every plug-in has."""

    def authorize(self, context: AuthorizationContext, actions: Sequence[Action]) -> Sequence[bool]:
        """Say of each action whether it may be done; AuthorizerNotReadyError while that is not known."""
        ...


@runtime_checkable
class FollowsRules(Protocol):
    """What a plug-in has that decides by the rules of the metadata log."""

    def follow(self, rules: Rules) -> None:
        """Take the rules as they are from now on."""
        ...


@runtime_checkable
class AuthorizesAny(Protocol):
    """What a plug-in has that knows about whole types of resources."""

    def authorize_any(
        self, context: AuthorizationContext, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Say whether there is any resource of that type on which the principal may."""
        ...


@runtime_checkable
class CountsRules(Protocol):
    """What a plug-in has that knows how many rules there are."""

    def acl_count(self) -> int:
        """Give how many."""
        ...
