"""The audit line of `kafka.authorizer.logger`: one place that writes it, and reads it back.

Refusals are logged at INFO, grants at DEBUG; a check that only lists rights or filters a listing is logged at TRACE
whichever way it goes, and gives nobody anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from barnabas.core.authorizer.standard import AuthorizationResult, StandingRule
from barnabas.model.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.principal import KafkaPrincipal


class AuditLevel(StrEnum):
    """At which level a line is due."""

    INFO = "info"
    DEBUG = "debug"
    TRACE = "trace"


RESOURCE_TYPE_NAMES: Final = {kind: kind.name.title().replace("_", "") for kind in ResourceType}
"""`TRANSACTIONAL_ID` -> `TransactionalId`, as Kafka's lines spell types."""
_RESOURCE_TYPES: Final = {name: kind for kind, name in RESOURCE_TYPE_NAMES.items()}


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A decision as it stands in the log. rule: None in a line of Kafka's older AclAuthorizer.

    forwarded_by: the broker that vouches for the principal (KIP-590); Kafka's own lines never have one.
    """

    principal: KafkaPrincipal
    allowed: bool
    operation: AclOperation
    host: str
    resource_type: ResourceType
    resource_name: str
    request: str
    references: int = 1
    rule: AclBinding | StandingRule | None = None
    pattern_type: PatternType = PatternType.LITERAL
    forwarded_by: KafkaPrincipal | None = None


def level_of(result: AuthorizationResult, *, log_if_allowed: bool = True, log_if_denied: bool = True) -> AuditLevel:
    """Give the level of a decision; the flags are false where nothing is granted or was asked for (A-40)."""
    if result.allowed:
        return AuditLevel.DEBUG if log_if_allowed else AuditLevel.TRACE
    return AuditLevel.INFO if log_if_denied else AuditLevel.TRACE


def format_audit(entry: AuditEntry) -> str:
    """Give the line as Kafka writes it, and behind that who forwarded the request, if anybody did."""
    return (
        f"Principal = {entry.principal} is {'Allowed' if entry.allowed else 'Denied'}"
        f" operation = {entry.operation.name} from host = {entry.host}"
        f" on resource = {RESOURCE_TYPE_NAMES[entry.resource_type]}:{entry.pattern_type.name}:{entry.resource_name}"
        f" for request = {entry.request} with resourceRefCount = {entry.references}"
        + ("" if entry.rule is None else f" based on rule {format_rule(entry.rule)}")
        + ("" if entry.forwarded_by is None else f" forwarded by {entry.forwarded_by}")
    )


def parse_audit(line: str) -> AuditEntry:
    """Give what a line says; text before `Principal = ` is passed over. ValueError when it is no audit line.

    Names may hold anything, the words of the line included: the reading with the longest resource name is taken.
    """
    match = _LINE.search(line)
    if match is None:
        raise ValueError("not an audit line")
    try:
        return AuditEntry(
            KafkaPrincipal.parse(match["principal"]),
            match["result"] == "Allowed",
            _operation(match["operation"]),
            match["host"],
            _RESOURCE_TYPES[match["type"]],
            match["name"],
            match["request"],
            int(match["references"]),
            None if match["rule"] is None else parse_rule(match["rule"]),
            PatternType[match["pattern"]],
            None if match["forwarder"] is None else KafkaPrincipal.parse(match["forwarder"]),
        )
    except KeyError as e:
        raise ValueError(f"not an audit line: {e} is unknown") from None


def format_rule(rule: AclBinding | StandingRule) -> str:
    """Give the rule as Kafka's line names it."""
    if isinstance(rule, StandingRule):
        return rule.value
    return (
        f"MatchingAcl(acl=StandardAcl[resourceType={rule.pattern.resource_type.name}, "
        f"resourceName={rule.pattern.name}, patternType={rule.pattern.pattern_type.name}, "
        f"principal={rule.principal}, host={rule.host}, operation={rule.operation.name}, "
        f"permissionType={rule.permission_type.name}])"
    )


def parse_rule(text: str) -> AclBinding | StandingRule:
    """Give the rule that `format_rule` wrote; ValueError when it is none, KeyError for an unknown name in it."""
    match = _RULE.fullmatch(text)
    if match is None:
        return StandingRule(text)
    pattern = ResourcePattern(ResourceType[match["type"]], match["name"], PatternType[match["pattern"]])
    return AclBinding(
        pattern,
        match["principal"],
        match["host"],
        AclOperation[match["operation"]],
        AclPermissionType[match["permission"]],
    )


def _operation(text: str) -> AclOperation:
    # AclAuthorizer spelled operations as DescribeConfigs where StandardAuthorizer has DESCRIBE_CONFIGS.
    return AclOperation[text if text.isupper() else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).upper()]


_LINE: Final = re.compile(
    r"Principal = (?P<principal>.+?) is (?P<result>Allowed|Denied) [oO]peration = (?P<operation>\w+)"
    r" from host = (?P<host>\S+) on resource = (?P<type>\w+):(?P<pattern>\w+):(?P<name>.*)"
    r" for request = (?P<request>\w+) with resourceRefCount = (?P<references>\d+)"
    r"(?: based on rule (?P<rule>SuperUser|DefaultAllow|DefaultDeny|MatchingAcl\(.*\)))?"
    r"(?: forwarded by (?P<forwarder>.+))?$",
    re.DOTALL,
)
_RULE: Final = re.compile(
    r"MatchingAcl\(acl=StandardAcl\[resourceType=(?P<type>\w+), resourceName=(?P<name>.*),"
    r" patternType=(?P<pattern>\w+),"
    r" principal=(?P<principal>.*), host=(?P<host>\S+), operation=(?P<operation>\w+),"
    r" permissionType=(?P<permission>\w+)\]\)",
    re.DOTALL,
)
