"""Where clients' metrics go: plug-ins in Python, named by `barnabas.client.telemetry.exporters` (KIP-714).

Kafka finds its exporters among `metric.reporters`, whose classes are Java's; so this key is our own. Without one,
brokers do not offer to take metrics, as Kafka's do. A plug-in is a class without arguments, named as
`package.module:Class` or by an entry point in the group `barnabas.telemetry`::

    from barnabas.server.telemetry.exporters import ClientTelemetryExporter, TelemetryContext, TelemetryPayload

    class ToFile(ClientTelemetryExporter):
        def configure(self, configs):
            self.file = open(configs["to.file.path"], "ab")

        def export(self, context: TelemetryContext, payload: TelemetryPayload) -> None:
            self.file.write(payload.data)

It is called in the broker's own loop, and must answer at once; what it raises the client is told as INVALID_RECORD.
One is here to use: `barnabas.server.telemetry.log_exporter:LogExporter`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import isabstract
from typing import Any, Final

from barnabas.core.telemetry.subscriptions import ClientAttributes
from barnabas.model.config import ConfigError
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.uuid import Uuid
from barnabas.server.config import NodeConfig
from barnabas.server.plugins import load

EXPORTERS: Final = "barnabas.client.telemetry.exporters"
ENTRY_POINTS: Final = "barnabas.telemetry"
OTLP: Final = "OTLP"


@dataclass(frozen=True, slots=True)
class TelemetryContext:
    """Who pushes, and how often it is to."""

    client: ClientAttributes
    principal: KafkaPrincipal
    push_interval_ms: int


@dataclass(frozen=True, slots=True)
class TelemetryPayload:
    """What was pushed. terminating: the client is about to end; data: OpenTelemetry's `MetricsData`, decompressed."""

    client_instance_id: Uuid
    terminating: bool
    data: bytes
    content_type: str = OTLP


class _Plugin:
    def configure(self, configs: Mapping[str, Any]) -> None:
        """Take the node's properties, as they stand in its file; called once, before anything is exported."""

    def close(self) -> None:
        """Let go of what it holds; called once, when the node stops."""


class ClientTelemetryExporter(_Plugin, ABC):
    """Takes what clients push; it need not override `configure` and `close`."""

    @abstractmethod
    def export(self, context: TelemetryContext, payload: TelemetryPayload) -> None:
        """Take one push."""


def load_exporters(config: NodeConfig) -> tuple[ClientTelemetryExporter, ...]:
    """Make and configure the exporters that the node's file names; ConfigError when one cannot be had."""
    made = []
    for name in config[EXPORTERS]:
        found = load(EXPORTERS, name, ENTRY_POINTS)
        if not (isinstance(found, type) and issubclass(found, ClientTelemetryExporter)):
            raise ConfigError(f"{EXPORTERS}: {name} is not a ClientTelemetryExporter; derive it from {__name__}'s")
        if isabstract(found):
            raise ConfigError(f"{EXPORTERS}: {name} has no method export(context, payload)")
        exporter = found()
        exporter.configure(config.originals)
        made.append(exporter)
    return tuple(made)
