"""StandardAuthorizer's rules, one by one and against a twin that looks at every ACL."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from itertools import count

import pytest

from barnabas.core.authorizer.standard import StandardAuthorizer, StandingRule, parse_super_users
from barnabas.model.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.uuid import Uuid

from .cases import TYPES, naive, naive_by_type, random_acl, random_case, random_question

ALICE = KafkaPrincipal("User", "alice")
BOB = KafkaPrincipal("User", "bob")
HOST = "10.0.0.1"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL


def acl(
    name: str = "foo",
    operation: AclOperation = READ,
    *,
    deny: bool = False,
    principal: str = "User:alice",
    host: str = "*",
    pattern_type: PatternType = LITERAL,
    resource_type: ResourceType = TOPIC,
) -> AclBinding:
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    return AclBinding(ResourcePattern(resource_type, name, pattern_type), principal, host, operation, permission)


_IDS = count(1)


def numbered(acls: Iterable[AclBinding]) -> list[tuple[Uuid, AclBinding]]:
    return [(Uuid(next(_IDS).to_bytes(16, "big")), one) for one in acls]


def knowing(*acls: AclBinding, super_users: str = "", open_by_default: bool = False) -> StandardAuthorizer:
    return StandardAuthorizer(parse_super_users(super_users), open_by_default).with_acls(numbered(acls))


def may(authorizer: StandardAuthorizer, operation: AclOperation = READ, name: str = "foo", **more: object) -> bool:
    principal = more.get("principal", ALICE)
    host, resource_type = more.get("host", HOST), more.get("resource_type", TOPIC)
    assert isinstance(principal, KafkaPrincipal)
    assert isinstance(host, str)
    assert isinstance(resource_type, ResourceType)
    return bool(authorizer.authorize(principal, host, operation, resource_type, name))


@pytest.mark.requirement("A-02")
def test_one_refusal_beats_any_number_of_grants() -> None:
    grants = [acl(), acl("*"), acl("f", pattern_type=PREFIXED), acl(operation=ALL), acl(principal="User:*")]
    assert may(knowing(*grants))
    for refusal in (acl(deny=True), acl("*", deny=True), acl("fo", deny=True, pattern_type=PREFIXED)):
        assert not may(knowing(*grants, refusal))


@pytest.mark.requirement("A-03")
@pytest.mark.parametrize("resource_type", TYPES)
def test_literal_prefixed_and_wildcard_patterns_count_for_every_type(resource_type: ResourceType) -> None:
    for pattern in (("foo", LITERAL), ("f", PREFIXED), ("foo", PREFIXED), ("*", LITERAL)):
        rule = acl(pattern[0], pattern_type=pattern[1], resource_type=resource_type)
        assert may(knowing(rule), resource_type=resource_type)
    for pattern in (("fo", LITERAL), ("fooo", PREFIXED), ("oo", PREFIXED), ("*", PREFIXED), ("F", PREFIXED)):
        rule = acl(pattern[0], pattern_type=pattern[1], resource_type=resource_type)
        assert not may(knowing(rule), resource_type=resource_type)
    others = [acl("*", resource_type=other) for other in TYPES if other is not resource_type]
    assert not may(knowing(*others), resource_type=resource_type)


@pytest.mark.requirement("A-03")
def test_a_wildcard_refuses_names_that_begin_with_an_asterisk_too() -> None:
    """Apache Kafka 4.3.1 overlooks it there; AclAuthorizer did not (docs/decisions/authorizer.md)."""
    rules = (acl("*a", resource_type=GROUP), acl("*", deny=True, resource_type=GROUP))
    assert not may(knowing(*rules), name="*a", resource_type=GROUP)
    assert may(knowing(*rules[:1]), name="*a", resource_type=GROUP)


@pytest.mark.requirement("A-04", "H-13")
def test_principals_match_exactly_and_hosts_as_text() -> None:
    assert may(knowing(acl(principal="User:*")))
    for other in ("User:alic", "User:alicee", "Group:alice", "User:Alice", "Group:*"):
        assert not may(knowing(acl(principal=other)))
    assert may(knowing(acl(host=HOST)))
    for other in ("10.0.0.2", "localhost", "10.0.0.", "10.0.0.1 "):
        assert not may(knowing(acl(host=other)))
    assert may(knowing(acl(principal="User:a:b")), principal=KafkaPrincipal("User", "a:b"))


@pytest.mark.requirement("A-05", "H-13")
def test_what_grants_imply_and_refusals_do_not() -> None:
    operations = list(AclOperation)[3:]
    for granted in operations:
        expected = {granted}
        if granted in (READ, WRITE, AclOperation.DELETE, AclOperation.ALTER):
            expected.add(DESCRIBE)
        if granted is AclOperation.ALTER_CONFIGS:
            expected.add(AclOperation.DESCRIBE_CONFIGS)
        assert {asked for asked in operations if may(knowing(acl(operation=granted)), asked)} == expected
        left = {
            asked for asked in operations if may(knowing(acl(operation=ALL), acl(operation=granted, deny=True)), asked)
        }
        assert left == set(operations) - {granted}
    assert all(may(knowing(acl(operation=ALL)), asked) for asked in operations)
    assert not any(may(knowing(acl(operation=ALL), acl(operation=ALL, deny=True)), asked) for asked in operations)


@pytest.mark.requirement("A-06")
def test_super_users_pass_everything() -> None:
    authorizer = knowing(acl("*", ALL, deny=True, principal="User:*"), super_users="User:CN=a,O=b; User:alice ;;")
    assert authorizer.super_users == {"User:CN=a,O=b", "User:alice"}
    assert may(authorizer)
    assert may(authorizer, principal=KafkaPrincipal("User", "CN=a,O=b"))
    assert not may(authorizer, principal=BOB)
    assert authorizer.authorize_by_resource_type(ALICE, HOST, WRITE, TOPIC)


@pytest.mark.requirement("A-06")
@pytest.mark.parametrize("text", ["alice", "User:", ":alice", "User:alice;bob"])
def test_a_malformed_super_user_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"super\.users="):
        parse_super_users(text)


@pytest.mark.requirement("A-07", "H-13")
def test_the_default_counts_only_where_no_rule_covers_the_resource() -> None:
    assert not may(knowing())
    assert may(knowing(open_by_default=True))
    for rule in (
        acl(principal="User:bob"),
        acl(principal="User:bob", host="10.9.9.9", operation=WRITE),
        acl("*", principal="User:bob"),
        acl("f", principal="User:bob", pattern_type=PREFIXED),
        acl(principal="User:bob", deny=True),
    ):
        assert not may(knowing(rule, open_by_default=True))
    for rule in (acl("other"), acl("other", pattern_type=PREFIXED), acl("*", resource_type=GROUP)):
        assert may(knowing(rule, open_by_default=True))


def test_a_result_says_which_rule_decided() -> None:
    rules = [acl(), acl(principal="User:*"), acl("f", ALL, pattern_type=PREFIXED), acl("*", WRITE)]
    authorizer = knowing(*rules, acl("bar", deny=True), super_users="User:root")
    assert authorizer.authorize(ALICE, HOST, READ, TOPIC, "foo").rule == rules[2]
    assert authorizer.authorize(ALICE, HOST, WRITE, TOPIC, "foo").rule == rules[3]
    assert authorizer.authorize(BOB, HOST, READ, TOPIC, "foo").rule == rules[1]
    assert authorizer.authorize(ALICE, HOST, READ, TOPIC, "bar").rule == acl("bar", deny=True)
    assert authorizer.authorize(BOB, HOST, WRITE, TOPIC, "foo").rule is StandingRule.DEFAULT_DENY
    assert authorizer.authorize(KafkaPrincipal("User", "root"), HOST, READ, TOPIC, "x").rule is StandingRule.SUPER_USER
    assert knowing(open_by_default=True).authorize(BOB, HOST, READ, TOPIC, "x").rule is StandingRule.DEFAULT_ALLOW


def test_changes_are_applied_as_one_and_leave_the_old_state_alone() -> None:
    (first, second) = numbered([acl(), acl("bar", deny=True)])
    before = StandardAuthorizer().with_acls([first])
    after = before.with_change([first[0]], [second, *numbered([acl("*")])])
    assert (before.acl_count, after.acl_count) == (1, 2)
    assert may(before)
    assert may(after)
    assert not may(after, name="bar")
    assert may(before, name="foo")
    assert after.with_change([second[0]], []).authorize(ALICE, HOST, READ, TOPIC, "bar").allowed


def test_amiss_changes_are_refused() -> None:
    first = numbered([acl()])[0]
    authorizer = StandardAuthorizer().with_acls([first])
    with pytest.raises(ValueError, match="no ACL with id"):
        authorizer.with_change([Uuid(b"x" * 16)], [])
    with pytest.raises(ValueError, match="exists"):
        authorizer.with_change([], [(first[0], acl("other"))])
    with pytest.raises(ValueError, match="there already"):
        authorizer.with_change([], numbered([acl()]))
    with pytest.raises(ValueError, match="LITERAL or PREFIXED"):
        authorizer.with_change([], numbered([acl(pattern_type=PatternType.MATCH)]))


def test_questions_about_filters_are_refused() -> None:
    for operation, resource_type in ((AclOperation.ANY, TOPIC), (ALL, TOPIC), (READ, ResourceType.ANY)):
        with pytest.raises(ValueError, match="filter"):
            knowing().authorize_by_resource_type(ALICE, HOST, operation, resource_type)


def work_of(authorizer: StandardAuthorizer) -> tuple[int, int]:
    """Give how many calls each of the two questions makes, in Python and in C."""
    counts = []
    for ask in (
        lambda: authorizer.authorize(ALICE, HOST, READ, TOPIC, "team-a.orders"),
        lambda: authorizer.authorize_by_resource_type(ALICE, HOST, WRITE, TOPIC),
    ):
        calls = 0

        def count_calls(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count_calls)
        try:
            ask()
        finally:
            sys.setprofile(None)
        counts.append(calls)
    return counts[0], counts[1]


def test_the_work_does_not_grow_with_rules_that_do_not_match() -> None:
    mine = [acl("team-a", pattern_type=PREFIXED), acl("team-a.orders", WRITE), acl("team-a.orders", WRITE, deny=True)]
    others = [
        acl(f"team-{n:04}", (READ, WRITE)[n % 2], principal=f"User:{n}", pattern_type=(PREFIXED, LITERAL)[n % 3 > 0])
        for n in range(5000)
    ]
    few, many = knowing(*mine, *others[:4]), knowing(*mine, *others)
    assert (few.acl_count, many.acl_count) == (7, 5003)
    assert work_of(many) == work_of(few)


@pytest.mark.requirement("A-01", "A-02", "A-03", "A-04", "A-05", "A-07")
@pytest.mark.parametrize("seed", range(30))
def test_thousands_of_random_questions_as_the_naive_twin_answers_them(seed: int) -> None:
    rng = random.Random(seed)
    case = random_case(rng, rng.choice((0, 3, 10, 40, 120)))
    authorizer = case.authorizer()
    for _ in range(150):
        question = random_question(rng)
        assert authorizer.authorize(*question).allowed == naive(case, question), question
        by_type = authorizer.authorize_by_resource_type(*question[:-1])
        assert by_type == naive_by_type(case, question), question


@pytest.mark.parametrize("seed", range(10))
def test_any_sequence_of_changes_gives_what_loading_the_outcome_gives(seed: int) -> None:
    rng = random.Random(seed)
    grown = StandardAuthorizer()
    kept: dict[AclBinding, Uuid] = {}
    for _ in range(60):
        gone = rng.sample(list(kept), min(len(kept), rng.randrange(4)))
        removed = [kept.pop(one) for one in gone]
        new = [one for one in {random_acl(rng): None for _ in range(rng.randrange(5))} if one not in kept]
        added = numbered(new)
        kept.update((one, acl_id) for acl_id, one in added)
        grown = grown.with_change(removed, added)
    loaded = StandardAuthorizer().with_acls((acl_id, one) for one, acl_id in kept.items())
    assert grown == loaded
    assert grown.following(loaded.by_id) == loaded
    one_less = loaded.with_change(list(kept.values())[:1], [])
    assert one_less.following(loaded.by_id, kept.values()) == loaded == loaded.following(loaded.by_id)
    assert loaded.following(one_less.by_id, [*kept.values()][:1] * 2) == one_less
    assert StandardAuthorizer().following(loaded.by_id) == loaded
    assert grown.with_change(kept.values(), []) == StandardAuthorizer()
