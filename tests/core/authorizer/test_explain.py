"""Explanations: the authorizer's own answers, every rule that had a say, and changes that do turn answers round."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.authorizer.explain import Change, Effect, Explanation, Question, explain
from barnabas.core.authorizer.standard import StandardAuthorizer, StandingRule
from barnabas.model.acl import AclBinding, AclOperation, AclPermissionType, PatternType, ResourcePattern, ResourceType
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.uuid import Uuid

from . import cases

ALICE = KafkaPrincipal("User", "alice")
HOST = "10.0.0.7"
READ = AclOperation.READ
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY


def rule(
    permission: AclPermissionType = ALLOW,
    name: str = "orders",
    operation: AclOperation = READ,
    *,
    principal: str = "User:alice",
    host: str = "*",
    prefixed: bool = False,
) -> AclBinding:
    pattern_type = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return AclBinding(ResourcePattern(ResourceType.TOPIC, name, pattern_type), principal, host, operation, permission)


def asked(
    *rules: AclBinding, operation: AclOperation = READ, super_users: str = "", allow_everyone: bool = False
) -> Explanation:
    authorizer = StandardAuthorizer(frozenset(super_users.split()), allow_everyone).with_acls(
        {Uuid(bytes([9]) * 15 + bytes([n])): one for n, one in enumerate(rules)}
    )
    return explain(authorizer, Question(ALICE, HOST, operation, ResourceType.TOPIC, "orders"))


def only(explanation: Explanation) -> Change:
    (change,) = explanation.changes
    return change


def test_without_a_rule_the_default_refuses_and_one_narrow_grant_would_do() -> None:
    told = asked()
    assert (told.allowed, told.result.rule, told.considered, told.deciding) == (
        False,
        StandingRule.DEFAULT_DENY,
        (),
        None,
    )
    assert only(told).added == rule(host=HOST)
    assert only(told).removed == ()


def test_a_refusal_names_its_rule_and_what_has_to_go() -> None:
    wide = rule(DENY, "ord", AclOperation.ALL, principal="User:*", prefixed=True)
    told = asked(rule(), wide, rule(DENY, "*"), rule(principal="User:bob"))
    assert [(c.rule.permission_type, c.effect, c.reached, c.decides) for c in told.considered] == [
        (ALLOW, Effect.GRANTS, True, False),
        (ALLOW, Effect.OTHER_PRINCIPAL, True, False),
        (DENY, Effect.REFUSES, True, True),
        (DENY, Effect.REFUSES, False, False),
    ]
    assert told.deciding is not None
    assert told.deciding.rule == wide
    assert [one for _, one in only(told).removed] == [wide, rule(DENY, "*")]
    assert only(told).added is None


def test_where_no_grant_is_behind_the_refusal_one_has_to_be_added() -> None:
    change = only(asked(rule(DENY)))
    assert ([one for _, one in change.removed], change.added) == ([rule(DENY)], rule(host=HOST))


def test_a_grant_can_be_refused_or_taken_away() -> None:
    told = asked(rule(), rule(operation=AclOperation.ALL, host=HOST), rule(host="10.0.0.8"))
    refuse, take_away = told.changes
    assert refuse.added == rule(DENY, host=HOST)
    assert [one.operation for _, one in take_away.removed] == [AclOperation.ALL, READ]
    assert [c.effect for c in told.considered] == [Effect.GRANTS, Effect.GRANTS, Effect.OTHER_HOST]
    assert [c.implied for c in told.considered] == [True, False, False]


def test_reading_implies_describing_and_refused_reading_says_nothing_of_it() -> None:
    told = asked(rule(), rule(DENY), operation=AclOperation.DESCRIBE)
    assert told.allowed
    refusing, granting = told.considered
    assert (granting.effect, granting.implied, granting.decides) == (Effect.GRANTS, True, True)
    assert refusing.effect is Effect.OTHER_OPERATION


def test_a_super_user_is_refused_only_when_he_is_one_no_longer() -> None:
    told = asked(rule(DENY), super_users="User:alice")
    assert told.result.rule is StandingRule.SUPER_USER
    assert [(c.effect, c.reached, c.decides) for c in told.considered] == [(Effect.REFUSES, False, False)]
    change = only(told)
    assert (change.demoted, change.added, change.after.rule) == ("User:alice", None, rule(DENY))
    granted = only(asked(rule(), super_users="User:alice"))
    assert (granted.demoted, granted.added) == ("User:alice", rule(DENY, host=HOST))


def test_the_default_that_lets_everybody_in_ends_with_any_rule() -> None:
    told = asked(allow_everyone=True)
    assert told.result.rule is StandingRule.DEFAULT_ALLOW
    assert (only(told).added, only(told).ends_default) == (rule(DENY, host=HOST), True)
    opening = only(asked(rule(DENY), allow_everyone=True))
    assert (opening.added, opening.opens_default, opening.after.rule) == (None, True, StandingRule.DEFAULT_ALLOW)
    granted = asked(rule(), allow_everyone=True)
    assert [change.added for change in granted.changes] == [rule(DENY, host=HOST)]  # without it everybody would be in


def test_no_suggestion_for_a_resource_called_asterisk_stands_for_all() -> None:
    question = Question(ALICE, HOST, READ, ResourceType.GROUP, "*")
    change = only(explain(StandardAuthorizer(), question))
    assert change.added is not None
    assert change.added.pattern.pattern_type is PatternType.PREFIXED


@pytest.mark.parametrize("operation", [AclOperation.ANY, AclOperation.UNKNOWN])
def test_filters_are_no_questions(operation: AclOperation) -> None:
    with pytest.raises(ValueError, match="a filter, not a question"):
        asked(operation=operation)


thorough = settings(max_examples=300, deadline=None)
bindings = st.builds(
    AclBinding,
    st.builds(
        ResourcePattern,
        st.just(ResourceType.GROUP),
        st.sampled_from((*cases.NAMES[:6], "*", "*")),
        st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    ),
    st.sampled_from(("User:alice", "User:alice", "User:bob", "User:*", "Group:alice")),
    st.sampled_from((*cases.HOSTS[:2], "*", "*")),
    st.sampled_from(cases.OPERATIONS[:9]),
    st.sampled_from((ALLOW, ALLOW, DENY)),
)
worlds = st.builds(
    cases.Case,
    st.sampled_from((frozenset(), frozenset({"User:alice"}), frozenset({"User:bob"}))),
    st.booleans(),
    st.lists(bindings, unique=True, max_size=14).map(
        lambda found: {Uuid(bytes([7]) * 15 + bytes([n])): one for n, one in enumerate(found)}
    ),
)
questions = st.builds(
    cases.Question,
    st.just(ALICE),
    st.sampled_from(cases.HOSTS[:2]),
    st.sampled_from(cases.QUESTIONS[:8]),
    st.just(ResourceType.GROUP),
    st.sampled_from((*cases.NAMES[:6], "abcd", "*")),
)


@pytest.mark.slow
@thorough
@given(worlds, questions)
def test_every_rule_on_the_resource_is_there_with_what_it_says_alone(
    world: cases.Case, question: cases.Question
) -> None:
    told = explain(world.authorizer(), Question(*question))
    assert told.allowed is cases.naive(world, question)
    covering = {acl_id for acl_id, one in world.acls.items() if cases.covers(one.pattern, question)}
    assert len(told.considered) == len(covering)
    assert {c.id for c in told.considered} == covering
    for c in told.considered:
        alone = StandardAuthorizer().with_acls({c.id: c.rule}).authorize(*question)
        assert (c.effect in (Effect.REFUSES, Effect.GRANTS)) is (alone.rule == c.rule)
        assert (c.effect is Effect.GRANTS) is alone.allowed
    deciding = [c for c in told.considered if c.decides]
    assert [c.rule for c in deciding] == ([told.result.rule] if isinstance(told.result.rule, AclBinding) else [])
    assert all(c.reached for c in deciding)


def after(world: cases.Case, change: Change) -> cases.Case:
    """Make a change by hand, without the authorizer's help."""
    gone = {acl_id for acl_id, _ in change.removed}
    acls = {acl_id: one for acl_id, one in world.acls.items() if acl_id not in gone}
    if change.added is not None:
        acls[Uuid(b"a new rule's id.")] = change.added
    return cases.Case(world.super_users - {change.demoted or ""}, world.allow_everyone, acls)


