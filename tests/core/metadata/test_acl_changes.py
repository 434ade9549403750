"""CreateAcls and DeleteAcls: no rule twice, Kafka's codes, filters as KIP-290 means them."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from immutables import Map

from barnabas.core.metadata.acl_changes import RULES_A_STEP, AclSearch, create_acls, delete_acls, matches
from barnabas.core.metadata.acls import AclsImage
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.limits import MAX_RECORDS_PER_REQUEST
from barnabas.core.metadata.runs import replay
from barnabas.model.acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ApiError, ErrorCode
from tests.core.metadata.clusters import Ids
from tests.core.metadata.metadata_records import a_uuid

READ = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "t"), "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW
)


def rules(*bindings: AclBinding) -> AclsImage:
    return replay(MetadataImage.EMPTY, create_acls(AclsImage(), bindings, Ids()).records).acls


def found(image: AclsImage, *filters: AclBindingFilter) -> AclSearch:
    search = AclSearch(image, filters)
    list(search.steps())
    return search


def matching(image: AclsImage, wanted: AclBindingFilter) -> list[tuple[Uuid, AclBinding]]:
    (rows,) = found(image, wanted).found
    assert isinstance(rows, list)
    return rows


@pytest.mark.requirement("A-10")
def test_a_rule_that_exists_is_fine_and_not_written_again() -> None:
    deny = replace(READ, permission_type=AclPermissionType.DENY)
    decision = create_acls(rules(READ), [READ, deny, deny], Ids())
    assert decision.response == [None, None, None]
    assert [r.record.permission_type for r in decision.records] == [AclPermissionType.DENY]
    assert decision.atomic


@pytest.mark.requirement("A-10")
def test_ids_are_never_given_twice() -> None:
    given = iter([a_uuid(1), a_uuid(1), a_uuid(2), a_uuid(1), a_uuid(2), a_uuid(3)])
    write, describe = (replace(READ, operation=o) for o in (AclOperation.WRITE, AclOperation.DESCRIBE))
    decision = create_acls(AclsImage(), [READ, write, describe], lambda: next(given))
    assert [r.record.id for r in decision.records] == [a_uuid(1), a_uuid(2), a_uuid(3)]


@pytest.mark.requirement("A-14")
def test_records_keep_the_order_of_the_request() -> None:
    users = [replace(READ, principal=f"User:{name}") for name in ("z", "a", "m")]
    assert [r.record.principal for r in create_acls(AclsImage(), users, Ids()).records] == [
        "User:z",
        "User:a",
        "User:m",
    ]


@pytest.mark.requirement("A-38")
@pytest.mark.parametrize(
    "wrong",
    [
        replace(READ, pattern=ResourcePattern(ResourceType.ANY, "t")),
        replace(READ, pattern=ResourcePattern(ResourceType.UNKNOWN, "t")),
        replace(READ, pattern=ResourcePattern(ResourceType.TOPIC, "t", PatternType.MATCH)),
        replace(READ, pattern=ResourcePattern(ResourceType.TOPIC, "t", PatternType.ANY)),
        replace(READ, pattern=ResourcePattern(ResourceType.TOPIC, "")),
        replace(READ, pattern=ResourcePattern(ResourceType.CLUSTER, "my-cluster")),
        replace(READ, operation=AclOperation.ANY),
        replace(READ, operation=AclOperation.UNKNOWN),
        replace(READ, permission_type=AclPermissionType.ANY),
        replace(READ, permission_type=AclPermissionType.UNKNOWN),
        replace(READ, principal="alice"),
    ],
)
def test_what_cannot_be_a_rule_is_refused_alone(wrong: AclBinding) -> None:
    decision = create_acls(AclsImage(), [wrong, READ], Ids())
    [error, fine] = decision.response
    assert fine is None
    assert error is not None
    assert error.code is ErrorCode.INVALID_REQUEST
    assert len(decision.records) == 1


PATTERNS = {
    "literal": ResourcePattern(ResourceType.TOPIC, "logs-1"),
    "wildcard": ResourcePattern(ResourceType.TOPIC, "*"),
    "prefix": ResourcePattern(ResourceType.TOPIC, "logs", PatternType.PREFIXED),
    "long prefix": ResourcePattern(ResourceType.TOPIC, "logs-1-x", PatternType.PREFIXED),
    "other type": ResourcePattern(ResourceType.GROUP, "logs-1"),
}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclBindingFilter(), set(PATTERNS)),
        (AclBindingFilter(resource_type=ResourceType.GROUP), {"other type"}),
        (AclBindingFilter(name="logs-1"), {"literal", "other type"}),
        (AclBindingFilter(name="logs-1", pattern_type=PatternType.LITERAL), {"literal", "other type"}),
        (AclBindingFilter(name="logs", pattern_type=PatternType.PREFIXED), {"prefix"}),
        (AclBindingFilter(pattern_type=PatternType.PREFIXED), {"prefix", "long prefix"}),
        (
            AclBindingFilter(name="logs-1", pattern_type=PatternType.MATCH, resource_type=ResourceType.TOPIC),
            {"literal", "wildcard", "prefix"},
        ),
        (AclBindingFilter(pattern_type=PatternType.MATCH), set(PATTERNS)),
        (AclBindingFilter(principal="User:bob"), set()),
        (AclBindingFilter(host="10.0.0.1"), set()),
        (AclBindingFilter(operation=AclOperation.WRITE), set()),
        (AclBindingFilter(permission_type=AclPermissionType.DENY), set()),
        (AclBindingFilter(principal="User:alice", host="*", operation=AclOperation.READ), set(PATTERNS)),
    ],
)
def test_filters_find_the_rules_that_kafka_finds(wanted: AclBindingFilter, found: set[str]) -> None:
    bindings = {name: replace(READ, pattern=pattern) for name, pattern in PATTERNS.items()}
    assert {name for name, binding in bindings.items() if matches(wanted, binding)} == found
    others = [replace(READ, principal="User:other", host="10.0.0.9", pattern=ResourcePattern(ResourceType.USER, "x"))]
    image = rules(*bindings.values(), *others)
    listed = [binding for _, binding in matching(image, wanted)]
    assert {name for name, binding in bindings.items() if binding in listed} == found
    assert len(listed) == len(found) + matches(wanted, others[0])


def test_a_filter_that_spells_one_rule_finds_it_at_once_and_under_every_id() -> None:
    stored = [replace(READ, pattern=p, host=host) for p in PATTERNS.values() for host in ("*", "10.0.0.1")]
    once = rules(*stored)
    twice = replace(once, by_id=once.by_id.set(a_uuid(999), stored[0]))
    for image in (once, twice):
        for one in (*stored, replace(READ, principal="User:bob")):
            found = matching(image, one.as_filter)
            assert found == sorted(row for row in image.by_id.items() if matches(one.as_filter, row[1]))
            assert len(found) == (one in stored) + (image is twice and one == stored[0])


def test_every_filter_answers_for_itself_but_removes_once() -> None:
    image = rules(READ, replace(READ, principal="User:bob"))
    unknown = AclBindingFilter(operation=AclOperation.UNKNOWN)
    decision = delete_acls(image, found(image, AclBindingFilter(principal="User:alice"), unknown, AclBindingFilter()))
    one, refused, all_of_them = decision.response
    assert one == [READ]
    assert isinstance(refused, ApiError)
    assert refused.code is ErrorCode.INVALID_REQUEST
    assert isinstance(all_of_them, list)
    assert len(all_of_them) == 2
    assert len(decision.records) == 2


def test_what_happened_during_the_search_is_left_as_it_is() -> None:
    ids = Ids()
    image = replay(
        MetadataImage.EMPTY, create_acls(AclsImage(), [READ, replace(READ, principal="User:bob")], ids).records
    ).acls
    search = found(image, AclBindingFilter())
    gone = delete_acls(image, found(image, READ.as_filter)).records
    since = create_acls(image, [replace(READ, principal="User:carol")], ids).records
    later = replay(replace(MetadataImage.EMPTY, acls=image), [*gone, *since]).acls
    decision = delete_acls(later, search)
    assert decision.response == [[replace(READ, principal="User:bob")]]
    assert [b.principal for b in replay(replace(MetadataImage.EMPTY, acls=later), decision.records).acls.ids] == [
        "User:carol"
    ]


@pytest.mark.requirement("H-20")
def test_too_many_deletions_are_refused_whole() -> None:
    image = AclsImage()
    for n in range(4):
        bindings = [replace(READ, principal=f"User:{n}-{i}") for i in range(2_501)]
        ids = iter(range(n * 10_000, n * 10_000 + 10_000))
        records = create_acls(image, bindings, lambda ids=ids: a_uuid(next(ids))).records  # type: ignore[misc]
        image = replay(replace(MetadataImage.EMPTY, acls=image), records).acls
    one = AclBindingFilter(principal="User:0-0")
    most = [replace(READ, principal=f"User:{n}-{i}").as_filter for n in range(4) for i in range(2_500)]
    for too_many in ([AclBindingFilter()], [*most, one]):
        with pytest.raises(ApiError, match="10000") as refused:
            found(image, *too_many)
        assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert len(delete_acls(image, found(image, *most)).records) == len(most)
    assert len(delete_acls(image, found(image, one, one)).records) == 1


@pytest.mark.requirement("H-20")
def test_a_search_ends_where_the_rules_are_too_many() -> None:
    ids = (a_uuid(n) for n in count())
    bindings = [replace(READ, host=f"10.{n // 10_000}.0.{n}") for n in range(2 * MAX_RECORDS_PER_REQUEST)]
    image = AclsImage(Map(zip(ids, bindings, strict=False)))
    steps = AclSearch(image, [AclBindingFilter()]).steps()
    for _ in range(MAX_RECORDS_PER_REQUEST // RULES_A_STEP):
        next(steps)
    with pytest.raises(ApiError, match="10000"):
        next(steps)
