"""From the flags of `barnabas acls` to rules and filters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from barnabas.cli.errors import CliError
from barnabas.model.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.principal import KafkaPrincipal

E = TypeVar("E", bound=Enum)
_O: Final = AclOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFlags:
    """The flags as they were given."""

    topics: Sequence[str]
    groups: Sequence[str]
    cluster: bool
    transactional_ids: Sequence[str]
    delegation_tokens: Sequence[str]
    users: Sequence[str]
    pattern_type: str
    allow_principals: Sequence[str]
    deny_principals: Sequence[str]
    allow_hosts: Sequence[str]
    deny_hosts: Sequence[str]
    operations: Sequence[str]
    producer: bool
    consumer: bool
    idempotent: bool

    @property
    def resources(self) -> list[tuple[ResourceType, str]]:
        """Give every resource that is named."""
        named = (
            (ResourceType.TOPIC, self.topics),
            (ResourceType.GROUP, self.groups),
            (ResourceType.TRANSACTIONAL_ID, self.transactional_ids),
            (ResourceType.DELEGATION_TOKEN, self.delegation_tokens),
            (ResourceType.USER, self.users),
        )
        found = [(kind, name.strip()) for kind, names in named for name in names]
        return [*found, (ResourceType.CLUSTER, CLUSTER_NAME)] if self.cluster else found


def bindings_to_add(flags: AclFlags) -> list[AclBinding]:
    """Give the rules that --add asks for; CliError when the flags do not make any."""
    pattern_type = member_of(PatternType, flags.pattern_type, "--resource-pattern-type")
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise CliError("--resource-pattern-type: a new rule is literal or prefixed.")
    if not flags.allow_principals and not flags.deny_principals:
        raise CliError("Say for whom: --allow-principal or --deny-principal User:NAME.")
    wanted = _wanted(flags)
    for kind, _, operation in wanted:
        check_operation(kind, operation)
    return [
        AclBinding(ResourcePattern(kind, name, _pattern(kind, pattern_type)), who, host, operation, permission)
        for kind, name, operation in wanted
        for who, host, permission in _who(flags)
    ]


def filters_to_remove(flags: AclFlags) -> list[AclBindingFilter]:
    """Give the filters of what --remove takes away; CliError when they would be everything by accident."""
    if not flags.resources:
        raise CliError("Say from which resource: --topic, --group, --cluster ...")
    return filters_of(flags, listing=False)


def filters_of(flags: AclFlags, *, listing: bool) -> list[AclBindingFilter]:
    """Give the filters that the flags describe. listing: principals and operations do not matter."""
    pattern_type = member_of(PatternType, flags.pattern_type, "--resource-pattern-type")
    resources: list[tuple[ResourceType, str | None]] = [*flags.resources] or [(ResourceType.ANY, None)]
    if listing:
        kind_of = pattern_type if flags.resources else PatternType.ANY
        return [AclBindingFilter(kind, name, _pattern(kind, kind_of)) for kind, name in resources]
    detailed = bool(flags.allow_principals or flags.deny_principals or flags.operations)
    if not detailed and not flags.producer and not flags.consumer:
        return [AclBindingFilter(kind, name, _pattern(kind, pattern_type)) for kind, name in resources]
    who: list[tuple[str | None, str | None, AclPermissionType]] = [*_who(flags)]
    who = who or [(None, None, AclPermissionType.ANY)]
    return [
        AclBindingFilter(kind, name, _pattern(kind, pattern_type), principal, host, operation, permission)
        for kind, name, operation in _wanted(flags)
        for principal, host, permission in who
    ]


def check_operation(kind: ResourceType, operation: AclOperation) -> None:
    """Raise CliError for an operation that nobody does to such a resource."""
    if operation is not AclOperation.ALL and operation not in SUPPORTED_OPERATIONS[kind]:
        allowed = ", ".join(sorted(map(operation_text, SUPPORTED_OPERATIONS[kind])))
        raise CliError(
            f"--operation {operation_text(operation)}: cannot be done to a {resource_text(kind)}; want All, {allowed}."
        )


def _wanted(flags: AclFlags) -> list[tuple[ResourceType, str, AclOperation]]:
    if flags.producer or flags.consumer:
        return _convenient(flags)
    if not flags.resources:
        raise CliError("Say on what: --topic, --group, --cluster, --transactional-id ...")
    operations = [member_of(AclOperation, text, "--operation") for text in flags.operations or ["All"]]
    return [(kind, name, operation) for kind, name in flags.resources for operation in operations]


def _convenient(flags: AclFlags) -> list[tuple[ResourceType, str, AclOperation]]:
    """Give all that --producer and --consumer stand for."""
    if flags.operations:
        raise CliError("--producer and --consumer choose the operations: leave --operation out.")
    if not flags.topics:
        raise CliError("--producer and --consumer need --topic.")
    if flags.consumer and not flags.groups:
        raise CliError("--consumer needs --group.")
    found: dict[tuple[ResourceType, str, AclOperation], None] = {}
    if flags.producer:
        found |= _each(ResourceType.TOPIC, flags.topics, (_O.WRITE, _O.DESCRIBE, _O.CREATE))
        found |= _each(ResourceType.TRANSACTIONAL_ID, flags.transactional_ids, (_O.WRITE, _O.DESCRIBE))
        if flags.idempotent:
            found |= _each(ResourceType.CLUSTER, [CLUSTER_NAME], (_O.IDEMPOTENT_WRITE,))
    if flags.consumer:
        found |= _each(ResourceType.TOPIC, flags.topics, (_O.READ, _O.DESCRIBE))
        found |= _each(ResourceType.GROUP, flags.groups, (_O.READ,))
    return list(found)


def _each(
    kind: ResourceType, names: Iterable[str], operations: Iterable[AclOperation]
) -> dict[tuple[ResourceType, str, AclOperation], None]:
    return {(kind, name.strip(), operation): None for name in names for operation in operations}


def _who(flags: AclFlags) -> list[tuple[str, str, AclPermissionType]]:
    allowed, denied = flags.allow_principals, flags.deny_principals
    if flags.allow_hosts and not allowed:
        raise CliError("--allow-host goes with --allow-principal.")
    if flags.deny_hosts and not denied:
        raise CliError("--deny-host goes with --deny-principal.")
    return [
        (str(principal_from(who)), host.strip(), permission)
        for principals, hosts, permission in (
            (allowed, flags.allow_hosts or [WILDCARD], AclPermissionType.ALLOW),
            (denied, flags.deny_hosts or [WILDCARD], AclPermissionType.DENY),
        )
        for who in principals
        for host in hosts
    ]


_BLANKS: Final = "".join(map(chr, range(0x21)))
"""What Kafka's tools take away around a principal: a name of no-break spaces is one."""


