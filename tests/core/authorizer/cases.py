"""Random ACLs and questions from small alphabets, so that they meet; and the obvious twin of the authorizer.

No name here begins with `*` without being it, and none with a character that sorts before `*`: there Apache Kafka
4.3.1 loses wildcard rules, or does not end at all (see docs/decisions/authorizer.md).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from barnabas.core.authorizer.standard import StandardAuthorizer
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

TYPES: Final = tuple(ResourceType)[2:]
OPERATIONS: Final = tuple(AclOperation)[2:]
QUESTIONS: Final = tuple(AclOperation)[3:]
NAMES: Final = ("a", "ab", "abc", "abd", "b", "ba", "a.b", "a-b", "kafka-cluster", "hardcode", "hard", "ä", "€uro", "𝄞")
USERS: Final = ("alice", "bob", "a:b", "CN=web,O=Ex", "*")
HOSTS: Final = ("10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1")
_DENY_SHARE: Final = 0.3


class Question(NamedTuple):
    """What an authorizer is asked."""

    principal: KafkaPrincipal
    host: str
    operation: AclOperation
    resource_type: ResourceType
    name: str


class Case(NamedTuple):
    """A configuration with its rules."""

    super_users: frozenset[str]
    allow_everyone: bool
    acls: dict[Uuid, AclBinding]

    def authorizer(self) -> StandardAuthorizer:
        return StandardAuthorizer(self.super_users, self.allow_everyone).with_acls(self.acls)


def random_case(rng: random.Random, size: int) -> Case:
    acls: dict[AclBinding, None] = {}
    for _ in range(size):
        acls[random_acl(rng)] = None
    by_id = {Uuid(rng.randbytes(16)): acl for acl in acls}
    super_users = frozenset(rng.sample(("User:root", "User:bob", "Group:alice"), rng.randrange(2)))
    return Case(super_users, rng.random() < 0.4, by_id)


def random_acl(rng: random.Random) -> AclBinding:
    pattern_type = rng.choice((PatternType.LITERAL, PatternType.PREFIXED))
    wildcard = pattern_type is PatternType.LITERAL and rng.random() < 0.15
    deny = rng.random() < _DENY_SHARE
    return AclBinding(
        ResourcePattern(rng.choice(TYPES), WILDCARD if wildcard else rng.choice(NAMES), pattern_type),
        f"{rng.choice(('User', 'User', 'User', 'Group'))}:{rng.choice(USERS)}",
        rng.choice((*HOSTS, WILDCARD, WILDCARD)),
        rng.choice(OPERATIONS),
        AclPermissionType.DENY if deny else AclPermissionType.ALLOW,
    )


def random_question(rng: random.Random) -> Question:
    return Question(
        KafkaPrincipal(rng.choice(("User", "User", "Group")), rng.choice((*USERS[:-1], "root"))),
        rng.choice(HOSTS),
        rng.choice(QUESTIONS),
        rng.choice(TYPES),
        rng.choice((*NAMES, *NAMES, "abcd", "zz", WILDCARD)),
    )


IMPLIES: Final = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}


def naive(case: Case, question: Question) -> bool:
    """Decide by looking at every rule."""
    if str(question.principal) in case.super_users:
        return True
    covering = [acl for acl in case.acls.values() if covers(acl.pattern, question)]
    mine = [acl for acl in covering if _concerns(acl, question)]
    if any(acl.permission_type is AclPermissionType.DENY for acl in _for_operation(mine, {question.operation})):
        return False
    granting = {question.operation} | IMPLIES.get(question.operation, set())
    if any(acl.permission_type is AclPermissionType.ALLOW for acl in _for_operation(mine, granting)):
        return True
    return case.allow_everyone and not covering


def naive_by_type(case: Case, question: Question) -> bool:
    """Decide on any resource of the question's type, by looking at every rule; the question's name is not used."""
    if naive(case, question._replace(name="hardcode")):
        return True
    mine = [
        acl
        for acl in _for_operation(case.acls.values(), {question.operation})
        if acl.pattern.resource_type is question.resource_type and _concerns(acl, question)
    ]
    refused = [acl.pattern for acl in mine if acl.permission_type is AclPermissionType.DENY]
    granted = [acl.pattern for acl in mine if acl.permission_type is AclPermissionType.ALLOW]
    return any(not any(_contains(outer, inner) for outer in refused) for inner in granted) and not any(
        _is_wildcard(pattern) for pattern in refused
    )


def covers(pattern: ResourcePattern, question: Question) -> bool:
    if pattern.resource_type is not question.resource_type:
        return False
    if pattern.pattern_type is PatternType.PREFIXED:
        return question.name.startswith(pattern.name)
    return pattern.name in (question.name, WILDCARD)


def _concerns(acl: AclBinding, question: Question) -> bool:
    return acl.principal in (str(question.principal), WILDCARD_PRINCIPAL) and acl.host in (question.host, WILDCARD)


def _for_operation(acls: Iterable[AclBinding], operations: set[AclOperation]) -> Sequence[AclBinding]:
    return [acl for acl in acls if acl.operation in operations or acl.operation is AclOperation.ALL]


def _is_wildcard(pattern: ResourcePattern) -> bool:
    return pattern.pattern_type is PatternType.LITERAL and pattern.name == WILDCARD


def _contains(outer: ResourcePattern, inner: ResourcePattern) -> bool:
    """Say whether the refusal of `outer` leaves nothing of `inner`, as Kafka sees it: a granted `*` always stands."""
    if _is_wildcard(inner):
        return False
    if outer.pattern_type is PatternType.PREFIXED:
        return inner.name.startswith(outer.name)
    return inner.pattern_type is PatternType.LITERAL and inner.name == outer.name
