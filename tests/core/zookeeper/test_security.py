"""ACLs by path, as peers of Kafka 3.9 store them."""

from __future__ import annotations

import re

import pytest

from barnabas.core.zookeeper.paths import ZNODES, ZnodeKind
from barnabas.core.zookeeper.security import (
    CREATOR,
    acls_for,
    holders,
    is_open,
    is_super,
    may_administer,
    same,
)
from barnabas.core.zookeeper.values import OPEN_ACLS, READABLE, Permission, ZnodeAcl, ZnodeId

KAFKA = ZnodeId("sasl", "kafka")
TOOL = ZnodeId("sasl", "tool")
ALL_KAFKA = ZnodeAcl(Permission.ALL, "sasl", "kafka")
ALL_TOOL = ZnodeAcl(Permission.ALL, "sasl", "tool")


@pytest.mark.parametrize("path", ["/", "/brokers/ids/1", "/controller", "/config/topics/users", "/delegation_token"])
def test_secured_znodes_are_the_owners_and_readable(path: str) -> None:
    assert acls_for(path, secure=True, owners=(KAFKA,)) == (ALL_KAFKA, READABLE)


@pytest.mark.parametrize(
    "path", ["/config/users", "/config/users/u", "/config/brokers/1", "/delegation_token/tokens/t"]
)
def test_secrets_are_the_owners_alone(path: str) -> None:
    assert acls_for(path, secure=True, owners=(KAFKA,)) == (ALL_KAFKA,)


@pytest.mark.requirement("Z-05", "Z-06")
@pytest.mark.parametrize("kind", [kind for kind in ZNODES if kind.covered], ids=lambda kind: str(kind.pattern))
def test_nothing_that_is_covered_is_open(kind: ZnodeKind) -> None:
    path = re.sub("<[a-z]+>", "7", kind.pattern)
    wanted = (ALL_KAFKA,) if kind.secret else (ALL_KAFKA, READABLE)
    assert acls_for(path, secure=True, owners=(KAFKA,)) == wanted


def test_whoever_makes_it_owns_it_unless_others_are_named() -> None:
    (first, _) = acls_for("/admin", secure=True)
    assert first.who == CREATOR


def test_more_owners_have_the_same_rights_each_once() -> None:
    assert acls_for("/admin", secure=True, owners=(KAFKA, TOOL, KAFKA)) == (ALL_KAFKA, ALL_TOOL, READABLE)


def test_open_is_open_everywhere_and_consumers_either_way() -> None:
    assert acls_for("/config/users/u", secure=False, owners=(KAFKA,)) == OPEN_ACLS
    assert acls_for("/consumers", secure=True, owners=(KAFKA,)) == OPEN_ACLS


def test_order_means_nothing() -> None:
    assert same((ALL_KAFKA, READABLE), (READABLE, ALL_KAFKA))
    assert not same((ALL_KAFKA, READABLE), (ALL_KAFKA,))
    assert not same((ALL_KAFKA,), (ALL_TOOL,))


def test_open_is_what_anybody_may_change() -> None:
    assert is_open(OPEN_ACLS)
    assert is_open((ALL_KAFKA, ZnodeAcl(Permission.CREATE, "world", "anyone")))
    assert not is_open((ALL_KAFKA, READABLE))


def test_holders_are_named_and_may_do_more_than_read() -> None:
    reader = ZnodeAcl(Permission.READ, "sasl", "monitor")
    assert holders((ALL_KAFKA, READABLE, reader)) == {KAFKA}
    assert holders(OPEN_ACLS) == set()


def test_who_may_change_an_acl() -> None:
    assert may_administer([], OPEN_ACLS)
    assert may_administer([KAFKA], (ALL_KAFKA, READABLE))
    assert not may_administer([TOOL], (ALL_KAFKA, READABLE))
    assert not may_administer([TOOL], (ZnodeAcl(Permission.WRITE, "sasl", "tool"),))
    assert may_administer([ZnodeId("sasl", "super")], (ALL_KAFKA,))
    by_key = ZnodeAcl(Permission.ALL, "x509", "CN=broker")
    assert not may_administer([ZnodeId("sasl", "super")], (by_key, READABLE))
    assert may_administer([ZnodeId("super", "")], (by_key, READABLE))


def test_who_is_super() -> None:
    assert is_super(ZnodeId("super", ""))
    assert is_super(ZnodeId("sasl", "super"))
    assert not is_super(KAFKA)
