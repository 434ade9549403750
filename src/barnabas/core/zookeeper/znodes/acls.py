"""Rules: a znode a resource pattern, which holds all rules for it, as AclAuthorizer keeps them (KIP-11, KIP-290)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, TypeVar

from immutables import Map

from barnabas.core.metadata.acls import acl_record
from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.replicated import VersionedRecord
from barnabas.core.zookeeper.znodes.znode import Fields, Znode, ZnodeError, json_of
from barnabas.model.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.uuid import Uuid

LITERAL: Final = "/kafka-acl"
EXTENDED: Final = "/kafka-acl-extended"
PREFIXED: Final = f"{EXTENDED}/prefixed"
LITERAL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_CHANGES: Final = "/kafka-acl-extended-changes"
_VERSION: Final = 1


def _kafka_name(member: ResourceType | AclOperation | AclPermissionType) -> str:
    return "".join(word.capitalize() for word in member.name.split("_"))


RESOURCE_TYPES: Final = {_kafka_name(t): t for t in ResourceType if t not in (ResourceType.UNKNOWN, ResourceType.ANY)}
"""The znodes below the roots, by name."""
_OPERATIONS: Final = {_kafka_name(o): o for o in AclOperation if o not in (AclOperation.UNKNOWN, AclOperation.ANY)}
_PERMISSIONS: Final = {_kafka_name(p): p for p in (AclPermissionType.DENY, AclPermissionType.ALLOW)}
_ROOTS: Final = {PatternType.LITERAL: LITERAL, PatternType.PREFIXED: PREFIXED}
M = TypeVar("M", ResourceType, AclOperation, AclPermissionType)


def path(pattern: ResourcePattern) -> str:
    """Give where the rules for a pattern stand."""
    return f"{_ROOTS[pattern.pattern_type]}/{_kafka_name(pattern.resource_type)}/{pattern.name}"


def rules(bindings: Collection[AclBinding]) -> bytes:
    """Give what the znode of a pattern holds; all are rules for that pattern."""
    acls = [
        {
            "principal": b.principal,
            "permissionType": _kafka_name(b.permission_type),
            "host": b.host,
            "operation": _kafka_name(b.operation),
        }
        for b in bindings
    ]
    return json_of({"acls": acls, "version": _VERSION})  # in Kafka's order, here and above


def records(znode: Znode) -> Iterator[VersionedRecord]:
    """Give the records that add the rules of a znode. A rule's id is made of what it says, the same each time."""
    if not znode.data:
        return
    pattern = _pattern_at(znode)
    fields = Fields(znode)
    fields.version(_VERSION)
    for rule in fields.objects("acls"):
        binding = AclBinding(
            pattern,
            _text(znode, rule, "principal"),
            _text(znode, rule, "host"),
            _member(znode, rule, "operation", _OPERATIONS),
            _member(znode, rule, "permissionType", _PERMISSIONS),
        )
        yield acl_record(rule_id(binding), binding)


def rule_id(binding: AclBinding) -> Uuid:
    """Give the id by which a rule that has none in ZooKeeper goes in images."""
    p = binding.pattern
    parts = (
        str(int(p.resource_type)), str(int(p.pattern_type)), p.name, binding.principal, binding.host,
        str(int(binding.operation)), str(int(binding.permission_type)),
    )  # fmt: skip
    return Uuid(sha256("\0".join(parts).encode()).digest()[:16])


def notification(pattern: ResourcePattern) -> tuple[str, bytes]:
    """Give below which znode a change of a pattern's rules is told, and in which words."""
    if pattern.pattern_type is PatternType.LITERAL:
        return LITERAL_CHANGES, f"{pattern.resource_type.name}:{pattern.name}".encode()
    told = {
        "version": _VERSION,
        "resourceType": pattern.resource_type.name,
        "name": pattern.name,
        "patternType": pattern.pattern_type.name,
    }
    return EXTENDED_CHANGES, json_of(told)


def notified(znode: Znode) -> ResourcePattern:
    """Give the pattern whose rules a notification says have changed."""
    try:
        if not znode.path.startswith(f"{EXTENDED_CHANGES}/"):
            kind, _, name = znode.data.decode().partition(":")
            return ResourcePattern(_type_in(kind), name)
        fields = Fields(znode)
        return ResourcePattern(
            _type_in(fields.text("resourceType")), fields.text("name"), PatternType[fields.text("patternType").upper()]
        )
    except (KeyError, UnicodeDecodeError):
        raise ZnodeError(znode.path, "names no resource whose rules have changed") from None


def _type_in(text: str) -> ResourceType:
    # Kafka wrote `Topic` and writes `TOPIC`.
    return RESOURCE_TYPES[text] if text in RESOURCE_TYPES else ResourceType[text.upper()]


def _pattern_at(znode: Znode) -> ResourcePattern:
    for pattern_type, root in _ROOTS.items():
        kind, slash, name = znode.path.removeprefix(f"{root}/").partition("/")
        if slash and kind in RESOURCE_TYPES and znode.path.startswith(f"{root}/"):
            return ResourcePattern(RESOURCE_TYPES[kind], name, pattern_type)
    raise ZnodeError(znode.path, "no resource has such a path")


def _text(znode: Znode, rule: dict[str, Any], key: str) -> str:
    value = rule.get(key)
    if not isinstance(value, str):
        raise ZnodeError(znode.path, f"a rule without '{key}'")
    return value


def _member(znode: Znode, rule: dict[str, Any], key: str, members: Mapping[str, M]) -> M:
    text = _text(znode, rule, key)
    for name, member in members.items():  # Kafka reads them whatever their case
        if text.replace("_", "").lower() == name.lower():
            return member
    raise ZnodeError(znode.path, f"a rule whose '{key}' is {text!r}")


@dataclass(frozen=True, slots=True)
class RulesByPattern:
    """The rules of an image by their pattern, so that a change of one rule looks at those beside it only."""

    by_pattern: Map[ResourcePattern, Map[Uuid, AclBinding]] = field(default_factory=Map)

    def after(self, delta: MetadataDelta) -> tuple[RulesByPattern, frozenset[ResourcePattern]]:
        """Give the rules after a change, and the patterns whose rules differ."""
        found = self.by_pattern
        touched = set()
        for acl_id, binding in delta.acls:
            removed = delta.before.acls.by_id.get(acl_id)
            for one in (removed, binding):
                if one is not None:
                    touched.add(one.pattern)
                    found = found.set(one.pattern, _changed(found.get(one.pattern, Map()), acl_id, binding))
        for pattern in touched:
            if not found[pattern]:
                found = found.delete(pattern)
        return RulesByPattern(found), frozenset(touched)

    def ids_of(self, pattern: ResourcePattern) -> frozenset[Uuid]:
        """Give the ids of the rules for a pattern."""
        return frozenset(self.by_pattern.get(pattern, Map()))

    def of(self, pattern: ResourcePattern) -> list[AclBinding]:
        """Give the rules for a pattern, in the order of their ids."""
        return [binding for _, binding in sorted(self.by_pattern.get(pattern, Map()).items())]


def _changed(rules_of: Map[Uuid, AclBinding], acl_id: Uuid, binding: AclBinding | None) -> Map[Uuid, AclBinding]:
    if binding is not None:
        return rules_of.set(acl_id, binding)
    return rules_of.delete(acl_id) if acl_id in rules_of else rules_of
