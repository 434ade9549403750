"""StandardAuthorizer's rules: may this principal, from this host, do this to that resource (KIP-11, KIP-801).

A refusing rule beats every granting one. READ, WRITE, DELETE and ALTER grant DESCRIBE too, ALTER_CONFIGS grants
DESCRIBE_CONFIGS, ALL stands for every operation; a refusal covers just what it names. Super users may do
everything. Where no rule at all covers a resource, `allow.everyone.if.no.acl.found` decides.

One `StandardAuthorizer` is one state of the rules: a question asked of it never sees a change half done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from immutables import Map

from barnabas.core.authorizer.index import DENY_SHIFT, AclIndex, Rules, Subject, TypeIndex, facet
from barnabas.model.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.uuid import Uuid


class StandingRule(StrEnum):
    """What decided when no ACL did; the values are what Kafka's audit lines say."""

    SUPER_USER = "SuperUser"
    DEFAULT_ALLOW = "DefaultAllow"
    DEFAULT_DENY = "DefaultDeny"


@dataclass(frozen=True, slots=True)
class AuthorizationResult:
    """A decision; true in a condition when it allows. `rule` says what decided."""

    allowed: bool
    _standing: StandingRule | None
    _found: _Found | None = None

    def __bool__(self) -> bool:
        return self.allowed

    @property
    def rule(self) -> AclBinding | StandingRule:
        """The deciding rule: the one that Kafka's audit line would name."""
        if self._found is None:
            assert self._standing is not None
            return self._standing
        return self._found.binding(self.allowed)


