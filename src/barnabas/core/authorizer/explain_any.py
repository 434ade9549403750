"""Why somebody may do something to some resource of a type, or to none (KIP-679), and what would turn the answer round.

It is what producers without transactions are asked: whoever may write to any topic may have a producer id. The decision
is the authorizer's own. Beside it stands every rule that was looked at, with what it had to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from string import ascii_letters, digits
from typing import Final, NamedTuple

from barnabas.core.authorizer.explain import changed
from barnabas.core.authorizer.index import bit
from barnabas.core.authorizer.standard import (
    ANY_RESOURCE,
    GRANTED_BY,
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

SOME_NAME: Final = "NAME"
"""In a proposed rule: a resource that no refusal covers, whichever; another one where refusals cover this."""


class AnyQuestion(NamedTuple):
    """May `principal`, from the IP `host` as Java spells it, do `operation` to any resource of the type at all?"""

    principal: KafkaPrincipal
    host: str
    operation: AclOperation
    resource_type: ResourceType

    @property
    def covering(self) -> AclBindingFilter:
        """Which rules are enough to answer it: all on the type."""
        return AclBindingFilter(self.resource_type)


class AnyEffect(StrEnum):
    """What a rule has to do with such a question."""

    REFUSES_ALL = "refuses every resource"
    REFUSES_SOME = "refuses a part"
    GRANTS = "grants"
    REFUSED = "grants, and is refused as a whole"


@dataclass(frozen=True, slots=True)
class AnyConsidered:
    """One rule that concerns who asks. refused_by: what leaves nothing of a grant; decides: whether it is the rule that
    the answer rests on, the first where several do."""

    id: Uuid
    rule: AclBinding
    effect: AnyEffect
    refused_by: tuple[tuple[Uuid, AclBinding], ...]
    decides: bool


@dataclass(frozen=True, slots=True)
class AnyChange:
    """What would turn the answer round: rules to remove, a rule to add, a super user to be one no longer."""

    removed: tuple[tuple[Uuid, AclBinding], ...] = ()
    added: AclBinding | None = None
    demoted: str | None = None

    def applied(self, authorizer: StandardAuthorizer) -> StandardAuthorizer:
        """Give the authorizer with the change made."""
        return changed(authorizer, self.removed, self.added, self.demoted)


@dataclass(frozen=True, slots=True)
class AnyExplanation:
    """An answer with its reasons. standing: what decided when no rule did; changes: each tried, the smallest first."""

    question: AnyQuestion
    allowed: bool
    standing: StandingRule | None
    considered: tuple[AnyConsidered, ...]
    changes: tuple[AnyChange, ...]

    @property
    def deciding(self) -> AnyConsidered | None:
        """The rule that the answer rests on; None when `standing` says what decided."""
        return next((one for one in self.considered if one.decides), None)


def explain_any(authorizer: StandardAuthorizer, question: AnyQuestion) -> AnyExplanation:
    """Give the answer with its reasons; ValueError for ANY and the like, which are filters and no questions."""
    allowed = authorizer.authorize_by_resource_type(*question)
    first = authorizer.authorize(*question, ANY_RESOURCE)
    looked_at = _looked_at(authorizer, question, with_implied=first.allowed)
    refusing_all = any(effect is AnyEffect.REFUSES_ALL for _, _, effect, _ in looked_at)
    standing: StandingRule | None = None
    if first.allowed and isinstance(first.rule, StandingRule):
        standing = first.rule
    elif not allowed and not refusing_all:
        standing = StandingRule.DEFAULT_DENY
    wanted = AnyEffect.GRANTS if allowed else AnyEffect.REFUSES_ALL
    deciding = next((row[0] for row in looked_at if row[2] is wanted), None) if standing is None else None
    considered = tuple(AnyConsidered(*row, row[0] == deciding) for row in looked_at)
    rules = {one.rule for one in considered}
    # A rule can't be added twice: where it is there already, the change without it has been tried before.
    tried = (one for one in _changes(question, allowed, standing, considered) if one.added not in rules)
    changes = (one for one in tried if one.applied(authorizer).authorize_by_resource_type(*question) is not allowed)
    return AnyExplanation(question, allowed, standing, considered, tuple(dict.fromkeys(changes)))


_Row = tuple[Uuid, AclBinding, AnyEffect, tuple[tuple[Uuid, AclBinding], ...]]


def _looked_at(authorizer: StandardAuthorizer, question: AnyQuestion, *, with_implied: bool) -> list[_Row]:
    """Give the rules that the authorizer looks at: those on every resource first, then names, then prefixes.

    with_implied: those as well that grant by implication what Kafka asks about first, one made-up name.
    """
    kind = question.resource_type
    subjects = set(subjects_of(str(question.principal), question.host))
    on_any = {(name, pattern) for name, pattern, _ in covering(authorizer.index.types[kind], ANY_RESOURCE)}
    implied = GRANTED_BY[question.operation] if with_implied else 0
    mine = []
    for acl_id, rule in authorizer.by_id.items():
        pattern = rule.pattern
        if pattern.resource_type is not kind or (rule.principal, rule.host) not in subjects:
            continue
        implies = bit(rule.operation, rule.permission_type) & implied and (pattern.name, pattern.pattern_type) in on_any
        if rule.operation in (question.operation, AclOperation.ALL) or implies:
            mine.append((acl_id, rule))
    mine.sort(key=_place)
    refusals = [row for row in mine if row[1].permission_type is AclPermissionType.DENY]
    return [_judged(acl_id, rule, refusals) for acl_id, rule in mine]


def _place(row: tuple[Uuid, AclBinding]) -> tuple[bool, int, int, str, int, str, str]:
    rule = row[1]
    p = rule.pattern
    return not _is_all(p), rule.permission_type, p.pattern_type, p.name, rule.operation, rule.principal, rule.host


def _judged(acl_id: Uuid, rule: AclBinding, refusals: Sequence[tuple[Uuid, AclBinding]]) -> _Row:
    if rule.permission_type is AclPermissionType.DENY:
        return acl_id, rule, AnyEffect.REFUSES_ALL if _is_all(rule.pattern) else AnyEffect.REFUSES_SOME, ()
    refused_by = tuple(row for row in refusals if _leaves_nothing(row[1].pattern, rule.pattern))
    return acl_id, rule, AnyEffect.REFUSED if refused_by else AnyEffect.GRANTS, refused_by


def _is_all(pattern: ResourcePattern) -> bool:
    return pattern.name == WILDCARD and pattern.pattern_type is PatternType.LITERAL


def _leaves_nothing(refused: ResourcePattern, granted: ResourcePattern) -> bool:
    """Say whether a refusal covers all of a grant, as Kafka sees it: one on every resource falls by its like only."""
    if _is_all(refused):
        return True
    if _is_all(granted):
        return False
    if refused.pattern_type is PatternType.PREFIXED:
        return granted.name.startswith(refused.name)
    return granted.pattern_type is PatternType.LITERAL and granted.name == refused.name


def _changes(
    question: AnyQuestion, allowed: bool, standing: StandingRule | None, considered: Sequence[AnyConsidered]
) -> Iterator[AnyChange]:
    """Give what may turn the answer round, the smallest first."""
    refusal = _smallest(question, WILDCARD, AclPermissionType.DENY)
    if standing is StandingRule.SUPER_USER:
        user = str(question.principal)
        yield AnyChange(demoted=user)
        yield AnyChange(demoted=user, added=refusal)
    elif allowed:
        yield AnyChange(added=refusal)
        yield AnyChange(removed=tuple((c.id, c.rule) for c in considered if c.effect is AnyEffect.GRANTS))
    else:
        everything = tuple((c.id, c.rule) for c in considered if c.effect is AnyEffect.REFUSES_ALL)
        grant = _smallest(question, _free_name(considered), AclPermissionType.ALLOW)
        yield AnyChange(removed=everything)
        if not everything:
            yield AnyChange(added=grant)
        grants = [c for c in considered if c.effect is AnyEffect.REFUSED]
        if grants:
            yield AnyChange(removed=min((c.refused_by for c in grants), key=len))
        elif everything:
            yield AnyChange(removed=everything, added=grant)


def _smallest(question: AnyQuestion, name: str, permission: AclPermissionType) -> AclBinding:
    pattern = ResourcePattern(question.resource_type, name)
    return AclBinding(pattern, str(question.principal), question.host, question.operation, permission)


def _free_name(considered: Sequence[AnyConsidered]) -> str:
    """Give a name that no refusal covers, if there is one."""
    refused = [c.rule.pattern for c in considered if c.effect is AnyEffect.REFUSES_SOME]
    names = (SOME_NAME, *(f"{letter}{SOME_NAME}" for letter in ascii_letters + digits))
    patterns = ((name, ResourcePattern(ResourceType.TOPIC, name)) for name in names)
    free = (name for name, pattern in patterns if not any(_leaves_nothing(one, pattern) for one in refused))
    return next(free, SOME_NAME)
