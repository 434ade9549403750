"""The clusters of these tests: a few small nodes of both kinds, quick to notice that one of them is gone.

BARNABAS_MIXED=real makes every node Apache Kafka's and BARNABAS_MIXED=ours every node ours: the first shows that what
the tests demand is what Kafka does, the second tells a fault of the mixture from one of our own.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from tests.peers.kafka_cluster import SMALL_NODE, MixedCluster

SETTINGS: Final = {
    **SMALL_NODE,
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "6000",
    "connection.failed.authentication.delay.ms": "0",
}
WAIT_S: Final = 60
"""How long anything may take that another node does in its own time, on a busy machine."""


def mixed(folder: Path, *, real: Collection[int], **shape: Any) -> MixedCluster:
    """Give a cluster that is not started, with the nodes `real` of Apache Kafka."""
    nodes = {*range(1, 10), *range(101, 110)}
    chosen = {"real": nodes, "ours": set()}.get(os.environ.get("BARNABAS_MIXED", ""), real)
    shape["properties"] = {**SETTINGS, **shape.get("properties", {})}
    log_requests = bool(os.environ.get("BARNABAS_MIXED_REQUESTS"))
    return MixedCluster(folder, real=chosen, log_requests=log_requests, **shape)
