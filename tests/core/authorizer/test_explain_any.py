"""Answers about whole types of resources, explained: every rule has its part, every proposal does what it says."""

from __future__ import annotations

import random

import pytest

from barnabas.core.authorizer.explain_any import AnyEffect, AnyQuestion, explain_any
from barnabas.core.authorizer.standard import StandardAuthorizer, StandingRule
from barnabas.model.acl import AclBinding, AclOperation, AclPermissionType, PatternType, ResourcePattern, ResourceType
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.uuid import Uuid

from .cases import random_case, random_question

ALICE = KafkaPrincipal("User", "alice")
WRITE = AnyQuestion(ALICE, "10.0.0.1", AclOperation.WRITE, ResourceType.TOPIC)


def acl(
    name: str, *, deny: bool = False, prefixed: bool = False, user: str = "alice", read: bool = False
) -> AclBinding:
    pattern = ResourcePattern(ResourceType.TOPIC, name, PatternType.PREFIXED if prefixed else PatternType.LITERAL)
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    return AclBinding(pattern, f"User:{user}", "*", AclOperation.READ if read else AclOperation.WRITE, permission)


def with_rules(*rules: AclBinding, **settings: object) -> StandardAuthorizer:
    authorizer = StandardAuthorizer(**settings)  # type: ignore[arg-type]
    return authorizer.with_acls({Uuid(bytes([7]) * 15 + bytes([n])): rule for n, rule in enumerate(rules)})


def test_a_grant_on_one_topic_is_enough_unless_all_of_it_is_refused() -> None:
    authorizer = with_rules(
        acl("orders"), acl("ord", prefixed=True, deny=True), acl("logs", prefixed=True), acl("logs-1", deny=True)
    )
    told = explain_any(authorizer, WRITE)
    assert (told.allowed, told.standing) == (True, None)
    effects = {c.rule.pattern.name: c.effect for c in told.considered}
    assert effects == {
        "orders": AnyEffect.REFUSED,
        "ord": AnyEffect.REFUSES_SOME,
        "logs": AnyEffect.GRANTS,
        "logs-1": AnyEffect.REFUSES_SOME,
    }
    assert told.deciding is not None
    assert told.deciding.rule == acl("logs", prefixed=True)
    (orders,) = (c for c in told.considered if c.effect is AnyEffect.REFUSED)
    assert [rule for _, rule in orders.refused_by] == [acl("ord", prefixed=True, deny=True)]
    refused = [c.added for c in told.changes if c.added is not None]
    assert [(r.pattern.name, r.permission_type, r.host) for r in refused] == [("*", AclPermissionType.DENY, "10.0.0.1")]


@pytest.mark.parametrize(
    ("authorizer", "allowed", "standing"),
    [
        (with_rules(super_users=frozenset({"User:alice"})), True, StandingRule.SUPER_USER),
        (with_rules(), False, StandingRule.DEFAULT_DENY),
        (with_rules(acl("t", user="bob")), False, StandingRule.DEFAULT_DENY),
        (with_rules(acl("t", read=True)), False, StandingRule.DEFAULT_DENY),
        (with_rules(allow_everyone_if_no_acl=True), True, StandingRule.DEFAULT_ALLOW),
        (with_rules(acl("t"), acl("*", deny=True)), False, None),
        (with_rules(acl("t"), acl("t", deny=True)), False, StandingRule.DEFAULT_DENY),
        (with_rules(acl("*"), acl("t", prefixed=True, deny=True)), True, None),
    ],
)
def test_what_decides(authorizer: StandardAuthorizer, allowed: bool, standing: StandingRule | None) -> None:
    told = explain_any(authorizer, WRITE)
    assert (told.allowed, told.standing) == (allowed, standing)
    assert (told.deciding is None) is (standing is not None)
    assert told.changes


def test_a_super_user_whom_the_rule_refuses_already_need_only_be_one_no_longer() -> None:
    refusal = AclBinding(
        ResourcePattern(ResourceType.TOPIC, "*"), "User:alice", WRITE.host, AclOperation.WRITE, AclPermissionType.DENY
    )
    told = explain_any(with_rules(refusal, acl("orders"), super_users=frozenset({"User:alice"})), WRITE)
    assert (told.allowed, told.standing) == (True, StandingRule.SUPER_USER)
    assert [(change.demoted, change.added) for change in told.changes] == [("User:alice", None)]


def test_filters_are_no_questions() -> None:
    with pytest.raises(ValueError, match="is a filter"):
        explain_any(with_rules(), WRITE._replace(operation=AclOperation.ALL))


@pytest.mark.slow
def test_every_answer_has_a_reason_and_a_way_to_the_other_one() -> None:
    rng = random.Random(8)
    for _ in range(150):
        authorizer = random_case(rng, rng.choice((0, 3, 10, 40))).authorizer()
        for _ in range(20):
            question = AnyQuestion(*random_question(rng)[:-1])
            told = explain_any(authorizer, question)
            assert told.allowed is authorizer.authorize_by_resource_type(*question)
            assert (told.deciding is None) is (told.standing is not None)
            grants = any(c.effect is AnyEffect.GRANTS for c in told.considered)
            assert grants is told.allowed or told.standing in (StandingRule.SUPER_USER, StandingRule.DEFAULT_ALLOW)
            assert told.changes
            for change in told.changes:
                assert change.applied(authorizer).authorize_by_resource_type(*question) is not told.allowed