@pytest.mark.slow
@thorough
@given(worlds, questions)
def test_every_change_turns_the_answer_round(world: cases.Case, question: cases.Question) -> None:
    told = explain(world.authorizer(), Question(*question))
    assert told.changes
    for change in told.changes:
        changed = after(world, change)
        assert cases.naive(changed, question) is change.after.allowed is not told.allowed
        assert changed.authorizer().authorize(*question).rule == change.after.rule
        assert change.applied(world.authorizer()).authorize(*question) == change.after


@pytest.mark.slow
@thorough
@given(worlds, questions)
def test_nothing_less_would_turn_it_round(world: cases.Case, question: cases.Question) -> None:
    told = explain(world.authorizer(), Question(*question))
    for change in told.changes:
        parts = [replace(change, removed=tuple(r for r in change.removed if r != spared)) for spared in change.removed]
        if change.added is not None:
            parts += [replace(change, added=None), replace(change, added=None, removed=())]
        if change.demoted is not None:
            parts.append(replace(change, demoted=None))
        for part in parts:
            assert cases.naive(after(world, part), question) is told.allowed


@pytest.mark.slow
@thorough
@given(worlds, questions, questions)
def test_a_rule_that_is_added_answers_no_other_question(
    world: cases.Case, question: cases.Question, other: cases.Question
) -> None:
    told = explain(world.authorizer(), Question(*question))
    change = told.changes[0]
    if change.removed or change.demoted or change.ends_default or other == question:
        return
    if question.name != "*" or not other.name.startswith("*"):
        implied = (other.principal, other.host, other.name) == (question.principal, question.host, question.name)
        if not implied or question.operation not in cases.IMPLIES.get(other.operation, ()):
            assert cases.naive(after(world, change), other) is cases.naive(world, other)
