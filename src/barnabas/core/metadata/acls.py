"""ACLs: their image and replay (KIP-801)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from immutables import Map

from barnabas.core.metadata.levels import Levels
from barnabas.core.replicated import ReplayError, VersionedRecord, replays
from barnabas.model.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.uuid import Uuid
from barnabas.wire.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.wire.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord


@dataclass(frozen=True, slots=True)
class AclsImage:
    """The rules by id, and the ids by rule."""

    by_id: Map[Uuid, AclBinding] = field(default_factory=Map)
    ids: Map[AclBinding, Uuid] = field(default_factory=Map)


def binding_of(r: AccessControlEntryRecord) -> AclBinding:
    """Give the rule that a record holds."""
    pattern = ResourcePattern(ResourceType(r.resource_type), r.resource_name, PatternType(r.pattern_type))
    return AclBinding(pattern, r.principal, r.host, AclOperation(r.operation), AclPermissionType(r.permission_type))


@replays(AccessControlEntryRecord)
def add_acl(image: AclsImage, r: AccessControlEntryRecord) -> AclsImage:
    """Add a rule."""
    binding = binding_of(r)
    return AclsImage(image.by_id.set(r.id, binding), image.ids.set(binding, r.id))


@replays(RemoveAccessControlEntryRecord)
def remove_acl(image: AclsImage, r: RemoveAccessControlEntryRecord) -> AclsImage:
    """Remove the rule with this id."""
    binding = image.by_id.get(r.id)
    if binding is None:
        raise ReplayError(f"the metadata log removes ACL {r.id}, which no earlier record made")
    ids = image.ids.delete(binding) if image.ids.get(binding) == r.id else image.ids
    return AclsImage(image.by_id.delete(r.id), ids)


REPLAYS: Final[tuple[Callable[..., Any], ...]] = (add_acl, remove_acl)


def snapshot_records(image: AclsImage, levels: Levels) -> Iterator[VersionedRecord]:
    """Give the records that make the image: one a rule, no removals (A-19)."""
    for acl_id, binding in sorted(image.by_id.items()):
        yield acl_record(acl_id, binding)


def acl_record(acl_id: Uuid, binding: AclBinding) -> VersionedRecord:
    """Give the record that adds a rule."""
    record = AccessControlEntryRecord(
        id=acl_id,
        resource_type=binding.pattern.resource_type,
        resource_name=binding.pattern.name,
        pattern_type=binding.pattern.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission_type,
    )
    return VersionedRecord(record, 0)
