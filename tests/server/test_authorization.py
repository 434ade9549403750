"""One request's decisions and its audit trail."""

from __future__ import annotations

import logging

import pytest

from barnabas.core.authorizer.audit import AuditEntry, parse_audit
from barnabas.core.authorizer.standard import StandardAuthorizer
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
from barnabas.server.authorization import AUDIT_LOGGER, TRACE, Authz

ALICE = KafkaPrincipal("User", "alice")
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, DESCRIBE, WRITE = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.WRITE
RULE = AclBinding(ResourcePattern(TOPIC, "t", PatternType.PREFIXED), "User:alice", "*", READ, AclPermissionType.ALLOW)
AUTHORIZER = StandardAuthorizer().with_acls([(Uuid(bytes(16)), RULE)])


def authz(authorizer: StandardAuthorizer | None = AUTHORIZER) -> Authz:
    return Authz(authorizer, ALICE, "10.0.0.1", "Fetch")


@pytest.fixture
def trail(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(TRACE, AUDIT_LOGGER)
    return caplog


def lines(trail: pytest.LogCaptureFixture) -> list[tuple[int, AuditEntry]]:
    found = [(r.levelno, parse_audit(r.getMessage())) for r in trail.records if r.name == AUDIT_LOGGER]
    trail.clear()
    return found


def test_without_an_authorizer_everybody_may_and_nothing_is_written(trail: pytest.LogCaptureFixture) -> None:
    free = authz(None)
    assert not free.decided
    assert free.authorize(WRITE, TOPIC, "x")
    assert free.decided
    assert free.authorize_many(READ, TOPIC, ["a", "b", "a"]) == {"a", "b"}
    assert free.authorize_any(WRITE, TOPIC)
    assert free.authorized_operations(GROUP, "g") == 1 << 3 | 1 << 8 | 1 << 6 | 1 << 10 | 1 << 11
    assert lines(trail) == []


@pytest.mark.requirement("A-40")
def test_refusals_are_told_at_info_and_grants_at_debug(trail: pytest.LogCaptureFixture) -> None:
    asked = authz()
    assert asked.authorize(READ, TOPIC, "t1")
    assert not asked.authorize(WRITE, TOPIC, "t1")
    (granted, refused) = lines(trail)
    assert granted == (logging.DEBUG, AuditEntry(ALICE, True, READ, "10.0.0.1", TOPIC, "t1", "Fetch", 1, RULE))
    assert (refused[0], refused[1].allowed, refused[1].operation) == (logging.INFO, False, WRITE)


@pytest.mark.requirement("A-40", "H-16")
def test_what_only_lists_rights_is_told_at_trace(trail: pytest.LogCaptureFixture) -> None:
    asked = authz()
    assert asked.authorized_operations(TOPIC, "t1") == 1 << READ | 1 << DESCRIBE
    assert {level for level, _ in lines(trail)} == {TRACE}
    asked.authorize(READ, TOPIC, "t1", audit=False)
    asked.authorize(WRITE, TOPIC, "t1", audit_denied=False)
    asked.authorize(READ, TOPIC, "t1", audit_denied=False)
    assert [level for level, _ in lines(trail)] == [TRACE, TRACE, logging.DEBUG]


def test_names_are_asked_once_and_counted(trail: pytest.LogCaptureFixture) -> None:
    assert authz().authorize_many(READ, TOPIC, ["t1", "x", "t1"]) == {"t1"}
    assert [(entry.resource_name, entry.references) for _, entry in lines(trail)] == [("t1", 2), ("x", 1)]
    asked = authz()
    assert asked.authorize_many(READ, TOPIC, []) == set()
    assert asked.decided


def test_the_question_for_any_resource_leaves_kafkas_one_line(trail: pytest.LogCaptureFixture) -> None:
    assert authz().authorize_any(READ, TOPIC)
    assert not authz().authorize_any(WRITE, TOPIC)
    told = [(level, entry.resource_name, entry.references) for level, entry in lines(trail)]
    assert told == [(TRACE, "hardcode", 0)] * 2


def test_nothing_is_formatted_that_nobody_reads(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, AUDIT_LOGGER)
    assert not authz().authorize(WRITE, TOPIC, "t1")
    assert caplog.records == []
