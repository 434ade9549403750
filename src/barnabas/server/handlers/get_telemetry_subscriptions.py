"""GetTelemetrySubscriptions v0: a client asks which of its metrics are wanted, and how often. KIP-714."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.server.router import ALWAYS_ALLOWED, handles
from barnabas.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(GetTelemetrySubscriptionsRequest, authz=ALWAYS_ALLOWED)
def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, ctx: RequestContext
) -> GetTelemetrySubscriptionsResponse:
    """Tell the client what to push, and who it is when it does not know yet."""
    response = ctx.node.client_metrics.subscription(request, ctx)
    response.throttle_time_ms = ctx.throttle_ms
    return response
