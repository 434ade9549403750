"""Real brokers of Apache Kafka 3.9.1 under a controller of ours."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import confluent_kafka
import pytest

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.partition import PartitionRegistration
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.core.sasl.client import SaslClient, client_mechanism
from barnabas.model.uuid import Uuid
from barnabas.net.client import ChannelSettings
from barnabas.server.zookeeper.broker_channels import BrokerChannels
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.remove_topic_record import RemoveTopicRecord
from barnabas.wire.records.topic_record import TopicRecord
from tests.clients.nodes import until
from tests.peers.kafka import ADMIN, ADMIN_PASSWORD
from tests.peers.kafka_zookeeper import ZooKeeperBroker
from tests.peers.zookeeper import ZooKeeper
from tests.zookeeper.controllers import Node, nodes

pytestmark = pytest.mark.peer
ORDERS = Uuid(bytes(15) + b"\x77")
OURS = 100


def made(image: MetadataImage, replicas: list[int]) -> Decision[None]:
    partition = PartitionRecord(
        partition_id=0, topic_id=ORDERS, replicas=replicas, isr=replicas, leader=replicas[0], leader_epoch=0,
        partition_epoch=0, directories=[Uuid(bytes(16))] * len(replicas),
    )  # fmt: skip
    topic = VersionedRecord(TopicRecord(name="orders", topic_id=ORDERS), 0)
    return Decision((topic, VersionedRecord(partition, 1)), None)


def settings() -> ChannelSettings:
    login = partial(client_mechanism, "PLAIN", ADMIN, ADMIN_PASSWORD, lambda: "nonce")
    return ChannelSettings(client_id="controller", sasl=lambda host: SaslClient("PLAIN", login()))


def broker_at(zookeeper: ZooKeeper, chroot: str, folder: Path, number: int) -> ZooKeeperBroker:
    connect, jaas = f"{zookeeper.connect}{chroot}", zookeeper.client_jaas()
    properties = {"zookeeper.session.timeout.ms": "9000"}  # this long after a kill -9 it is taken for gone
    return ZooKeeperBroker(folder, connect, jaas, set_acl=True, broker_id=number, properties=properties)


def client(broker: ZooKeeperBroker, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": broker.bootstrap, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
        "sasl.username": ADMIN, "sasl.password": ADMIN_PASSWORD, **more,
    }  # fmt: skip


def leader_of(broker: ZooKeeperBroker) -> int | None:
    consumer = confluent_kafka.Consumer(client(broker, **{"group.id": "g"}))
    try:
        found = consumer.list_topics(timeout=60).topics.get("orders")
    finally:
        consumer.close()
    return None if found is None else found.partitions[0].leader


def partition_of(node: Node) -> PartitionRegistration | None:
    return node.image.topics.partition("orders", 0)


def test_they_lead_follow_and_stop_as_our_controller_says(zookeeper: ZooKeeper, chroot: str, tmp_path: Path) -> None:
    theirs = [broker_at(zookeeper, chroot, tmp_path / str(number), number) for number in (0, 1)]

    async def run() -> None:
        async with nodes(zookeeper, chroot, OURS) as [node], asyncio.TaskGroup() as group:
            channels = BrokerChannels(settings, "SASL_PLAINTEXT")
            node.channels = channels
            task = group.create_task(node.lead())
            await node.until(lambda image: node.controller is not None and node.controller.is_active)
            assert node.controller is not None
            for broker in theirs:
                await asyncio.to_thread(broker.start)
            await node.until(lambda image: set(image.cluster.brokers) == {0, 1})
            await node.controller.write(lambda image: made(image, [0, 1]))
            await asyncio.to_thread(until, lambda: [leader_of(b) for b in theirs], lambda found: found == [0, 0], 60)
            await asyncio.to_thread(produce_and_consume, theirs[1], b"one")

            await asyncio.to_thread(theirs[0].stop, kill=True)
            await node.until(lambda image: set(image.cluster.brokers) == {1})
            partition = partition_of(node)
            assert partition is not None
            assert (partition.leader, partition.isr) == (1, (1,))
            await asyncio.to_thread(produce_and_consume, theirs[1], b"two")

            await asyncio.to_thread(theirs[0].start)
            await node.until(lambda image: set(image.cluster.brokers) == {0, 1})
            remove = Decision((VersionedRecord(RemoveTopicRecord(topic_id=ORDERS), 0),), None)
            await node.controller.write(lambda image: remove)
            await asyncio.to_thread(until, lambda: [leader_of(b) for b in theirs], lambda f: f == [None, None], 60)
            task.cancel()
            await channels.close()

    try:
        asyncio.run(run())
    finally:
        for broker in theirs:
            broker.stop(kill=True)


def produce_and_consume(broker: ZooKeeperBroker, value: bytes) -> None:
    producer = confluent_kafka.Producer(client(broker))
    failed: list[object] = []
    producer.produce("orders", value, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(60) == 0
    assert failed == [None]
    consumer = confluent_kafka.Consumer(client(broker, **{"group.id": "unused", "enable.auto.commit": False}))
    try:
        _, end = consumer.get_watermark_offsets(confluent_kafka.TopicPartition("orders", 0), timeout=60)
        consumer.assign([confluent_kafka.TopicPartition("orders", 0, end - 1)])
        message = consumer.poll(60)
        assert message is not None
        assert message.value() == value
    finally:
        consumer.close()
