"""Removing more rules than one request may: the nodes refuse such a request as a whole (KIP-801), so it is divided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barnabas.client.admin import Admin
from barnabas.model.acl import AclBinding, AclBindingFilter
from barnabas.wire.errors import ApiError, ErrorCode

MOST_AT_A_TIME: Final = 10_000
"""How many rules one request may remove, at Apache Kafka's controllers and ours."""
_A_PART: Final = 1_000


async def remove(admin: Admin, filters: Sequence[AclBindingFilter]) -> list[AclBinding]:
    """Remove every rule that a filter matches, in one request or, when they are too many, in parts; gives them.

    ApiError when the nodes refuse it; what parts before have removed stays removed then.
    """
    try:
        return await admin.delete_acls(filters)
    except ApiError as e:
        if e.code is not ErrorCode.INVALID_REQUEST:
            raise
        found = list(dict.fromkeys([rule for one in filters for rule in await admin.describe_acls(one)]))
        if len(found) <= MOST_AT_A_TIME:
            raise
    removed = []
    for begin in range(0, len(found), _A_PART):
        removed += await admin.delete_acls([rule.as_filter for rule in found[begin : begin + _A_PART]])
    return removed
