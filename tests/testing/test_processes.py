"""Nodes as processes, used as tests use them: with one node here, with more where clusters are tested."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.testing.ports import free_ports
from barnabas.testing.processes import NodeProcessError, ProcessCluster

pytestmark = pytest.mark.slow


def test_what_was_acknowledged_outlives_a_kill(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path, combined=1) as cluster:
        admin = AdminClient(cluster.librdkafka())
        admin.create_topics([NewTopic("kept", 1)])["kept"].result(60)
        outcome: list[object] = []
        producer = Producer(cluster.librdkafka())
        producer.produce("kept", b"value", on_delivery=lambda error, _: outcome.append(error))
        producer.flush(60)
        assert outcome == [None]
        cluster.node(1).restart(kill=True)
        consumer = Consumer({**cluster.librdkafka(), "group.id": "unused"})
        consumer.assign([TopicPartition("kept", 0, 0)])
        assert [m.value() for m in consumer.consume(1, 60)] == [b"value"]
        consumer.close()
        assert cluster.node(1).starts == 2


def test_a_paused_node_is_silent_until_it_goes_on(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path, combined=1, plaintext=True) as cluster:
        node = cluster.node(1)
        admin = AdminClient(cluster.librdkafka())
        assert list(admin.list_topics(timeout=60).brokers) == [1]
        node.pause()
        assert node.state == "paused"
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=0.5)
        node.resume()
        assert list(admin.list_topics(timeout=60).brokers) == [1]
        pid = node.pid
        assert node.stop() == 0
        assert node.state == "down"
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_node_that_cannot_start_says_why_and_none_is_left_behind(tmp_path: Path) -> None:
    cluster = ProcessCluster(tmp_path, combined=1, properties={"num.partitions": "none"})
    with pytest.raises(NodeProcessError, match=r"num\.partitions"):
        cluster.start()
    assert not cluster.node(1).running


def test_a_node_that_ends_by_itself_is_told_of(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path, combined=1, plaintext=True) as cluster:
        cluster.check()
        os.kill(cluster.node(1).pid, 9)
        cluster.node(1)._process.wait(60)  # type: ignore[union-attr]
        with pytest.raises(NodeProcessError, match="ended by itself with code -9"):
            cluster.check()


def test_ports_are_given_once_and_lie_outside_the_range_of_outgoing_connections() -> None:
    ports = free_ports(100)
    assert len(set(ports)) == 100
    low, high = (int(n) for n in Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert not [p for p in ports if low <= p <= high]
