"""Whether this cluster has groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

GROUP_VERSION: Final = "group.version"
PROTOCOLS: Final = "group.coordinator.rebalance.protocols"


def require_consumer_protocol(ctx: RequestContext) -> None:
    """Raise UNSUPPORTED_VERSION unless the feature is finalized and the broker's settings have the protocol."""
    if ctx.node.finalized_features().get(GROUP_VERSION, 0) < 1 or "consumer" not in ctx.node.config[PROTOCOLS]:
        ctx.authz.decided = True
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
