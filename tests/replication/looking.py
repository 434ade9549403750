"""What the tests of replication look at: the replicas inside the nodes, from the outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from barnabas.client.config import ClientConfig
from barnabas.client.producer import Producer
from barnabas.core.metadata.topics import PartitionRegistration
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.replication.partition import Partition
from barnabas.storage.log import Log
from barnabas.testing.local import LocalCluster, LocalNode
from tests.storage.logs import read_all

SETTINGS = {
    "replica.lag.time.max.ms": "30000",
    "replica.fetch.backoff.ms": "200",
    "broker.session.timeout.ms": "30000",
    "broker.heartbeat.interval.ms": "500",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "auto.leader.rebalance.enable": "false",
}


def replica(node: LocalNode, topic: str, partition: int = 0) -> Partition:
    found = node.node.partitions.find(TopicPartition(topic, partition))
    assert found is not None, f"{topic}-{partition} is not on node {node.node_id}"
    return found


def registered(cluster: LocalCluster, topic: str, partition: int = 0) -> PartitionRegistration:
    """Give what the metadata says, as the controller has it."""
    controller = next(n for n in cluster.controllers if n.running)
    found = controller.node.image().topics.partition(topic, partition)
    assert found is not None
    return found


def in_sync(cluster: LocalCluster, topic: str, partition: int = 0) -> set[int]:
    return set(registered(cluster, topic, partition).isr)


def wait(cluster: LocalCluster, true: Callable[[], bool], what: str) -> None:
    cluster.wait_for(true, bool, what)


def send(cluster: LocalCluster, topic: str, values: Sequence[bytes], partition: int = 0, acks: str = "all") -> None:
    """Write records; returns when all are acknowledged."""

    async def produce() -> None:
        config = ClientConfig.from_properties({**cluster.client(), "acks": acks})
        async with Producer(config) as producer:
            for value in values:
                await producer.send(topic, value, partition=partition)
            await producer.flush()

    asyncio.run(produce())


def contents(log: Log) -> list[tuple[int, bytes | None]]:
    return [(r.offset, r.value) for r in read_all(log)]


def all_equal(cluster: LocalCluster, topic: str, partition: int = 0) -> bool:
    """Say whether the replicas that run have the same records, all committed."""
    found = [p for n in cluster.brokers if n.running and (p := _find(n, topic, partition)) is not None]
    ends = {(p.log.log_end_offset, p.log.high_watermark) for p in found}
    if len(ends) != 1 or len(set(ends.pop())) != 1:
        return False
    return all(contents(p.log) == contents(found[0].log) for p in found)


def _find(node: LocalNode, topic: str, partition: int) -> Partition | None:
    return node.node.partitions.find(TopicPartition(topic, partition))
