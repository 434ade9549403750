"""Why a question to the authorizer has its answer, and the smallest change of the rules that would turn it round.

The decision is the authorizer's own. Beside it stands every rule on a pattern that covers the resource, in the order
in which Kafka meets them, with what each had to say; and changes, each of them tried on the authorizer before it is
proposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count
from typing import Final, NamedTuple

from barnabas.core.authorizer.index import bit
from barnabas.core.authorizer.standard import (
    GRANTED_BY,
    REFUSED_BY,
    AuthorizationResult,
    StandardAuthorizer,
    StandingRule,
    covering,
    subjects_of,
)
from barnabas.model.acl import (
    WILDCARD,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.uuid import Uuid


class Question(NamedTuple):
    """May `principal`, from the IP `host` as Java spells it (`model.addresses`), do `operation` to the resource?"""

    principal: KafkaPrincipal
    host: str
    operation: AclOperation
    resource_type: ResourceType
    name: str

    @property
    def covering(self) -> AclBindingFilter:
        """Which rules are enough to answer it: those whose pattern covers the resource (KIP-290's MATCH)."""
        return AclBindingFilter(self.resource_type, self.name, PatternType.MATCH)


class Effect(StrEnum):
    """What a rule on the resource has to do with a question."""

    REFUSES = "refuses"
    GRANTS = "grants"
    OTHER_PRINCIPAL = "other principal"
    OTHER_HOST = "other host"
    OTHER_OPERATION = "other operation"


@dataclass(frozen=True, slots=True)
class Considered:
    """One rule that covers the resource.

    implied: it speaks of the operation by ALL, or grants by one that implies it. reached: the authorizer came to it;
    false behind the refusal that decided, and everywhere when a super user asks. decides: it is the rule that the
    audit line names.
    """

    id: Uuid
    rule: AclBinding
    effect: Effect
    implied: bool
    reached: bool
    decides: bool


@dataclass(frozen=True, slots=True)
class Change:
    """What would turn the answer round: rules to remove, a rule to add, a super user to be one no longer.

    after: the answer with the change. ends_default, opens_default: whether `allow.everyone.if.no.acl.found` would
    stop, or begin, to open the resource to everybody else.
    """

    removed: tuple[tuple[Uuid, AclBinding], ...]
    added: AclBinding | None
    demoted: str | None
    after: AuthorizationResult
    ends_default: bool
    opens_default: bool

    def applied(self, authorizer: StandardAuthorizer) -> StandardAuthorizer:
        """Give the authorizer with the change made."""
        return changed(authorizer, self.removed, self.added, self.demoted)


@dataclass(frozen=True, slots=True)
class Explanation:
    """An answer with its reasons. considered: in Kafka's order; changes: the smallest first, never none."""

    question: Question
    result: AuthorizationResult
    considered: tuple[Considered, ...]
    changes: tuple[Change, ...]

    @property
    def allowed(self) -> bool:
        """Whether the answer is yes."""
        return self.result.allowed

    @property
    def deciding(self) -> Considered | None:
        """The rule that decided; None when a super user or the default did (`result.rule` says which)."""
        return next((one for one in self.considered if one.decides), None)


def explain(authorizer: StandardAuthorizer, question: Question) -> Explanation:
    """Give the answer with its reasons; ValueError for ANY and UNKNOWN, which are filters and no questions."""
    if question.operation in _NO_OPERATIONS or question.resource_type in _NO_TYPES:
        raise ValueError(f"{question.operation.name} on {question.resource_type.name} is a filter, not a question")
    result = authorizer.authorize(*question)
    considered = tuple(_considered(authorizer, question, result))
    tried = _changes(authorizer, question, result, considered)
    changes = tuple(change for change in tried if change.after.allowed != result.allowed)
    return Explanation(question, result, considered, changes)


def smallest_rule(question: Question, permission: AclPermissionType) -> AclBinding:
    """Give the rule that answers this question and, as far as rules go, no other."""
    pattern_type, name = PatternType.LITERAL, question.name
    if name == WILDCARD:
        pattern_type = PatternType.PREFIXED  # the literal name would stand for every resource
    return AclBinding(
        ResourcePattern(question.resource_type, name or WILDCARD, pattern_type),
        str(question.principal),
        question.host,
        question.operation,
        permission,
    )


_NO_OPERATIONS: Final = frozenset((AclOperation.UNKNOWN, AclOperation.ANY))
_DECISIVE: Final = frozenset((Effect.REFUSES, Effect.GRANTS))
_NO_TYPES: Final = frozenset((ResourceType.UNKNOWN, ResourceType.ANY))


def _considered(
    authorizer: StandardAuthorizer, question: Question, result: AuthorizationResult
) -> Iterator[Considered]:
    deciding = result.rule
    reached = deciding is not StandingRule.SUPER_USER
    for acl_id, rule in _rules_on(authorizer, question):
        effect = _effect(rule, question)
        decides = rule == deciding
        implied = effect in _DECISIVE and rule.operation is not question.operation
        yield Considered(acl_id, rule, effect, implied, reached, decides)
        if decides and not result.allowed:
            reached = False


def _rules_on(authorizer: StandardAuthorizer, question: Question) -> list[tuple[Uuid, AclBinding]]:
    """Give the rules on the patterns that cover the resource, in the order in which Kafka meets them."""
    kind = question.resource_type
    patterns = {
        (name, pattern_type): order
        for order, (name, pattern_type, _) in enumerate(covering(authorizer.index.types[kind], question.name))
    }
    if not patterns:
        return []
    found = [
        (acl_id, rule)
        for acl_id, rule in authorizer.by_id.items()
        if rule.pattern.resource_type is kind and (rule.pattern.name, rule.pattern.pattern_type) in patterns
    ]

    def place(one: tuple[Uuid, AclBinding]) -> tuple[int, int, str, str, int]:
        rule = one[1]
        pattern = rule.pattern.name, rule.pattern.pattern_type
        return patterns[pattern], rule.operation, rule.principal, rule.host, rule.permission_type

    return sorted(found, key=place)


def _effect(rule: AclBinding, question: Question) -> Effect:
    subjects = subjects_of(str(question.principal), question.host)
    if rule.principal not in {principal for principal, _ in subjects}:
        return Effect.OTHER_PRINCIPAL
    if rule.host not in {host for _, host in subjects}:
        return Effect.OTHER_HOST
    one = bit(rule.operation, rule.permission_type)
    if one & REFUSED_BY[question.operation]:
        return Effect.REFUSES
    return Effect.GRANTS if one & GRANTED_BY[question.operation] else Effect.OTHER_OPERATION


def _changes(
    authorizer: StandardAuthorizer,
    question: Question,
    result: AuthorizationResult,
    considered: Sequence[Considered],
) -> Iterator[Change]:
    """Give what may turn the answer round, the smallest first."""
    if result.rule is StandingRule.SUPER_USER:
        yield _enough(authorizer, question, (), AclPermissionType.DENY, demoted=str(question.principal))
    elif result.allowed:
        yield _tried(authorizer, question, added=smallest_rule(question, AclPermissionType.DENY))
        granting = tuple((c.id, c.rule) for c in considered if c.effect is Effect.GRANTS)
        if granting:
            yield _tried(authorizer, question, removed=granting)
    else:
        refusing = tuple((c.id, c.rule) for c in considered if c.effect is Effect.REFUSES)
        yield _enough(authorizer, question, refusing, AclPermissionType.ALLOW)


def _enough(
    authorizer: StandardAuthorizer,
    question: Question,
    removed: tuple[tuple[Uuid, AclBinding], ...],
    permission: AclPermissionType,
    demoted: str | None = None,
) -> Change:
    """Give the removal alone when that does it, else with the smallest rule of that permission added."""
    alone = _tried(authorizer, question, removed=removed, demoted=demoted)
    if alone.after.allowed is (permission is AclPermissionType.ALLOW):
        return alone
    return _tried(authorizer, question, removed=removed, added=smallest_rule(question, permission), demoted=demoted)


def _tried(
    authorizer: StandardAuthorizer,
    question: Question,
    removed: tuple[tuple[Uuid, AclBinding], ...] = (),
    added: AclBinding | None = None,
    demoted: str | None = None,
) -> Change:
    """Give the change with the answer that the authorizer has after it."""
    then = changed(authorizer, removed, added, demoted)
    before, after = (_open_to_all(one, question) for one in (authorizer, then))
    return Change(removed, added, demoted, then.authorize(*question), before and not after, after and not before)


def _open_to_all(authorizer: StandardAuthorizer, question: Question) -> bool:
    """Say whether no rule covers the resource and the default lets everybody in."""
    return authorizer.allow_everyone_if_no_acl and not covering(
        authorizer.index.types[question.resource_type], question.name
    )


def changed(
    authorizer: StandardAuthorizer,
    removed: Iterable[tuple[Uuid, AclBinding]],
    added: AclBinding | None,
    demoted: str | None,
) -> StandardAuthorizer:
    """Give the authorizer without some rules, with one more, with a super user less."""
    new = {} if added is None else {_unused_id(authorizer): added}
    then = authorizer.with_change([acl_id for acl_id, _ in removed], new)
    return then if demoted is None else replace(then, super_users=then.super_users - {demoted})


def _unused_id(authorizer: StandardAuthorizer) -> Uuid:
    return next(acl_id for n in count(1) if (acl_id := Uuid(n.to_bytes(16, "big"))) not in authorizer.by_id)
