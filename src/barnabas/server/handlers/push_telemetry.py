"""PushTelemetry v0: a client sends its metrics, for the exporters of the broker. KIP-714."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.server.router import ALWAYS_ALLOWED, handles
from barnabas.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext


@handles(PushTelemetryRequest, authz=ALWAYS_ALLOWED)
def push_telemetry(request: PushTelemetryRequest, ctx: RequestContext) -> PushTelemetryResponse:
    """Take what the client measured."""
    ctx.node.client_metrics.push(request, ctx)
    return PushTelemetryResponse(throttle_time_ms=ctx.throttle_ms)
