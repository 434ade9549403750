"""Real brokers of Apache Kafka that speak as those of 2.6 do, under a controller of ours.

They write the ISRs of what they lead themselves, and what tools ask for goes by znodes.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from barnabas.core.metadata.partition import PartitionRegistration
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.core.zookeeper.znodes import topics
from barnabas.core.zookeeper.znodes.admin import ELECTIONS, REASSIGNMENTS
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.zookeeper.broker_channels import BrokerChannels
from barnabas.wire.records.remove_topic_record import RemoveTopicRecord
from tests.clients.nodes import until
from tests.peers.kafka_zookeeper import ZooKeeperBroker
from tests.peers.zookeeper import ZooKeeper
from tests.zookeeper.controllers import Node, nodes
from tests.zookeeper.test_kafkas_brokers import leader_of, produce_and_consume, settings
from tests.zookeeper.test_watching import asked, gone, made, state

pytestmark = pytest.mark.peer
ORDERS = TopicPartition("orders", 0)
OURS = 100


def broker_at(zookeeper: ZooKeeper, chroot: str, folder: Path, number: int) -> ZooKeeperBroker:
    properties = {
        "zookeeper.session.timeout.ms": "9000",  # this long after a kill -9 it is taken for gone
        "inter.broker.protocol.version": "2.6",
        "log.segment.delete.delay.ms": "100",
    }
    connect = f"{zookeeper.connect}{chroot}"
    return ZooKeeperBroker(
        folder, connect, zookeeper.client_jaas(), set_acl=True, broker_id=number, properties=properties
    )


def logs_of(broker: ZooKeeperBroker, topic: str) -> list[str]:
    return sorted(path.name for path in broker.files.data.iterdir() if path.name.startswith(f"{topic}-"))


async def isr_is(node: Node, *isr: int) -> PartitionRegistration:
    def holds(partition: PartitionRegistration | None) -> bool:
        return partition is not None and set(partition.isr) == set(isr)

    await node.until(lambda image: holds(image.topics.partition(*ORDERS)))
    found = node.image.topics.partition(*ORDERS)
    assert found is not None
    return found


def test_our_controller_takes_up_what_they_write(zookeeper: ZooKeeper, chroot: str, tmp_path: Path) -> None:
    theirs = [broker_at(zookeeper, chroot, tmp_path / str(number), number) for number in (0, 1)]

    async def run() -> None:
        async with nodes(zookeeper, chroot, OURS) as [node], asyncio.TaskGroup() as group:
            node.channels = channels = BrokerChannels(settings, "SASL_PLAINTEXT")
            task = group.create_task(node.lead())
            await node.until(lambda image: node.controller is not None and node.controller.is_active)
            assert node.controller is not None
            await asyncio.gather(*(asyncio.to_thread(broker.start) for broker in theirs))
            await node.until(lambda image: set(image.cluster.brokers) == {0, 1})
            for name in ("orders", "doomed"):
                await made(node, {0: [0, 1]}, name)
            await asyncio.to_thread(until, lambda: [leader_of(b) for b in theirs], lambda found: found == [0, 0], 60)
            await asyncio.to_thread(produce_and_consume, theirs[0], b"one")
            await asyncio.to_thread(until, lambda: [logs_of(b, "doomed") for b in theirs], _both_have_it, 60)

            # A topic that is deleted while one of its brokers is down goes there when that comes back.
            await asyncio.to_thread(theirs[1].stop, kill=True)
            await node.until(lambda image: set(image.cluster.brokers) == {0})
            await isr_is(node, 0)
            doomed = node.image.topics.by_name["doomed"].id
            remove = Decision((VersionedRecord(RemoveTopicRecord(topic_id=doomed), 0),), None)
            await node.controller.write(lambda image: remove)
            await asyncio.to_thread(until, lambda: logs_of(theirs[0], "doomed"), lambda found: not found, 60)
            assert logs_of(theirs[1], "doomed") == ["doomed-0"]
            assert await node.zk.exists(topics.deletion_path("doomed")) is not None
            await asyncio.to_thread(theirs[1].start)
            await asyncio.to_thread(until, lambda: logs_of(theirs[1], "doomed"), lambda found: not found, 60)
            await gone(node, topics.deletion_path("doomed"))
            assert await node.zk.exists(topics.topic_path("doomed")) is None

            # The leader takes who comes back into the ISR, and writes it itself.
            partition = await isr_is(node, 0, 1)
            found, version = await state(node, ORDERS)
            assert (found["isr"], version) == (list(partition.isr), partition.partition_epoch)

            # A tool's reassignments, the second one at its end when the leader has written that all are in sync.
            for replicas in ([1], [0, 1]):
                await asked(node, REASSIGNMENTS, {"topic": "orders", "partition": 0, "replicas": replicas})
                await gone(node, REASSIGNMENTS)
                await isr_is(node, *replicas)
                written = json.loads((await node.zk.get(topics.topic_path("orders")))[0])
                assert written["partitions"] == {"0": replicas}
                assert (written["adding_replicas"], written["removing_replicas"]) == ({}, {})
            assert (await state(node, ORDERS))[0]["leader"] == 1
            await asked(node, ELECTIONS, {"topic": "orders", "partition": 0})
            await gone(node, ELECTIONS)
            assert (await state(node, ORDERS))[0]["leader"] == 0
            await asyncio.to_thread(until, lambda: [leader_of(b) for b in theirs], lambda found: found == [0, 0], 60)
            await asyncio.to_thread(produce_and_consume, theirs[1], b"two")
            assert node.controller.is_active
            task.cancel()
            await channels.close()

    try:
        asyncio.run(run())
    finally:
        for broker in theirs:
            broker.stop(kill=True)


def _both_have_it(found: list[list[str]]) -> bool:
    return found == [["doomed-0"]] * 2
