"""The exporter that needs nothing else: what clients measure goes to the broker's log."""

from __future__ import annotations

import structlog

from barnabas.core.telemetry.otlp import metrics_of
from barnabas.server.telemetry.exporters import ClientTelemetryExporter, TelemetryContext, TelemetryPayload

log = structlog.get_logger("kafka.telemetry")


class LogExporter(ClientTelemetryExporter):
    """Writes a line for each push, and at DEBUG one for each number in it, to the logger `kafka.telemetry`."""

    def export(self, context: TelemetryContext, payload: TelemetryPayload) -> None:
        """Write what is in the push; ProtocolError when it is not what clients send."""
        metrics = metrics_of(payload.data)
        client = {"client": str(payload.client_instance_id), "client_id": context.client.client_id}
        log.info(
            "a client's metrics",
            **client,
            principal=str(context.principal),
            software=context.client.client_software_name,
            metrics=len(metrics),
            points=sum(len(metric.points) for metric in metrics),
            last=payload.terminating,
        )
        for metric in metrics:
            for point in metric.points:
                log.debug(metric.name, **client, kind=metric.kind, value=point.value, attributes=dict(point.attributes))
