"""The topics that a cluster makes for itself when the first group or transaction asks for its coordinator."""

from __future__ import annotations

from contextlib import closing
from functools import partial

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import ConfigResource, ConfigResourceType
from barnabas.client.cluster import CoordinatorKind
from barnabas.client.config import ClientConfig
from barnabas.model.config import parse_properties
from barnabas.server.config import NodeConfig
from barnabas.server.forwarding.internal_topics import internal_topic
from barnabas.server.groups.group_coordinator import OFFSETS_TOPIC
from barnabas.server.transactions.transaction_coordinator import TRANSACTION_TOPIC
from barnabas.testing.network import CLIENTS
from barnabas.testing.plugin import MakeCluster
from tests.peers.kafka import RealKafka
from tests.peers.tools import PRODUCER_PERFORMANCE, ToolRunner

pytestmark = [pytest.mark.peer, pytest.mark.requirement("F-07")]
SET_BY_TOPIC = 1
"""DescribeConfigs' source of what was set for this topic."""
KINDS = {CoordinatorKind.GROUP: OFFSETS_TOPIC, CoordinatorKind.TRANSACTION: TRANSACTION_TOPIC}


async def test_they_have_the_shape_that_kafka_gives_them(real_kafka: RealKafka) -> None:
    config = NodeConfig.parse(parse_properties(real_kafka.config_file.read_text()))
    async with Admin(ClientConfig.from_properties({"bootstrap.servers": real_kafka.bootstrap()})) as admin:
        for kind, name in KINDS.items():
            await admin.cluster.retry(partial(admin.cluster.coordinator, kind, "who"))
            made = (await admin.topics())[name]
            resource = ConfigResource(ConfigResourceType.TOPIC, name)
            rows = (await admin.describe_configs([resource]))[resource]
            assert not isinstance(rows, Exception)
            ours = internal_topic(name, config)
            assert ours is not None
            assert {row.name: row.value for row in rows if row.config_source == SET_BY_TOPIC} == {
                row.name: row.value for row in ours.configs
            }
            assert (len(made.partitions), len(made.partitions[0].replicas)) == (
                ours.num_partitions,
                ours.replication_factor,
            )


def test_a_group_and_a_transaction_begin_at_brokers_that_are_no_controllers(barnabas_clusters: MakeCluster) -> None:
    few = {"transaction.state.log.num.partitions": "3"}
    cluster = barnabas_clusters(controllers=1, brokers=3, plaintext=True, proxied=True, properties=few)
    cluster.network.partition(CLIENTS, 101)
    at = cluster.node(2).bootstrap
    producer = Producer({"bootstrap.servers": at})
    cluster.create_topic("t")
    producer.produce("t", b"value")
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": at, "group.id": "g", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["t"])
        record = consumer.poll(60)
        assert record is not None
        assert record.value() == b"value"
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    with closing(ToolRunner()) as own:
        ended = own.run(
            PRODUCER_PERFORMANCE,
            *("--bootstrap-server", at, "--topic", "t", "--num-records", "1", "--record-size", "1"),
            *("--throughput", "-1", "--transactional-id", "tx"),
        )
    assert ended.code == 0, ended.stderr
    assert ended.stdout.startswith("1 records sent")
    topics = cluster.ask(lambda admin: admin.topics())
    assert {name: len(topics[name].partitions) for name in KINDS.values()} == {OFFSETS_TOPIC: 4, TRANSACTION_TOPIC: 3}
