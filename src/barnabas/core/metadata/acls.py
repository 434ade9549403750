"""ACLs: their image and replay (KIP-801)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from sys import intern
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
    """The rules by id, and the ids by rule: the smallest of a rule that has several, as odd logs may give it."""

    by_id: Map[Uuid, AclBinding] = field(default_factory=Map)
    ids: Map[AclBinding, Uuid] = field(default_factory=Map)


def binding_of(r: AccessControlEntryRecord) -> AclBinding:
    """Give the rule that a record holds."""
    pattern = ResourcePattern(ResourceType(r.resource_type), r.resource_name, PatternType(r.pattern_type))
    # Few principals have many rules: each name is kept once.
    principal, host = intern(r.principal), intern(r.host)
    return AclBinding(pattern, principal, host, AclOperation(r.operation), AclPermissionType(r.permission_type))


class AclRun:
    """Takes records about ACLs, one after the other; `finish` gives the rules after all of them.

    The same outcome as one record after another, but the persistent maps are rebuilt once.
    """

    __slots__ = ("_by_id", "_ids")

    def __init__(self, image: AclsImage) -> None:
        self._by_id = image.by_id.mutate()
        self._ids = image.ids.mutate()

    def add(self, record: AccessControlEntryRecord | RemoveAccessControlEntryRecord) -> None:
        """Take one record; ReplayError when it does not fit, and then the run is as it was."""
        if isinstance(record, AccessControlEntryRecord):
            binding = binding_of(record)
            before = self._by_id.get(record.id)
            if before is not None and before != binding:
                self._remove(record.id, before)
            self._by_id[record.id] = binding
            known = self._ids.get(binding)
            if known is None or record.id < known:
                self._ids[binding] = record.id
            return
        removed = self._by_id.get(record.id)
        if removed is None:
            raise ReplayError(f"the metadata log removes ACL {record.id}, which no earlier record made")
        self._remove(record.id, removed)

    def _remove(self, acl_id: Uuid, binding: AclBinding) -> None:
        del self._by_id[acl_id]
        if self._ids.get(binding) != acl_id:
            return
        del self._ids[binding]
        if len(self._by_id) > len(self._ids):  # some rule has several ids, this one perhaps
            left = self._by_id.finish()
            self._by_id = left.mutate()
            same = [other for other, rule in left.items() if rule == binding]
            if same:
                self._ids[binding] = min(same)

    def binding(self, acl_id: Uuid) -> AclBinding | None:
        """Give the rule with that id as the run has left it so far, None when there is none."""
        return self._by_id.get(acl_id)

    def finish(self) -> AclsImage:
        """Give the rules after the run."""
        return AclsImage(self._by_id.finish(), self._ids.finish())


@replays(AccessControlEntryRecord)
def add_acl(image: AclsImage, r: AccessControlEntryRecord) -> AclsImage:
    """Add a rule."""
    return _after(image, r)


@replays(RemoveAccessControlEntryRecord)
def remove_acl(image: AclsImage, r: RemoveAccessControlEntryRecord) -> AclsImage:
    """Remove the rule with this id."""
    return _after(image, r)


def _after(image: AclsImage, r: AccessControlEntryRecord | RemoveAccessControlEntryRecord) -> AclsImage:
    run = AclRun(image)
    run.add(r)
    return run.finish()


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
