"""What a node counts, under Kafka's MBean names (design D8)."""

from __future__ import annotations

from typing import Final

from barnabas.model.metrics import Histogram, Meter, Metrics, mbean
from barnabas.wire.api_keys import API_KEYS

REQUEST_NAMES: Final = {int(key): row.name for key, row in API_KEYS.items()}


class TopicStats:
    """The meters of one topic, or of all."""

    __slots__ = ("bytes_in", "bytes_out", "messages_in")

    def __init__(self, metrics: Metrics, topic: str | None) -> None:
        tags = {} if topic is None else {"topic": topic}

        def meter(name: str) -> Meter:
            return metrics.meter(mbean("kafka.server", type="BrokerTopicMetrics", name=name, **tags))

        self.bytes_in = meter("BytesInPerSec")
        self.bytes_out = meter("BytesOutPerSec")
        self.messages_in = meter("MessagesInPerSec")


class ServerMetrics:
    """The registry of a node, with quick ways to what is counted on every request."""

    def __init__(self, registry: Metrics) -> None:
        self.registry = registry
        self._topics: dict[str, TopicStats] = {}
        self._requests: dict[tuple[int, int], tuple[Meter, Histogram]] = {}

    def topic(self, name: str) -> TopicStats:
        """Give the meters of a topic."""
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = TopicStats(self.registry, name)
        return found

    def forget_topic(self, name: str) -> None:
        """Drop the meters of a deleted topic."""
        if self._topics.pop(name, None) is not None:
            for meter in ("BytesInPerSec", "BytesOutPerSec", "MessagesInPerSec"):
                self.registry.remove(mbean("kafka.server", type="BrokerTopicMetrics", name=meter, topic=name))

    def publish_totals(self) -> None:
        """Publish the sums over all topics."""
        for name, attribute in (
            ("BytesInPerSec", "bytes_in"),
            ("BytesOutPerSec", "bytes_out"),
            ("MessagesInPerSec", "messages_in"),
        ):
            self.registry.gauge(
                mbean("kafka.server", type="BrokerTopicMetrics", name=name),
                lambda a=attribute: sum(getattr(t, a).count for t in self._topics.values()),  # type: ignore[misc]
                "Count",
            )

    def request(self, api_key: int, version: int, took_ns: int) -> None:
        """Count a request that has been answered, and how long it took."""
        key = (api_key, version)
        found = self._requests.get(key)
        if found is None:
            name = REQUEST_NAMES[int(api_key)]
            found = self._requests[key] = (
                self.registry.meter(
                    mbean(
                        "kafka.network",
                        type="RequestMetrics",
                        name="RequestsPerSec",
                        request=name,
                        version=str(version),
                    )
                ),
                self.registry.histogram(
                    mbean("kafka.network", type="RequestMetrics", name="TotalTimeMs", request=name)
                ),
            )
        found[0].count += 1
        found[1].update(took_ns / 1e6)

    def error(self, request: str, error: str) -> None:
        """Count an answer that carried an error."""
        self.registry.meter(
            mbean("kafka.network", type="RequestMetrics", name="ErrorsPerSec", request=request, error=error)
        ).mark()
