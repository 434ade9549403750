"""A broker's side of clients' metrics (KIP-714): subscriptions from the metadata, requests in, pushes to exporters."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING

import structlog

from barnabas.core.metadata.configs import ConfigResourceType
from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.telemetry.instances import ClientInstance, ClientInstances
from barnabas.core.telemetry.subscriptions import ClientAttributes, Subscription
from barnabas.model.config import ConfigError
from barnabas.model.ports import Clock, NewUuid
from barnabas.server.telemetry.exporters import ClientTelemetryExporter, TelemetryContext, TelemetryPayload
from barnabas.wire.compression import Compression, decompress
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from barnabas.wire.messages.push_telemetry import PushTelemetryRequest

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

log = structlog.get_logger("kafka.server.ClientMetricsManager")


class ClientMetricsManager:
    """See the module. A publisher of the metadata, too."""

    def __init__(
        self, exporters: Sequence[ClientTelemetryExporter], max_bytes: int, clock: Clock, new_uuid: NewUuid
    ) -> None:
        """max_bytes: the largest push, as it comes and decompressed."""
        self._exporters = exporters
        self._max_bytes = max_bytes
        self._clock = clock
        self.instances = ClientInstances(new_uuid, max_bytes)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take up the subscriptions of a delta."""
        for resource in delta.configs:
            if resource.type is ConfigResourceType.CLIENT_METRICS:
                self._subscribe(resource.name, dict(image.configs.get(resource)))

    def _subscribe(self, name: str, configs: dict[str, str]) -> None:
        try:
            self.instances.subscribe(name, Subscription.of(configs) if configs else None)
        except (ConfigError, ApiError) as e:
            log.error("a subscription to clients' metrics cannot be used, what it was before stays", name=name, why=e)

    def subscription(
        self, request: GetTelemetrySubscriptionsRequest, ctx: RequestContext
    ) -> GetTelemetrySubscriptionsResponse:
        """Tell a client what to push; ApiError when it asks too early."""
        now_ms = self._clock.monotonic_ms()
        return self.instances.subscription_of(request.client_instance_id, _attributes(ctx), ctx.connection.id, now_ms)

    def push(self, request: PushTelemetryRequest, ctx: RequestContext) -> None:
        """Hand a push to the exporters; ApiError when it cannot be taken."""
        instance = self.instances.admit(request, _attributes(ctx), ctx.connection.id, self._clock.monotonic_ms())
        if not request.metrics:
            return
        began_ns = perf_counter_ns()
        try:
            self._export(request, instance, ctx)
        except Exception as e:
            instance.pushes.failed += 1
            instance.last_error = ErrorCode.INVALID_RECORD
            log.exception("a client's metrics could not be exported", client=str(instance.id))
            raise ApiError(ErrorCode.INVALID_RECORD) from e
        took_ns = perf_counter_ns() - began_ns
        pushes = instance.pushes
        pushes.exported += 1
        pushes.export_ns += took_ns
        pushes.longest_export_ns = max(pushes.longest_export_ns, took_ns)

    def _export(self, request: PushTelemetryRequest, instance: ClientInstance, ctx: RequestContext) -> None:
        data = decompress(Compression(request.compression_type), request.metrics, self._max_bytes)
        payload = TelemetryPayload(instance.id, request.terminating, data)
        context = TelemetryContext(instance.attributes, ctx.principal, instance.push_interval_ms)
        for exporter in self._exporters:
            exporter.export(context, payload)

    def connection_ended(self, connection: str) -> None:
        """Forget the client that came by a connection."""
        self.instances.connection_ended(connection)

    def close(self) -> None:
        """Close the exporters."""
        for exporter in self._exporters:
            exporter.close()


def _attributes(ctx: RequestContext) -> ClientAttributes:
    client = ctx.connection
    return ClientAttributes(
        client_instance_id="",  # the id comes with the request, or is made for it
        client_id=ctx.client_id,
        client_software_name=client.software_name or None,
        client_software_version=client.software_version or None,
        client_source_address=client.host,
        client_source_port=str(client.port),
    )
