"""What a node counts, under Kafka's MBean names (design D8): quick ways to what is counted on every request."""

from __future__ import annotations

from barnabas.model.metrics import Metrics
from barnabas.server.request_metrics import RequestMetrics
from barnabas.server.topic_metrics import TopicMetrics


class ServerMetrics:
    """See the module. registry: all that the node shows; topics: what a broker's clients write and read; requests: by
    kind."""

    def __init__(self, registry: Metrics) -> None:
        self.registry = registry
        self.topics = TopicMetrics(registry)
        self.requests = RequestMetrics(registry)
