"""What the group coordinator has, under Kafka's MBean names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from barnabas.core.groups.classic import ClassicGroupState
from barnabas.core.groups.consumer.group import ConsumerGroupState
from barnabas.model.metrics import Metrics, Rates, mbean
from barnabas.server.coordinators.load_times import publish_load_times
from barnabas.server.coordinators.runtime import ShardState
from barnabas.server.groups.group_coordinator import GroupCoordinator

COORDINATOR_METRICS: Final = "group-coordinator-metrics"


def publish_group_metrics(registry: Metrics, groups: GroupCoordinator) -> None:
    """Publish counts of groups by state, of offsets, and of partitions by how far they are loaded."""

    def gauge(name: str, read: Callable[[], int]) -> None:
        registry.gauge(mbean("kafka.coordinator.group", type="GroupMetadataManager", name=name), read)

    gauge("NumGroups", groups.group_count)
    gauge("NumOffsets", groups.offset_count)
    for state in ClassicGroupState:
        gauge(f"NumGroups{state.value}", lambda s=state: groups.group_count(s))  # type: ignore[misc]
    registry.gauge(
        mbean("kafka.server", type=COORDINATOR_METRICS, protocol="classic"), groups.group_count, "group-count"
    )
    registry.gauge(
        mbean("kafka.server", type=COORDINATOR_METRICS, protocol="consumer"),
        groups.consumer_group_count,
        "group-count",
    )
    counts_by_state: dict[str, Callable[[], int]] = {
        state.value: partial(groups.consumer_group_count, state) for state in ConsumerGroupState
    }
    counts_by_state["Dead"] = lambda: 0  # a group that is gone is not counted, here as in Kafka
    for named, count in counts_by_state.items():
        registry.gauge(mbean("kafka.server", type=COORDINATOR_METRICS, state=named), count, "consumer-group-count")
    name = mbean("kafka.server", type=COORDINATOR_METRICS)
    tally = groups.tally
    counts: dict[str, Callable[[], int]] = {
        "group-completed-rebalance": lambda: tally.rebalances_completed,
        "consumer-group-rebalance": lambda: tally.consumer_rebalances,
        "offset-commit": lambda: tally.offsets_committed,
        "offset-expiration": lambda: tally.offsets_expired,
        "offset-deletion": lambda: tally.offsets_deleted,
    }
    for counted, read in counts.items():
        _count(registry, name, counted, read)
    publish_load_times(registry, name, groups.shards)
    for shard_state in (ShardState.LOADING, ShardState.ACTIVE, ShardState.FAILED):
        registry.gauge(
            mbean("kafka.server", type=COORDINATOR_METRICS, state=shard_state.value),
            lambda s=shard_state: sum(shard.state is s for shard in groups.shards.by_partition.values()),  # type: ignore[misc]
            "num-partitions",
        )


def _count(registry: Metrics, name: str, counted: str, read: Callable[[], int]) -> None:
    """Publish a count, and its rate a second over the last minute."""
    rates = Rates(registry.clock)
    registry.gauge(name, read, f"{counted}-count")
    registry.gauge(name, lambda: rates.attributes(read(), counted)["OneMinuteRate"], f"{counted}-rate")
