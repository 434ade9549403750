"""What is wrong with a set of rules: those that change no answer, and those that say something else than was meant.

Each rule is held against the patterns that contain its own, found through the authorizer's index, so that the work
grows with the rules and not with their square.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cache

from barnabas.core.authorizer.index import DENY_SHIFT, AclIndex, Rules, TypeIndex, bit
from barnabas.core.authorizer.spelling import Spellings, wrong_host
from barnabas.core.authorizer.standard import GRANTED_BY, REFUSED_BY, covering, subjects_of
from barnabas.model.acl import (
    SUPPORTED_OPERATIONS,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.uuid import Uuid


class FindingKind(StrEnum):
    """What is wrong with a rule."""

    DUPLICATE = "duplicate"
    SUPER_USER = "super user"
    OPERATION = "operation"
    SHADOWED = "shadowed"
    IMPLIED = "implied"
    PATTERN = "pattern"
    HOST = "host"
    PRINCIPAL = "principal"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to look at.

    why, advice: for people. because: the rules that make it so. alike: how many more rules have the same in them.
    removable: without the rule, and without all others that are removable, every answer stays as it is.
    """

    kind: FindingKind
    id: Uuid
    rule: AclBinding
    why: str
    advice: str
    because: tuple[AclBinding, ...] = ()
    alike: int = 0
    removable: bool = False


