"""Clusters of several nodes, as tests make them: users, topics, and what can go wrong."""

from __future__ import annotations

from functools import partial

import pytest
from confluent_kafka import KafkaError, Producer

from barnabas.testing.network import CLIENTS
from barnabas.testing.plugin import MakeCluster

pytestmark = pytest.mark.slow
QUICKER_SESSIONS = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


def produce(config: dict[str, str], topic: str) -> KafkaError | None:
    """Give what became of one record."""
    outcome: list[KafkaError | None] = []
    producer = Producer({**config, "message.timeout.ms": "60000"})
    producer.produce(topic, b"value", on_delivery=lambda error, _: outcome.append(error))
    producer.flush(90)
    return outcome[0]


def test_a_cluster_in_this_process(barnabas_clusters: MakeCluster) -> None:
    cluster = barnabas_clusters(combined=3, proxied=True, properties=QUICKER_SESSIONS)
    cluster.create_topic("orders", partitions=3)
    assert {cluster.leader("orders", p).node_id for p in range(3)} == {1, 2, 3}
    alice = cluster.as_user("alice")
    refused = produce(alice.librdkafka, "orders")
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    alice.allow("write", "topic", "orders")
    assert produce(alice.librdkafka, "orders") is None
    # Every node connects from an address of its own, so that each can be told from the others and from clients.
    assert cluster.network.connections(CLIENTS, 1)[1] > 0
    network = cluster.network
    for other in (1, 3):  # each broker follows partitions of the others
        cluster.wait_for(partial(network.connections, 2, other), lambda made: made[1] > 0, f"a connection to {other}")
    follower = next(n for n in cluster if n is not cluster.active_controller())
    cluster.expire_session(follower.node_id)
    cluster.leader("orders", follower.node_id - 1)
    follower.restart()
    assert produce(alice.librdkafka, "orders") is None


@pytest.mark.cluster
def test_a_cluster_of_processes_outlives_its_controller_and_a_leader(barnabas_clusters: MakeCluster) -> None:
    cluster = barnabas_clusters(controllers=3, brokers=3, processes=True, properties=QUICKER_SESSIONS)
    cluster.create_topic("orders")
    cluster.active_controller().kill()
    cluster.leader("orders").kill()
    assert produce(cluster.librdkafka(), "orders") is None
    assert sum(not n.running for n in cluster) == 2
