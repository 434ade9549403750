"""How long a coordinator's partitions took to load, under Kafka's names."""

from __future__ import annotations

import math
from typing import Any

from barnabas.model.metrics import Metrics
from barnabas.server.coordinators.runtime import ShardState
from barnabas.server.coordinators.shards import Shards


def publish_load_times(registry: Metrics, name: str, shards: Shards[Any, Any]) -> None:
    """Publish the longest and the mean, in ms, NaN without any, as attributes of that MBean.

    Of the partitions that are here now; Kafka's are of those that were loaded in the last half minute.
    """
    registry.gauge(name, lambda: max(_load_times(shards), default=math.nan), "partition-load-time-max")
    registry.gauge(name, lambda: _mean(_load_times(shards)), "partition-load-time-avg")


def _load_times(shards: Shards[Any, Any]) -> list[int]:
    return [shard.load_time_ms for shard in shards.by_partition.values() if shard.state is ShardState.ACTIVE]


def _mean(values: list[int]) -> float:
    return sum(values) / len(values) if values else math.nan