@dataclass(frozen=True, slots=True)
class _Found:
    """Where the deciding rule stands: made into an `AclBinding` only when somebody asks."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    rules: Rules
    subjects: tuple[Subject, ...]
    operations: int

    def binding(self, allowed: bool) -> AclBinding:
        # Kafka meets the rules of a pattern ordered by operation, principal, host; the first refusal and the last
        # grant stay.
        shift = 0 if allowed else DENY_SHIFT
        candidates = [
            (operation, *subject)
            for subject in self.subjects
            for operation in AclOperation
            if self.rules.get(subject, 0) >> shift & self.operations & (1 << operation)
        ]
        operation, principal, host = max(candidates) if allowed else min(candidates)
        return AclBinding(
            ResourcePattern(self.resource_type, self.name, self.pattern_type),
            principal,
            host,
            operation,
            AclPermissionType.ALLOW if allowed else AclPermissionType.DENY,
        )


def parse_super_users(text: str) -> frozenset[str]:
    """Give the principals of `super.users`, divided by semicolons; ValueError for one that is none."""
    users = [user for part in text.split(";") if (user := part.strip())]
    for user in users:
        try:
            KafkaPrincipal.parse(user)
        except ValueError as e:
            raise ValueError(f"super.users={text}: {e}") from None
    return frozenset(users)


@dataclass(frozen=True, slots=True)
class StandardAuthorizer:
    """The rules at one moment; `with_acls` and `with_change` give later ones.

    like_acl_authorizer: questions about any resource of a type are answered as by Kafka's AclAuthorizer.
    """

    super_users: frozenset[str] = frozenset()
    allow_everyone_if_no_acl: bool = False
    like_acl_authorizer: bool = False
    by_id: Map[Uuid, AclBinding] = field(default_factory=Map, repr=False)
    index: AclIndex = field(default_factory=AclIndex, repr=False)

    @property
    def acl_count(self) -> int:
        """How many rules there are."""
        return len(self.by_id)

    def with_acls(self, acls: Mapping[Uuid, AclBinding] | Iterable[tuple[Uuid, AclBinding]]) -> StandardAuthorizer:
        """Give the authorizer that knows these rules and no others; ValueError when one stands there twice."""
        by_id = acls if isinstance(acls, Map) else Map(acls)
        return replace(self, by_id=by_id, index=AclIndex().updated((), by_id.values()))

    def with_change(
        self, removed: Iterable[Uuid], added: Mapping[Uuid, AclBinding] | Iterable[tuple[Uuid, AclBinding]]
    ) -> StandardAuthorizer:
        """Give the authorizer after a change, applied as one; ValueError, and no change, for ids or rules amiss."""
        by_id = self.by_id.mutate()
        gone = []
        for acl_id in removed:
            if acl_id not in by_id:
                raise ValueError(f"there is no ACL with id {acl_id}")
            gone.append(by_id.pop(acl_id))
        new = dict(added)
        for acl_id, binding in new.items():
            if acl_id in by_id:
                raise ValueError(f"an ACL with id {acl_id} exists")
            by_id[acl_id] = binding
        return replace(self, by_id=by_id.finish(), index=self.index.updated(gone, new.values()))

    def following(self, by_id: Map[Uuid, AclBinding], touched: Iterable[Uuid] | None = None) -> StandardAuthorizer:
        """Give the authorizer for another image's ACLs, taken up as one change.

        touched: the ids that may differ; without them all are compared. ValueError as in `with_change`.
        """
        if by_id is self.by_id:
            return self
        if not self.by_id:
            return self.with_acls(by_id)
        if touched is None:
            removed = [acl_id for acl_id, binding in self.by_id.items() if by_id.get(acl_id) != binding]
            added = [(acl_id, binding) for acl_id, binding in by_id.items() if self.by_id.get(acl_id) != binding]
        else:
            differing = [i for i in dict.fromkeys(touched) if self.by_id.get(i) != by_id.get(i)]
            removed = [i for i in differing if i in self.by_id]
            added = [(i, by_id[i]) for i in differing if i in by_id]
        return replace(self.with_change(removed, added), by_id=by_id)

    def authorize(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> AuthorizationResult:
        """Say whether `principal`, from the IP `host`, may do `operation` to the resource, and by which rule."""
        user = f"{principal.principal_type}:{principal.name}"
        if user in self.super_users:
            return _SUPER_USER
        subjects = subjects_of(user, host)
        refusing = REFUSED_BY[operation]
        granting = GRANTED_BY[operation]
        granted: _Found | None = None
        covered = False
        for pattern_name, pattern_type, rules in covering(self.index.types[resource_type], name):
            covered = True
            seen = 0
            for subject in subjects:
                seen |= rules.get(subject, 0)
            if seen & refusing:
                found = _Found(resource_type, pattern_name, pattern_type, rules, subjects, refusing >> DENY_SHIFT)
                return AuthorizationResult(False, None, found)
            if seen & granting:
                granted = _Found(resource_type, pattern_name, pattern_type, rules, subjects, granting)
        if granted is not None:
            return AuthorizationResult(True, None, granted)
        return _DEFAULT_ALLOW if self.allow_everyone_if_no_acl and not covered else _DEFAULT_DENY

    def authorize_by_resource_type(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Say whether there is any resource of that type to which `principal` may do `operation` (KIP-679).

        As Kafka does: operations that imply this one are not looked at, and a grant counts unless a refusal covers
        all of it. Where everyone is allowed without a rule, AclAuthorizer says yes unless a refusal covers all names;
        StandardAuthorizer when no rule covers one certain name. ValueError for ANY and the like, which are filters.
        """
        if resource_type in _NO_TYPES or operation in _NO_OPERATIONS:
            raise ValueError(f"{operation.name} on {resource_type.name} is a filter, not a question")
        user = f"{principal.principal_type}:{principal.name}"
        if user in self.super_users:
            return True
        if not self.like_acl_authorizer and self.authorize(principal, host, operation, resource_type, ANY_RESOURCE):
            return True
        by_subject = self.index.types[resource_type].by_subject
        asking = subjects_of(user, host)
        subjects = [held for subject in asking if (held := by_subject.get(subject)) is not None]
        refused = _held(subjects, operation, AclPermissionType.DENY, PatternType.LITERAL)
        if any(WILDCARD in names for names in refused):
            return False
        if self.like_acl_authorizer and self.allow_everyone_if_no_acl:
            return True
        granted = _held(subjects, operation, AclPermissionType.ALLOW, PatternType.LITERAL)
        if any(WILDCARD in names for names in granted):
            return True
        refused_prefixes = _held(subjects, operation, AclPermissionType.DENY, PatternType.PREFIXED)
        if _one_stands((name for names in granted for name in names), refused, refused_prefixes):
            return True
        granted = _held(subjects, operation, AclPermissionType.ALLOW, PatternType.PREFIXED)
        return _one_stands((name for names in granted for name in names), (), refused_prefixes)


