"""Replication throttles around a reassignment: which replicas and brokers, set and taken away (KIP-73, KIP-113)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import AlterConfigOp, ConfigChange, ConfigResource, ConfigResourceType
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.messages.list_partition_reassignments import OngoingPartitionReassignment

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"


class Move(NamedTuple):
    """From which brokers to which a partition is copied."""

    sources: frozenset[int]
    destinations: frozenset[int]


def moves(
    ongoing: Mapping[TopicPartition, OngoingPartitionReassignment],
    current: Mapping[TopicPartition, Sequence[int]],
    proposed: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, Move]:
    """Give every move there will be: those on the way, and those of a plan."""
    found = {}
    for partition, move in ongoing.items():
        adding = frozenset(move.adding_replicas)
        found[partition] = Move(frozenset(move.replicas) - adding, adding)
    for partition, brokers in proposed.items():
        sources = found[partition].sources if partition in found else frozenset(current[partition])
        found[partition] = Move(sources, frozenset(brokers) - sources)
    return found


def throttled_replicas(planned: Mapping[TopicPartition, Move]) -> dict[str, tuple[str, str]]:
    """Give by topic the values of both keys that name replicas, leaders' and followers', `partition:broker,...`."""
    leaders: dict[str, set[str]] = {}
    followers: dict[str, set[str]] = {}
    for partition, move in planned.items():
        leaders.setdefault(partition.topic, set()).update(f"{partition.partition}:{b}" for b in move.sources)
        followers.setdefault(partition.topic, set()).update(f"{partition.partition}:{b}" for b in move.destinations)
    return {topic: (",".join(sorted(leaders[topic])), ",".join(sorted(followers[topic]))) for topic in leaders}


async def throttle_moves(admin: Admin, planned: Mapping[TopicPartition, Move], bytes_per_second: int) -> None:
    """Hold these moves to a rate on every broker that takes part."""
    topics = {
        ConfigResource(ConfigResourceType.TOPIC, topic): [
            ConfigChange(LEADER_REPLICAS, AlterConfigOp.SET, leaders),
            ConfigChange(FOLLOWER_REPLICAS, AlterConfigOp.SET, followers),
        ]
        for topic, (leaders, followers) in throttled_replicas(planned).items()
    }
    await _alter(admin, topics)
    brokers = {broker for move in planned.values() for broker in move.sources | move.destinations}
    await _set_on_brokers(admin, brokers, (LEADER_RATE, FOLLOWER_RATE), bytes_per_second)


async def throttle_log_dirs(admin: Admin, brokers: Iterable[int], bytes_per_second: int) -> None:
    """Hold the moves between these brokers' directories to a rate."""
    await _set_on_brokers(admin, brokers, (LOG_DIRS_RATE,), bytes_per_second)


async def clear(admin: Admin, topics: Iterable[str], brokers: Collection[int]) -> None:
    """Take away every replication throttle of these topics and brokers."""
    changes = {
        ConfigResource(ConfigResourceType.TOPIC, topic): _deleted(LEADER_REPLICAS, FOLLOWER_REPLICAS)
        for topic in sorted(set(topics))
    } | {
        ConfigResource(ConfigResourceType.BROKER, str(broker)): _deleted(LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)
        for broker in sorted(brokers)
    }
    await _alter(admin, changes)


def _deleted(*keys: str) -> list[ConfigChange]:
    return [ConfigChange(key, AlterConfigOp.DELETE) for key in keys]


async def _set_on_brokers(admin: Admin, brokers: Iterable[int], keys: Iterable[str], rate: int) -> None:
    changes = [ConfigChange(key, AlterConfigOp.SET, str(rate)) for key in keys]
    await _alter(admin, {ConfigResource(ConfigResourceType.BROKER, str(b)): changes for b in sorted(set(brokers))})


async def _alter(admin: Admin, changes: Mapping[ConfigResource, Sequence[ConfigChange]]) -> None:
    for error in (await admin.incremental_alter_configs(changes)).values():
        if error is not None:
            raise error
