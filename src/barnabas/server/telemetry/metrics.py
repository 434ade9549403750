"""What a broker counts of clients' metrics, under Kafka's MBean names (KIP-714)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from barnabas.core.telemetry.instances import Pushes
from barnabas.model.metrics import Bean, Metrics, Rates, Value, mbean
from barnabas.server.telemetry.client_metrics_manager import ClientMetricsManager

CLIENT_METRICS: Final = "client-metrics"


def publish_client_metrics(registry: Metrics, manager: ClientMetricsManager) -> None:
    """Publish how many clients push, and for each how often it came too early and what became of its pushes."""
    instances, clock = manager.instances, registry.clock
    name = mbean("kafka.server", type=CLIENT_METRICS)
    unknown = Rates(clock)
    registry.gauge(name, lambda: len(instances.known(clock.monotonic_ms())), "instance-count")
    registry.gauge(name, lambda: instances.unknown_subscriptions, "unknown-subscription-request-count")
    registry.gauge(
        name,
        lambda: unknown.attributes(instances.unknown_subscriptions, "requests")["OneMinuteRate"],
        "unknown-subscription-request-rate",
    )
    rates: dict[bytes, tuple[Rates, Rates, Rates]] = {}

    def beans() -> Iterator[Bean]:
        known = instances.known(clock.monotonic_ms())
        for gone in rates.keys() - known.keys():
            del rates[gone]
        for instance in list(known.values()):
            theirs = rates.setdefault(instance.id, (Rates(clock), Rates(clock), Rates(clock)))
            yield (
                mbean("kafka.server", type=CLIENT_METRICS, client_instance_id=str(instance.id)),
                _of(instance.pushes, theirs),
            )

    registry.source(mbean("kafka.server", type=CLIENT_METRICS) + ",", beans)


def _of(pushes: Pushes, rates: tuple[Rates, Rates, Rates]) -> Mapping[str, Value]:
    counts = {"throttle": pushes.throttled, "plugin-export": pushes.exported, "plugin-error": pushes.failed}
    found: dict[str, Value] = {}
    for (name, count), rate in zip(counts.items(), rates, strict=True):
        found[f"{name}-count"] = count
        found[f"{name}-rate"] = rate.attributes(count, name)["OneMinuteRate"]
    exported = pushes.exported
    found["plugin-export-time-avg"] = pushes.export_ns / exported / 1e6 if exported else math.nan
    found["plugin-export-time-max"] = pushes.longest_export_ns / 1e6 if exported else math.nan
    return found