def lint(
    rules: Iterable[tuple[Uuid, AclBinding]],
    *,
    super_users: AbstractSet[str] = frozenset(),
    allow_everyone: bool = False,
    seen: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Give what is wrong with the rules, in their order; what concerns a principal stands at its first rule.

    super_users, allow_everyone: as the nodes have them. seen: principals that are known to be spelled right, each with
    where it was seen.
    """
    first: dict[AclBinding, Uuid] = {}
    duplicates = [
        Finding(FindingKind.DUPLICATE, acl_id, rule, "the same rule is there already", "remove it", removable=True)
        for acl_id, rule in rules
        if first.setdefault(rule, acl_id) != acl_id
    ]
    index = AclIndex().updated((), first)
    effect = _Effect(index, super_users, allow_everyone)
    count = Counter(rule.principal for rule in first)
    spellings = Spellings(dict.fromkeys(super_users, "super.users") | dict(seen or {}), dict(count))
    findings = duplicates
    for rule, acl_id in first.items():
        findings += effect.of(acl_id, rule)
        findings += _pattern(acl_id, rule)
        findings += _host(acl_id, rule)
        if count[rule.principal]:
            findings += _principal(acl_id, rule, spellings, count.pop(rule.principal) - 1)
    return findings


class _Effect:
    """Finds the rules that decide nothing."""

    def __init__(self, index: AclIndex, super_users: AbstractSet[str], allow_everyone: bool) -> None:
        self._index = index
        self._super_users = super_users - {WILDCARD_PRINCIPAL}
        self._allow_everyone = allow_everyone

    def of(self, acl_id: Uuid, rule: AclBinding) -> Iterator[Finding]:
        """Give the one reason why the rule changes no answer, if there is one."""
        kind = rule.pattern.resource_type
        concerned = _concerned(kind, rule.operation, rule.permission_type)
        if not concerned:
            why = f"nobody ever asks to {_words(rule.operation)} a {_words(kind)}"
            yield self._idle(FindingKind.OPERATION, acl_id, rule, why)
            return
        if rule.operation not in (*SUPPORTED_OPERATIONS[kind], AclOperation.ALL):
            why = f"nobody ever asks to {_words(rule.operation)} a {_words(kind)}: it only grants {_words(*concerned)}"
            yield Finding(FindingKind.OPERATION, acl_id, rule, why, f"grant {_words(*concerned)} instead")
            return
        if rule.principal in self._super_users:
            yield self._idle(FindingKind.SUPER_USER, acl_id, rule, "a super user passes before any rule is looked at")
            return
        wider = list(self._wider(rule))
        if rule.permission_type is AclPermissionType.ALLOW:
            refusing = _all_refused(concerned, wider)
            if refusing:
                yield Finding(
                    FindingKind.SHADOWED,
                    acl_id,
                    rule,
                    "whatever it grants is refused, and a refusal beats every grant",
                    "remove it, or the refusal if the grant was meant",
                    tuple(refusing),
                    removable=True,
                )
                return
        same = _says_the_same(rule, wider)
        if same is not None:
            yield Finding(
                FindingKind.IMPLIED,
                acl_id,
                rule,
                f"a wider rule {'grants' if rule.permission_type is AclPermissionType.ALLOW else 'refuses'} all of it",
                "remove it, or the wider rule if that was not meant",
                (same,),
                removable=True,
            )

    def _idle(self, kind: FindingKind, acl_id: Uuid, rule: AclBinding, why: str) -> Finding:
        if self._allow_everyone:
            why += "; its being there still keeps allow.everyone.if.no.acl.found from opening the resource"
            return Finding(kind, acl_id, rule, why, "replace it by a rule for those who may use the resource")
        return Finding(kind, acl_id, rule, why, "remove it", removable=True)

    def _wider(self, rule: AclBinding) -> Iterator[AclBinding]:
        """Give the other rules whose pattern, principal and host contain this one's."""
        kind = rule.pattern.resource_type
        subjects = dict.fromkeys(subjects_of(rule.principal, rule.host))
        for name, pattern_type, rules in _containing(self._index.types[kind], rule.pattern):
            for principal, host in subjects:
                for operation, permission in _said(rules, (principal, host)):
                    other = AclBinding(
                        ResourcePattern(kind, name, pattern_type), principal, host, operation, permission
                    )
                    if other != rule:
                        yield other


@cache
def _concerned(kind: ResourceType, operation: AclOperation, permission: AclPermissionType) -> tuple[AclOperation, ...]:
    """Give the operations on such a resource that somebody may ask for and such a rule has a say in."""
    table = GRANTED_BY if permission is AclPermissionType.ALLOW else REFUSED_BY
    one = bit(operation, permission)
    return tuple(asked for asked in SUPPORTED_OPERATIONS.get(kind, ()) if one & table[asked])


def _containing(index: TypeIndex, pattern: ResourcePattern) -> Iterator[tuple[str, PatternType, Rules]]:
    """Give the patterns that cover every resource that this one covers, itself among them."""
    literal = pattern.pattern_type is PatternType.LITERAL
    for found in covering(index, pattern.name):
        if found[:2] == (WILDCARD, PatternType.LITERAL):
            yield found
        elif literal and pattern.name == WILDCARD:
            continue  # nothing but itself has all of it
        elif literal or found[1] is PatternType.PREFIXED:
            yield found


def _said(rules: Rules, subject: tuple[str, str]) -> Iterator[tuple[AclOperation, AclPermissionType]]:
    bits = rules.get(subject, 0)
    while bits:
        number = (bits & -bits).bit_length() - 1
        bits &= bits - 1
        if number < DENY_SHIFT:
            yield AclOperation(number), AclPermissionType.ALLOW
        else:
            yield AclOperation(number - DENY_SHIFT), AclPermissionType.DENY


def _all_refused(operations: Sequence[AclOperation], wider: Sequence[AclBinding]) -> list[AclBinding]:
    """Give rules that together refuse every one of the operations; none when one of them is left."""
    refusals: dict[AclBinding, None] = {}
    for operation in operations:
        refusing = [rule for rule in wider if bit(rule.operation, rule.permission_type) & REFUSED_BY[operation]]
        if not refusing:
            return []
        refusals[refusing[-1]] = None
    return list(refusals)


def _says_the_same(rule: AclBinding, wider: Sequence[AclBinding]) -> AclBinding | None:
    """Give the widest rule of the same kind that has this one's operation in it."""
    table = GRANTED_BY if rule.permission_type is AclPermissionType.ALLOW else REFUSED_BY
    same = [one for one in wider if bit(one.operation, one.permission_type) & table[rule.operation]]
    return same[-1] if same else None


def _pattern(acl_id: Uuid, rule: AclBinding) -> Iterator[Finding]:
    """Find names in which an asterisk was meant to stand for something."""
    name, kind = rule.pattern.name, _words(rule.pattern.resource_type)
    prefixed = rule.pattern.pattern_type is PatternType.PREFIXED
    if WILDCARD not in name or (name == WILDCARD and not prefixed):
        return
    if prefixed:
        why = f"an asterisk in a prefix stands for itself: it covers a {kind} that begins with {name!r}"
    else:
        why = f"an asterisk stands for all names only when it is alone: it covers a {kind} called {name!r}"
    bare = name.rstrip(WILDCARD)
    if not bare:
        advice = "write the literal name * for all"
    elif WILDCARD not in bare:
        advice = f"write the prefix {bare!r} (--resource-pattern-type prefixed)"
    else:
        advice = "Kafka has exact names and prefixes only: make a rule for each name"
    yield Finding(FindingKind.PATTERN, acl_id, rule, why, advice)


def _host(acl_id: Uuid, rule: AclBinding) -> Iterator[Finding]:
    wrong = wrong_host(rule.host)
    if wrong is not None:
        yield Finding(FindingKind.HOST, acl_id, rule, wrong.why, wrong.advice)


def _principal(acl_id: Uuid, rule: AclBinding, spellings: Spellings, alike: int) -> Iterator[Finding]:
    principal = rule.principal
    better = spellings.better(principal)
    if better is not None:
        why = f"names are compared exactly, and {better.principal} is how it stands in {better.where}"
        yield Finding(
            FindingKind.PRINCIPAL, acl_id, rule, why, f"write {better.principal} if that is who was meant", (), alike
        )
    elif WILDCARD in principal and principal != WILDCARD_PRINCIPAL:
        why = f"an asterisk stands for nobody else in a principal; only {WILDCARD_PRINCIPAL} means everybody"
        yield Finding(FindingKind.PRINCIPAL, acl_id, rule, why, "make a rule for each principal", (), alike)


def _words(*names: Enum) -> str:
    return ", ".join(name.name.lower().replace("_", " ") for name in names)
