"""Rules in words, in tables, as JSON, and as the commands that make and remove them."""

from __future__ import annotations

import shlex
from typing import Any, Final

from barnabas.cli.acls.flags import operation_text, resource_text
from barnabas.cli.acls.reading import Brought
from barnabas.model.acl import WILDCARD, AclBinding, AclPermissionType, PatternType, ResourceType
from barnabas.model.uuid import Uuid

RESOURCE_FLAGS: Final = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}
"""The flag of each resource that has a name of its own."""


def rule_text(rule: AclBinding) -> str:
    """Give a rule in one line: ALLOW User:alice Read TOPIC orders from *."""
    kind = resource_text(rule.pattern.resource_type)
    what = f"{operation_text(rule.operation)} {kind} {pattern_text(rule)}"
    return f"{rule.permission_type.name} {rule.principal} {what} from {rule.host}"


def pattern_text(rule: AclBinding) -> str:
    """Give the name as far as it reaches: orders, orders (prefix), * (all)."""
    name = rule.pattern.name
    if rule.pattern.pattern_type is PatternType.PREFIXED:
        return f"{name} (prefix)"
    return f"{name} (all)" if name == WILDCARD else name


def brought_text(brought: Brought) -> str:
    """Say what brought a rule: an offset, or a snapshot."""
    return f"snapshot {brought.offset}" if brought.by_snapshot else str(brought.offset)


def rule_facts(rule: AclBinding, acl_id: Uuid | None = None, brought: Brought | None = None) -> dict[str, Any]:
    """Give a rule for programs, with its id and what brought it where these are known."""
    facts: dict[str, Any] = {
        "resource_type": resource_text(rule.pattern.resource_type),
        "name": rule.pattern.name,
        "pattern_type": rule.pattern.pattern_type.name,
        "principal": rule.principal,
        "host": rule.host,
        "operation": operation_text(rule.operation),
        "permission": rule.permission_type.name,
    }
    if acl_id is not None:
        facts["id"] = str(acl_id)
    if brought is not None:
        facts["metadata_offset"] = brought.offset
        facts["by_snapshot"] = brought.by_snapshot
    return facts


def command_line(action: str, rule: AclBinding) -> str:
    """Give the command that adds or removes a rule, but for where the cluster is. action: --add or --remove."""
    who = "allow" if rule.permission_type is AclPermissionType.ALLOW else "deny"
    words = ["barnabas", "acls", action, f"--{who}-principal", rule.principal, f"--{who}-host", rule.host]
    words += ["--operation", operation_text(rule.operation)]
    flag = RESOURCE_FLAGS.get(rule.pattern.resource_type)
    words += ["--cluster"] if flag is None else [flag, rule.pattern.name]
    if rule.pattern.pattern_type is PatternType.PREFIXED:
        words += ["--resource-pattern-type", "prefixed"]
    return shlex.join(words)