def principal_from(text: str) -> KafkaPrincipal:
    """Give the principal that a flag's text spells, without blanks around it; CliError when it spells none."""
    return exact_principal(text.strip(_BLANKS))


def exact_principal(text: str) -> KafkaPrincipal:
    """Give the principal that a text spells, blanks and all; CliError when it spells none."""
    try:
        return KafkaPrincipal.parse(text)
    except ValueError as e:
        raise CliError(f"{e}.") from None


def _pattern(kind: ResourceType, pattern_type: PatternType) -> PatternType:
    """The cluster has one literal name; a prefix of it makes no sense, yet --producer may ask for both."""
    return (
        PatternType.LITERAL if kind is ResourceType.CLUSTER and pattern_type is PatternType.PREFIXED else pattern_type
    )


def operation_text(operation: AclOperation) -> str:
    """Give an operation as Kafka's tools spell it: DescribeConfigs."""
    return "".join(word.capitalize() for word in operation.name.split("_"))


def resource_text(kind: ResourceType) -> str:
    """Give a resource type as Kafka's tools spell it: TRANSACTIONAL_ID."""
    return kind.name


def member_of(kind: type[E], text: str, flag: str) -> E:
    """Give the member that a flag's text names, in whatever case and with or without dashes; CliError for none."""
    wanted = text.strip().replace("_", "").replace("-", "").lower()
    for member in kind:
        if member.name.replace("_", "").lower() == wanted and member.name != "UNKNOWN":
            return member
    names = ", ".join(m.name.lower() for m in kind if m.name != "UNKNOWN")
    raise CliError(f"{flag} {text!r}: want one of {names}.")
