"""How changes of topics count against a client's `controller_mutation_rate` (KIP-599)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.limits import TakeQuota, no_quota
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


def mutation_quota(ctx: RequestContext, *, strict_from: int) -> TakeQuota:
    """Give what counts the partitions of a request, and notes on `ctx` how long the client must wait.

    strict_from: the version of the API from which a client understands THROTTLING_QUOTA_EXCEEDED, so that what is
    past the quota is refused; older ones are only made to wait.
    """
    quota = ctx.node.quotas.quotas.controller_mutation
    if not quota.enabled:
        return no_quota
    record = quota.record_strictly if ctx.version >= strict_from else quota.record_permissively

    def take(partitions: int) -> None:
        wait_ms = record(ctx.principal.name, ctx.client_id or "", partitions, ctx.node.clock.monotonic_ms())
        ctx.throttle_ms = max(ctx.throttle_ms, wait_ms)
        if wait_ms > 0 and ctx.version >= strict_from:
            raise ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"the controller_mutation_rate of this client is used up: try again in {wait_ms} ms",
            )

    return take
