"""What CreateAcls and DeleteAcls decide, and which rules a filter matches (KIP-290, KIP-801)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from barnabas.core.metadata.acls import AclsImage, acl_record
from barnabas.core.metadata.limits import MAX_RECORDS_PER_REQUEST, check_batch
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.model.acl import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.ports import NewUuid
from barnabas.model.uuid import Uuid
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord

RULES_A_STEP: Final = 2_000
"""About a millisecond's worth."""


def create_acls(image: AclsImage, wanted: Sequence[AclBinding], new_uuid: NewUuid) -> Decision[list[ApiError | None]]:
    """Add the rules that are not there yet; the answer says of each, in order, why not. A rule that exists is fine."""
    records: list[VersionedRecord] = []
    results: list[ApiError | None] = []
    made: set[AclBinding] = set()
    taken: set[Uuid] = set()
    for binding in wanted:
        refusal = refused_acl(binding)
        results.append(refusal)
        if refusal is None and binding not in image.ids and binding not in made:
            acl_id = new_uuid()
            while acl_id in image.by_id or acl_id in taken:
                acl_id = new_uuid()
            taken.add(acl_id)
            made.add(binding)
            records.append(acl_record(acl_id, binding))
    return Decision(check_batch(records), results)


def refused_acl(binding: AclBinding) -> ApiError | None:
    """Say why this cannot be a rule (INVALID_REQUEST); None when it can."""
    why = _wrong_resource(binding.pattern) or _wrong_grant(binding)
    return None if why is None else ApiError(ErrorCode.INVALID_REQUEST, why)


def _wrong_resource(pattern: ResourcePattern) -> str | None:
    if pattern.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return f"a rule names one resource type, not {pattern.resource_type.name}"
    if pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        return f"the only CLUSTER resource is {CLUSTER_NAME}, not {pattern.name!r}"
    if not pattern.name:
        return "a rule needs the name of a resource, or * for all"
    if pattern.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"a rule's pattern is LITERAL or PREFIXED, not {pattern.pattern_type.name}"
    return None


def _wrong_grant(binding: AclBinding) -> str | None:
    if binding.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        return f"a rule names one operation, or ALL; not {binding.operation.name}"
    if binding.permission_type not in (AclPermissionType.ALLOW, AclPermissionType.DENY):
        return f"a rule allows or denies; not {binding.permission_type.name}"
    if ":" not in binding.principal:
        return f"{binding.principal!r} is not a principal: want Type:name, for example User:alice"
    return None


FilterResult = list[AclBinding] | ApiError
"""What one filter removed, or why it is refused."""


class AclSearch:
    """Looks for what the filters of one DeleteAcls match, in steps, among the rules of one image.

    found: for each filter in order, the rules that it matches, by id, or why it is refused.
    """

    def __init__(self, image: AclsImage, filters: Sequence[AclBindingFilter]) -> None:
        self.found: list[list[tuple[Uuid, AclBinding]] | ApiError] = []
        self._image = image
        self._filters = filters
        self._all: set[Uuid] = set()

    def steps(self) -> Iterator[None]:
        """Search; after each step somebody else may have a turn. ApiError as soon as the rules are too many (H-20)."""
        for wanted in self._filters:
            refusal = refused_filter(wanted)
            if refusal is not None:
                self.found.append(refusal)
                continue
            rows: list[tuple[Uuid, AclBinding]] = []
            for some in looked_through(self._image, wanted):
                self._count(some)
                rows += some
                yield
            self.found.append(sorted(rows))

    def _count(self, rows: list[tuple[Uuid, AclBinding]]) -> None:
        for acl_id, _ in rows:
            # As in Kafka, which refuses another match of a rule that it has counted already, too.
            if len(self._all) >= MAX_RECORDS_PER_REQUEST:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"more than {MAX_RECORDS_PER_REQUEST} rules match, which one request may not delete; nothing was "
                    "deleted: use narrower filters, one after the other",
                )
            self._all.add(acl_id)


