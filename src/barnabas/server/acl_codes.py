"""Numbers of the wire as members of the ACL enums; numbers that nobody knows become UNKNOWN, as in Kafka."""

from __future__ import annotations

from typing import TypeVar

from barnabas.model.acl import AclOperation, AclPermissionType, PatternType, ResourceType

E = TypeVar("E", ResourceType, PatternType, AclOperation, AclPermissionType)


def enum_of(enum: type[E], code: int) -> E:
    """Give the member with this number, UNKNOWN when there is none."""
    try:
        return enum(code)
    except ValueError:
        return enum(0)
