"""The audit line, there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.authorizer.audit import AuditEntry, AuditLevel, format_audit, level_of, parse_audit
from barnabas.core.authorizer.standard import StandardAuthorizer, StandingRule
from barnabas.model.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.principal import KafkaPrincipal

RULE = AclBinding(
    ResourcePattern(ResourceType.TRANSACTIONAL_ID, "t", PatternType.PREFIXED),
    "User:CN=a, O=b",
    "*",
    AclOperation.DESCRIBE_CONFIGS,
    AclPermissionType.DENY,
)
ENTRY = AuditEntry(
    KafkaPrincipal("User", "CN=a, O=b"),
    False,
    AclOperation.DESCRIBE_CONFIGS,
    "10.0.0.1",
    ResourceType.TRANSACTIONAL_ID,
    "tx-1",
    "DescribeConfigs",
    2,
    RULE,
)
LINE = (
    "Principal = User:CN=a, O=b is Denied operation = DESCRIBE_CONFIGS from host = 10.0.0.1"
    " on resource = TransactionalId:LITERAL:tx-1 for request = DescribeConfigs with resourceRefCount = 2"
    " based on rule MatchingAcl(acl=StandardAcl[resourceType=TRANSACTIONAL_ID, resourceName=t, patternType=PREFIXED,"
    " principal=User:CN=a, O=b, host=*, operation=DESCRIBE_CONFIGS, permissionType=DENY])"
)


@pytest.mark.requirement("A-40")
def test_the_line_is_kafkas() -> None:
    assert format_audit(ENTRY) == LINE
    assert parse_audit(LINE) == ENTRY


def test_what_a_logger_puts_before_it_is_passed_over() -> None:
    assert (
        parse_audit(f"[2026-01-01 00:00:00,000] INFO {LINE} (kafka.authorizer.logger)".partition(" (kafka")[0]) == ENTRY
    )


def test_lines_of_aclauthorizer_are_read_too() -> None:
    line = (
        "Principal = User:alice is Allowed Operation = DescribeConfigs from host = 10.0.0.1"
        " on resource = Topic:LITERAL:foo for request = DescribeConfigs with resourceRefCount = 1"
    )
    entry = parse_audit(line)
    assert (entry.operation, entry.rule, entry.allowed) == (AclOperation.DESCRIBE_CONFIGS, None, True)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Principal = User:alice is Denied",
        LINE.replace("TransactionalId", "Nothing"),
        LINE.replace("User:CN", "CN"),
        LINE.replace("permissionType=DENY", "permissionType=MAYBE"),
        LINE.replace("operation = DESCRIBE", "operation = X"),
    ],
)
def test_other_lines_are_refused(line: str) -> None:
    with pytest.raises(ValueError):
        parse_audit(line)


_NAMES = st.text(st.characters(codec="utf-8"), min_size=1)
_RULES = st.builds(
    AclBinding,
    st.builds(
        ResourcePattern,
        st.sampled_from(list(ResourceType)[2:]),
        _NAMES,
        st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    ),
    _NAMES.map("User:{}".format),
    st.sampled_from(("*", "10.0.0.1", "0:0:0:0:0:0:0:1")),
    st.sampled_from(list(AclOperation)[2:]),
    st.sampled_from((AclPermissionType.ALLOW, AclPermissionType.DENY)),
)
_ENTRIES = st.builds(
    AuditEntry,
    st.builds(KafkaPrincipal, st.just("User"), _NAMES.filter(lambda name: " is " not in name)),
    st.booleans(),
    st.sampled_from(list(AclOperation)[2:]),
    st.sampled_from(("10.0.0.1", "0:0:0:0:0:0:0:1%eth0")),
    st.sampled_from(list(ResourceType)[2:]),
    _NAMES,
    st.sampled_from(("Fetch", "CreateTopics")),
    st.integers(0, 1000),
    st.one_of(st.none(), st.sampled_from(StandingRule), _RULES),
)


@given(_ENTRIES)
def test_every_entry_comes_back(entry: AuditEntry) -> None:
    assert parse_audit(format_audit(entry)) == entry


@pytest.mark.requirement("A-40", "H-16")
def test_levels() -> None:
    refused = StandardAuthorizer().authorize(
        KafkaPrincipal("User", "a"), "h", AclOperation.READ, ResourceType.TOPIC, "t"
    )
    granted = StandardAuthorizer(frozenset({"User:a"})).authorize(
        KafkaPrincipal("User", "a"), "h", AclOperation.READ, ResourceType.TOPIC, "t"
    )
    assert level_of(refused) is AuditLevel.INFO
    assert level_of(granted) is AuditLevel.DEBUG
    assert level_of(refused, log_if_denied=False) is AuditLevel.TRACE
    assert level_of(granted, log_if_allowed=False) is AuditLevel.TRACE
