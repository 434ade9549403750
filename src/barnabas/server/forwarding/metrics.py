"""What a broker counts of the requests that it forwards, under Kafka's names (KIP-590, KAFKA-15406).

The meter of the document has a client's id in its name, so there is one for each of the latest clients only.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from barnabas.model.metrics import Histogram, Meter, Metrics, mbean

MAX_CLIENTS: Final = 1_000
_MANAGER: Final = mbean("kafka.server", type="ForwardingManager")


class ForwardingMetrics:
    """The gauges of `kafka.server:type=ForwardingManager`, and the meters by client id."""

    def __init__(self, registry: Metrics) -> None:
        self._registry = registry
        self._by_client: OrderedDict[str, Meter] = OrderedDict()
        self.queue_length = 0
        self._queue_times = Histogram()
        self._remote_times = Histogram()
        registry.gauge(_MANAGER, lambda: self.queue_length, "QueueLength")
        for name, times in (("QueueTimeMs", self._queue_times), ("RemoteTimeMs", self._remote_times)):
            registry.gauge(_MANAGER, lambda t=times: t.attributes()["99thPercentile"], f"{name}.p99")  # type: ignore[misc]
            registry.gauge(_MANAGER, lambda t=times: t.attributes()["999thPercentile"], f"{name}.p999")  # type: ignore[misc]

    def forwarded(self, client_id: str | None) -> None:
        """Count a request that goes to the controller."""
        client = client_id or ""
        meter = self._by_client.pop(client, None) or self._registry.meter(_meter_name(client))
        self._by_client[client] = meter
        meter.mark()
        if len(self._by_client) > MAX_CLIENTS:
            oldest, _ = self._by_client.popitem(last=False)
            self._registry.remove(_meter_name(oldest))

    def answered(self, queue_ms: float, remote_ms: float) -> None:
        """Take in how long a request waited to be sent, and how long the controller took then."""
        self._queue_times.update(queue_ms)
        self._remote_times.update(remote_ms)

    def given_up(self, queue_ms: float) -> None:
        """Take in how long a request waited that was never answered."""
        self._queue_times.update(queue_ms)


def _meter_name(client_id: str) -> str:
    return mbean(
        "kafka.server", type="RequestMetrics", name="NumRequestsForwardingToControllerPerSec", clientId=client_id
    )