def delete_acls(image: AclsImage, search: AclSearch) -> Decision[list[FilterResult]]:
    """Remove what a search has found and is still there, each rule once; the answer follows the filters' order.

    Rules that came to be since the search began are taken to have come after the deletion.
    """
    results: list[FilterResult] = []
    removed: dict[Uuid, None] = {}
    for found in search.found:
        if isinstance(found, ApiError):
            results.append(found)
            continue
        there = [(acl_id, binding) for acl_id, binding in found if acl_id in image.by_id]
        removed.update((acl_id, None) for acl_id, _ in there)
        results.append([binding for _, binding in there])
    records = (VersionedRecord(RemoveAccessControlEntryRecord(id=acl_id), 0) for acl_id in removed)
    return Decision(tuple(records), results)


def refused_filter(wanted: AclBindingFilter) -> ApiError | None:
    """Say why this cannot be a filter (INVALID_REQUEST): something in it is UNKNOWN; None when it can."""
    for part in (wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission_type):
        if part.name == "UNKNOWN":
            return ApiError(ErrorCode.INVALID_REQUEST, f"the filter has a {type(part).__name__} that is not known")
    return None


def looked_through(image: AclsImage, wanted: AclBindingFilter) -> Iterator[list[tuple[Uuid, AclBinding]]]:
    """Give the rules that the filter matches, in steps: after each somebody else may have a turn.

    A filter that spells one whole rule takes one step, any other looks at all rules.
    """
    one = _spelled_out(wanted)
    if one is not None and len(image.ids) == len(image.by_id):  # else some rule stands there under two ids
        acl_id = image.ids.get(one)
        yield [] if acl_id is None else [(acl_id, one)]
        return
    rows = iter(image.by_id.items())
    while some := list(islice(rows, RULES_A_STEP)):
        yield [row for row in _likely(some, wanted) if matches(wanted, row[1])]


def _likely(rows: list[tuple[Uuid, AclBinding]], wanted: AclBindingFilter) -> list[tuple[Uuid, AclBinding]]:
    """Give the rules that agree with the filter where few do: a glance at each is what that costs."""
    name, principal = wanted.name, wanted.principal
    if name is not None and wanted.pattern_type is not PatternType.MATCH:
        return [row for row in rows if row[1].pattern.name == name]
    if principal is not None:
        return [row for row in rows if row[1].principal == principal]
    return rows


def _spelled_out(wanted: AclBindingFilter) -> AclBinding | None:
    """Give the only rule that the filter can match; None when there may be others."""
    if (
        wanted.resource_type is ResourceType.ANY
        or wanted.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED)
        or wanted.operation is AclOperation.ANY
        or wanted.permission_type is AclPermissionType.ANY
        or wanted.name is None
        or wanted.principal is None
        or wanted.host is None
    ):
        return None
    pattern = ResourcePattern(wanted.resource_type, wanted.name, wanted.pattern_type)
    return AclBinding(pattern, wanted.principal, wanted.host, wanted.operation, wanted.permission_type)


def matches(wanted: AclBindingFilter, binding: AclBinding) -> bool:
    """Say whether the filter matches the rule; the pattern type MATCH means every pattern that covers the name."""
    return (
        _matches_pattern(wanted, binding.pattern)
        and wanted.principal in (None, binding.principal)
        and wanted.host in (None, binding.host)
        and wanted.operation in (AclOperation.ANY, binding.operation)
        and wanted.permission_type in (AclPermissionType.ANY, binding.permission_type)
    )


def _matches_pattern(wanted: AclBindingFilter, pattern: ResourcePattern) -> bool:
    if wanted.resource_type not in (ResourceType.ANY, pattern.resource_type):
        return False
    covering = wanted.pattern_type is PatternType.MATCH
    if not covering and wanted.pattern_type not in (PatternType.ANY, pattern.pattern_type):
        return False
    if wanted.name is None:
        return True
    if not covering:
        return wanted.name == pattern.name
    if pattern.pattern_type is PatternType.LITERAL:
        return pattern.name in (wanted.name, WILDCARD)
    return wanted.name.startswith(pattern.name)
