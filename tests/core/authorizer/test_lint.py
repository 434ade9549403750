"""What is found wrong with rules, and that what is said to decide nothing decides nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.authorizer.lint import Finding, FindingKind, lint
from barnabas.core.authorizer.spelling import folded
from barnabas.core.authorizer.standard import StandardAuthorizer
from barnabas.model.acl import (
    SUPPORTED_OPERATIONS,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.uuid import Uuid

from . import cases

READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC


def rule(
    operation: AclOperation = READ,
    name: str = "orders",
    permission: AclPermissionType = ALLOW,
    *,
    principal: str = "User:alice",
    host: str = "*",
    prefixed: bool = False,
    kind: ResourceType = TOPIC,
) -> AclBinding:
    pattern_type = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return AclBinding(ResourcePattern(kind, name, pattern_type), principal, host, operation, permission)


def found(
    *rules: AclBinding, super_users: str = "", allow_everyone: bool = False, seen: dict[str, str] | None = None
) -> list[Finding]:
    numbered = [(Uuid(bytes([9]) * 15 + bytes([n])), one) for n, one in enumerate(rules)]
    return lint(numbered, super_users=set(super_users.split()), allow_everyone=allow_everyone, seen=seen)


def one(*rules: AclBinding, super_users: str = "", allow_everyone: bool = False, **seen: str) -> Finding:
    (finding,) = found(
        *rules,
        super_users=super_users,
        allow_everyone=allow_everyone,
        seen={f"User:{name}": where for name, where in seen.items()},
    )
    return finding


def test_rules_that_say_different_things_are_left_alone() -> None:
    assert found() == []
    assert (
        found(
            rule(),
            rule(WRITE),
            rule(DESCRIBE, principal="User:bob"),
            rule(host="10.0.0.1", principal="User:bob"),
            rule(name="ord", principal="User:carol", prefixed=True),
            rule(ALL, "*", DENY, principal="User:mallory"),
            rule(ALL, kind=ResourceType.CLUSTER, name="kafka-cluster", principal="User:*", host="10.0.0.1"),
            rule(AclOperation.CREATE_TOKENS, kind=ResourceType.USER, name="User:alice"),
            rule(host="0:0:0:0:0:0:0:1", principal="User:dave"),
        )
        == []
    )


def test_a_grant_that_is_refused_altogether_is_shadowed() -> None:
    refusal = rule(ALL, "ord", DENY, principal="User:*", prefixed=True)
    finding = one(rule(), refusal)
    assert (finding.kind, finding.rule, finding.because) == (FindingKind.SHADOWED, rule(), (refusal,))
    assert found(rule(), rule(READ, "*", DENY)) == []  # it still grants Describe
    both = rule(READ, "*", DENY), rule(DESCRIBE, "ord", DENY, prefixed=True)
    assert set(one(rule(), *both).because) == set(both)
    assert found(rule(), rule(ALL, "*", DENY, host="10.0.0.1")) == []
    assert found(rule(host="10.0.0.1"), rule(ALL, "*", DENY, principal="User:bob")) == []
    assert found(rule(ALL, "*"), rule(ALL, "orders", DENY)) == []
    assert found(rule(name="ord", prefixed=True), rule(ALL, "ord", DENY)) == []


def test_what_a_wider_rule_says_too_is_implied() -> None:
    for wider in (rule(host="*"), rule(ALL, host="10.0.0.1"), rule(name="*"), rule(name="o", prefixed=True)):
        finding = one(rule(host="10.0.0.1"), wider)
        assert (finding.kind, finding.rule, finding.because) == (
            FindingKind.IMPLIED,
            rule(host="10.0.0.1"),
            (wider,),
        )
    assert one(rule(DESCRIBE), rule(WRITE)).rule == rule(DESCRIBE)
    assert one(rule(WRITE), rule(WRITE, principal="User:*")).rule == rule(WRITE)
    assert found(rule(DESCRIBE, permission=DENY), rule(WRITE, permission=DENY)) == []
    assert one(rule(permission=DENY), rule(ALL, permission=DENY)).rule == rule(permission=DENY)


def test_the_same_rule_under_two_ids_is_there_twice() -> None:
    finding = one(rule(), rule())
    assert (finding.kind, finding.id[-1], finding.removable) == (FindingKind.DUPLICATE, 1, True)


def test_rules_of_super_users_decide_nothing_but_that_the_default_ends() -> None:
    finding = one(rule(), super_users="User:alice")
    assert (finding.kind, finding.removable) == (FindingKind.SUPER_USER, True)
    kept = one(rule(), super_users="User:alice", allow_everyone=True)
    assert (kept.removable, "keeps allow.everyone.if.no.acl.found" in kept.why) == (False, True)
    assert found(rule(principal="User:*"), super_users="User:*") == []


def test_operations_that_nobody_asks_for() -> None:
    finding = one(rule(AclOperation.CREATE, "g", kind=GROUP))
    assert (finding.kind, finding.why) == (FindingKind.OPERATION, "nobody ever asks to create a group")
    finding = one(rule(WRITE, "g", kind=GROUP))
    assert (finding.advice, finding.removable) == ("grant describe instead", False)
    assert one(rule(WRITE, "g", DENY, kind=GROUP)).removable


@pytest.mark.parametrize(
    ("name", "prefixed", "advice"),
    [
        ("foo*", False, "write the prefix 'foo'"),
        ("foo*", True, "write the prefix 'foo'"),
        ("*foo", False, "exact names and prefixes only"),
        ("a*b", False, "exact names and prefixes only"),
        ("*", True, "write the literal name *"),
        ("**", False, "write the literal name *"),
    ],
)
def test_asterisks_within_names_stand_for_themselves(name: str, prefixed: bool, advice: str) -> None:
    finding = one(rule(name=name, prefixed=prefixed))
    assert (finding.kind, advice in finding.advice) == (FindingKind.PATTERN, True)


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("web1.example.org", "never looked up"),
        ("localhost", "never looked up"),
        ("10.0.0.0/8", "a network is no address"),
        ("10.0.0.*", "only when it is alone"),
        ("::1", "Kafka writes this address as 0:0:0:0:0:0:0:1"),
        ("2001:DB8:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("10.0.0.1 ", "never looked up"),
    ],
)
def test_hosts_that_are_never_met(host: str, told: str) -> None:
    finding = one(rule(host=host))
    assert (finding.kind, told in finding.why) == (FindingKind.HOST, True)


def test_spellings_that_were_not_seen() -> None:
    finding = one(rule(principal="User:Alice"), rule(WRITE, principal="User:Alice"), alice="the SCRAM users")
    assert (finding.kind, finding.alike) == (FindingKind.PRINCIPAL, 1)
    assert "User:alice is how it stands in the SCRAM users" in finding.why
    assert found(rule(principal="User:Alice"), seen={"User:alice": "x", "User:Alice": "x"}) == []
    assert one(rule(principal="User: alice"), alice="x").kind is FindingKind.PRINCIPAL
    assert one(rule(principal="user:alice"), alice="x").kind is FindingKind.PRINCIPAL
    assert "User:* is how" in one(rule(principal="user:*")).why
    assert "only User:* means everybody" in one(rule(principal="User:team-*")).why
    assert "super.users" in one(rule(principal="User:Root"), super_users="User:root").why


def test_rules_that_spell_one_principal_in_two_ways() -> None:
    often = rule(principal="User:CN=web,O=Ex"), rule(WRITE, principal="User:CN=web,O=Ex")
    finding = one(*often, rule(principal="User:O=Ex, CN=web"))
    assert finding.rule.principal == "User:O=Ex, CN=web"
    assert "User:CN=web,O=Ex" in finding.advice
    assert one(rule(principal="User:bob"), rule(principal="User:BOB")).rule.principal == "User:bob"


def test_folding_keeps_different_names_apart() -> None:
    assert folded(r"User:CN=Doe\, John,O=Ex") == folded(r"User:o=ex,cn=doe\, john")
    assert folded("User:ﬁn") == folded("User:fin")
    apart = ("User:a", "User:b", "Group:a", "User:CN=a", "User:CN=a,O=b", "User:CN=b,O=a", "User:a:b")
    assert len({folded(principal) for principal in apart}) == len(apart)


GROUP_NAMES = ("a", "ab", "abc", "b")
PATTERN_TYPES = (PatternType.LITERAL, PatternType.PREFIXED)
bindings = st.builds(
    AclBinding,
    st.one_of(
        st.builds(ResourcePattern, st.just(GROUP), st.sampled_from(GROUP_NAMES), st.sampled_from(PATTERN_TYPES)),
        st.just(ResourcePattern(GROUP, "*")),
    ),
    st.sampled_from(("User:alice", "User:bob", "User:*")),
    st.sampled_from((*cases.HOSTS[:1], "*")),
    st.sampled_from((READ, WRITE, DESCRIBE, AclOperation.DELETE, AclOperation.CREATE, ALL)),
    st.sampled_from((ALLOW, ALLOW, DENY)),
)
QUESTIONS = [
    cases.Question(KafkaPrincipal("User", user), host, operation, GROUP, name)
    for user in ("alice", "bob", "carol")
    for host in cases.HOSTS[:2]
    for operation in SUPPORTED_OPERATIONS[GROUP]
    for name in (*GROUP_NAMES, "abcd", "z")
]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.lists(bindings, max_size=10),
    st.sampled_from((frozenset[str](), frozenset({"User:alice"}))),
    st.booleans(),
)
def test_without_all_that_may_go_every_answer_is_the_same(
    rules: list[AclBinding], super_users: frozenset[str], allow_everyone: bool
) -> None:
    numbered = {Uuid(bytes([7]) * 15 + bytes([n])): one for n, one in enumerate(rules)}
    findings = lint(numbered.items(), super_users=super_users, allow_everyone=allow_everyone)
    gone = {finding.id for finding in findings if finding.removable}
    empty = StandardAuthorizer(super_users, allow_everyone)
    before = empty.with_acls({acl_id: one for one, acl_id in {one: acl_id for acl_id, one in numbered.items()}.items()})
    after = empty.with_acls({acl_id: one for acl_id, one in numbered.items() if acl_id not in gone})
    for question in QUESTIONS:
        assert before.authorize(*question).allowed is after.authorize(*question).allowed, question


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(bindings, max_size=8, unique=True), st.booleans())
def test_what_is_left_would_decide_something_alone(rules: list[AclBinding], allow_everyone: bool) -> None:
    numbered = {Uuid(bytes([7]) * 15 + bytes([n])): one for n, one in enumerate(rules)}
    faulty = {finding.id for finding in lint(numbered.items(), allow_everyone=allow_everyone)}
    for acl_id in numbered.keys() - faulty:
        alone = StandardAuthorizer(allow_everyone_if_no_acl=allow_everyone).with_acls({acl_id: numbered[acl_id]})
        assert any(alone.authorize(*question).rule == numbered[acl_id] for question in QUESTIONS)