ANY_RESOURCE: Final = "hardcode"
"""The name that Kafka asks about first for a whole type, so that super users and defaults are heard."""
_NO_TYPES: Final = frozenset((ResourceType.UNKNOWN, ResourceType.ANY))
_NO_OPERATIONS: Final = frozenset((AclOperation.UNKNOWN, AclOperation.ANY, AclOperation.ALL))
_SUPER_USER: Final = AuthorizationResult(True, StandingRule.SUPER_USER)
_DEFAULT_ALLOW: Final = AuthorizationResult(True, StandingRule.DEFAULT_ALLOW)
_DEFAULT_DENY: Final = AuthorizationResult(False, StandingRule.DEFAULT_DENY)
_IMPLIED_BY: Final[Mapping[AclOperation, tuple[AclOperation, ...]]] = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
REFUSED_BY: Final = tuple((1 << op | 1 << AclOperation.ALL) << DENY_SHIFT for op in sorted(AclOperation))
GRANTED_BY: Final = tuple(
    sum(1 << implying for implying in {op, AclOperation.ALL, *_IMPLIED_BY.get(op, ())}) for op in sorted(AclOperation)
)
"""For each operation, the bits of the rules that grant it, and above those that refuse it (`index.bit`)."""


def subjects_of(user: str, host: str) -> tuple[Subject, Subject, Subject, Subject]:
    """Give whom a rule can name to concern this user from this host, the closest first."""
    return (user, host), (user, WILDCARD), (WILDCARD_PRINCIPAL, host), (WILDCARD_PRINCIPAL, WILDCARD)


def covering(index: TypeIndex, name: str) -> list[tuple[str, PatternType, Rules]]:
    """Give the patterns that cover `name`, in the order in which Kafka meets them."""
    found: list[tuple[str, PatternType, Rules]] = []
    rules = index.literal.get(name)
    if rules is not None:
        found.append((name, PatternType.LITERAL, rules))
    if index.lengths:
        found.extend((prefix, PatternType.PREFIXED, rules) for prefix, rules in index.prefixes_of(name))
    rules = index.literal.get(WILDCARD)
    if rules is not None and name != WILDCARD:
        found.append((WILDCARD, PatternType.LITERAL, rules))
    return found


def _held(
    subjects: Sequence[Map[int, Map[str, None]]],
    operation: AclOperation,
    permission: AclPermissionType,
    pattern_type: PatternType,
) -> list[Map[str, None]]:
    """Give the names of the patterns on which one of the subjects has such a rule."""
    wanted = (facet(operation, permission, pattern_type), facet(AclOperation.ALL, permission, pattern_type))
    return [names for kinds in subjects for kind in wanted if (names := kinds.get(kind)) is not None]


def _one_stands(
    names: Iterable[str], refused: Sequence[Map[str, None]], refused_prefixes: Sequence[Map[str, None]]
) -> bool:
    """Say whether one of the granted `names` is not refused as a whole."""
    if not refused and not refused_prefixes:
        return any(True for _ in names)
    for name in names:
        if any(name in one for one in refused):
            continue
        beginnings = (name[:length] for length in range(1, len(name) + 1)) if refused_prefixes else ()
        if not any(beginning in one for beginning in beginnings for one in refused_prefixes):
            return True
    return False
