"""Transactions in ZooKeeper mode: Apache Kafka 3.9.1 and ours coordinate them, and mark each other's logs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.cimpl import NewTopic

from barnabas.client.admin import Admin
from barnabas.client.cluster import CoordinatorKind
from tests.peers.kafka_zookeeper import ZooKeeperBroker
from tests.peers.zookeeper import ZooKeeper
from tests.peers.zookeeper_cluster import KAFKA, OURS, WAIT_S, ZooKeeperCluster

from .admins import do

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

TWO_COPIES: Final = {
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "auto.leader.rebalance.enable": "false",
}
LEADERS: Final = [[0, 1], [1, 0]]
"""The replicas of a topic that each broker leads one partition of."""


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperCluster]:
    folder = tmp_path_factory.mktemp("transactions")
    with ZooKeeperCluster(folder, zookeeper, "/transactions", [OURS, KAFKA], properties=TWO_COPIES) as found:
        yield found


@pytest.mark.parametrize("coordinator", [0, 1], ids=["ours", "kafka"])
def test_either_kind_coordinates_transactions_of_both_and_the_other_takes_them_over(
    cluster: ZooKeeperCluster, coordinator: int
) -> None:
    topic = f"kept-{coordinator}"
    wanted = [NewTopic(topic, 2, replica_assignment=LEADERS)]
    do(cluster.librdkafka, lambda admin: admin.create_topics(wanted), KafkaError.TOPIC_ALREADY_EXISTS)
    cluster.in_sync(topic)
    transactional_id = asyncio.run(coordinated_by(cluster.brokers[0], coordinator))
    one = producer(cluster, transactional_id)
    write(one, topic, "a")
    one.commit_transaction(WAIT_S)
    write(one, topic, "aborted")
    one.abort_transaction(WAIT_S)
    write(one, topic, "b")
    leaving = cluster.brokers[coordinator]
    leaving.stop()
    one.commit_transaction(WAIT_S)
    leaving.start()
    cluster.in_sync()
    assert read(cluster, topic, 4) == [["a", "b"], ["a", "b"]]
    successor = producer(cluster, transactional_id)
    one.begin_transaction()
    one.produce(topic, "late", partition=0)
    with pytest.raises(KafkaException, match=r"(?i)fenced"):
        one.commit_transaction(WAIT_S)
    write(successor, topic, "c")
    successor.commit_transaction(WAIT_S)
    assert read(cluster, topic, 6) == [["a", "b", "c"], ["a", "b", "c"]]


async def coordinated_by(asked: ZooKeeperBroker, broker: int) -> str:
    """Give a transactional id of this broker."""
    async with Admin(asked.client_config()) as asking:
        for n in range(100):
            name = f"id-{n}"
            asked_for = partial(asking.cluster.coordinator, CoordinatorKind.TRANSACTION, name)
            found = await asking.cluster.retry(asked_for)
            if found == broker:
                return name
    raise AssertionError(f"broker {broker} coordinates no transactions")


def producer(cluster: ZooKeeperCluster, transactional_id: str) -> Producer:
    made = Producer({**cluster.librdkafka, "transactional.id": transactional_id, "linger.ms": 0})
    made.init_transactions(WAIT_S)
    return made


def write(one: Producer, topic: str, value: str) -> None:
    one.begin_transaction()
    for partition in range(len(LEADERS)):
        one.produce(topic, value, partition=partition)
    assert one.flush(WAIT_S) == 0


def read(cluster: ZooKeeperCluster, topic: str, count: int) -> list[list[str]]:
    """Give each partition's committed values, once there are so many in all."""
    settings: dict[str, Any] = {
        "group.id": "reader",
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer({**cluster.librdkafka, **settings, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(len(LEADERS))])
    found: list[list[str]] = [[] for _ in LEADERS]
    try:
        while sum(map(len, found)) < count:
            message = consumer.poll(WAIT_S)
            assert message is not None, f"{found} is all that came"
            assert message.error() is None, message.error()
            value, partition = message.value(), message.partition()
            assert isinstance(value, bytes)
            assert partition is not None
            found[partition].append(value.decode())
    finally:
        consumer.close()
    return found
