"""What CreateAcls and DeleteAcls make of the rules in one pattern's znode, as AclAuthorizer does (KIP-11, KIP-290).

Rules keep the order in which they stand there, and new ones come last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from barnabas.core.metadata.acl_changes import matches, refused_acl
from barnabas.core.metadata.acls import binding_of
from barnabas.core.zookeeper.values import Create, Delete, Operation, SetData, ZnodeAcl
from barnabas.core.zookeeper.znodes import acls
from barnabas.core.zookeeper.znodes.notifications import ACL_CHANGE
from barnabas.core.zookeeper.znodes.znode import Znode
from barnabas.model.acl import AclBinding, AclBindingFilter, PatternType, ResourcePattern, ResourceType
from barnabas.wire.errors import ApiError, ErrorCode

Rules = tuple[AclBinding, ...]


def rules_in(znode: Znode | None) -> Rules:
    """Give the rules of a pattern; none where there is no znode. ZnodeError when they cannot be read."""
    return () if znode is None else tuple(binding_of(versioned.record) for versioned in acls.records(znode))


def with_rules(found: Rules, wanted: Iterable[AclBinding]) -> Rules:
    """Give the rules and those that are not among them yet."""
    return tuple(dict.fromkeys((*found, *wanted)))


def without_rules(found: Rules, filters: Sequence[AclBindingFilter]) -> Rules:
    """Give the rules that none of the filters matches."""
    return tuple(rule for rule in found if matched_by(rule, filters) is None)


def matched_by(rule: AclBinding, filters: Sequence[AclBindingFilter]) -> int | None:
    """Give which of the filters matches a rule first: in whose answer it stands when it is deleted."""
    return next((at for at, one in enumerate(filters) if matches(one, rule)), None)


def named_pattern(wanted: AclBindingFilter) -> ResourcePattern | None:
    """Give the only pattern that a filter can mean; None when there may be several."""
    if (
        wanted.resource_type in (ResourceType.ANY, ResourceType.UNKNOWN)
        or wanted.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED)
        or not wanted.name
        or "/" in wanted.name
    ):
        return None
    return ResourcePattern(wanted.resource_type, wanted.name, wanted.pattern_type)


def refused_rule(binding: AclBinding) -> ApiError | None:
    """Say why this cannot be a rule in ZooKeeper (INVALID_REQUEST); None when it can."""
    if "/" in binding.pattern.name:
        name = binding.pattern.name
        return ApiError(ErrorCode.INVALID_REQUEST, f"rules are kept in ZooKeeper, and {name!r} has a '/' in it")
    return refused_acl(binding)


def operations(
    pattern: ResourcePattern, was: Znode | None, left: Rules, acls_for: Callable[[str], tuple[ZnodeAcl, ...]]
) -> list[Operation]:
    """Give what to ask of ZooKeeper, in one transaction: it fails when somebody has changed the rules since `was`.

    left: the rules that are to be there. Others hear of it when they differ; the znode is written either way where it
    stays, which shows that what was read is the newest.
    """
    path = acls.path(pattern)
    found: list[Operation] = []
    if left:
        data = acls.rules(left)
        found.append(Create(path, data, acls_for(path)) if was is None else SetData(path, data, was.version))
    elif was is not None:
        found.append(Delete(path, was.version))
    if left != rules_in(was):
        root, told = acls.notification(pattern)
        notification = f"{root}/{ACL_CHANGE}"
        found.append(Create(notification, told, acls_for(notification), sequential=True))
    return found
