"""Followers of real nodes: they have what is acknowledged, leave and join the ISR, and are read from by rack."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.model.topic_partition import TopicPartition
from barnabas.testing.local import LocalCluster
from tests.replication.looking import all_equal, contents, in_sync, replica, send, wait

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


def test_what_is_acknowledged_is_in_every_replica(cluster: LocalCluster) -> None:
    cluster.create_topic("acked", replication_factor=3)
    send(cluster, "acked", [b"%d" % n for n in range(500)])
    for node in cluster.brokers:
        assert [v for _, v in contents(replica(node, "acked").log)] == [b"%d" % n for n in range(500)]
    wait(cluster, lambda: all_equal(cluster, "acked"), "followers learn the high watermark")


def test_records_are_deleted_on_every_replica(cluster: LocalCluster) -> None:
    cluster.create_topic("deleted", replication_factor=3)
    send(cluster, "deleted", [b"%d" % n for n in range(100)])
    tp = TopicPartition("deleted", 0)
    answer = cluster.ask(lambda admin: admin.delete_records({tp: 60}))
    assert answer == {tp: 60}
    assert {replica(node, "deleted").log.log_start_offset for node in cluster.brokers} == {60}


def test_groups_are_kept_by_every_replica(cluster: LocalCluster) -> None:
    import confluent_kafka

    cluster.create_topic("grouped", replication_factor=3)
    settings = {**cluster.librdkafka(), "group.id": "readers", "auto.offset.reset": "earliest"}
    send(cluster, "grouped", [b"one"])
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe(["grouped"])
    cluster.wait_for(lambda: consumer.poll(0.1), lambda m: m is not None and m.error() is None, "a record")
    consumer.commit(asynchronous=False)
    consumer.close()
    number = cluster.brokers[0].node.groups.partition_for("readers")
    wait(cluster, lambda: all_equal(cluster, "__consumer_offsets", number), "the commit is everywhere")
    wait(cluster, lambda: len(in_sync(cluster, "__consumer_offsets", number)) == 3, "all are in sync")


def test_a_consumer_reads_from_the_replica_in_its_rack(cluster: LocalCluster) -> None:
    import confluent_kafka

    cluster.create_topic("near", replication_factor=3)
    send(cluster, "near", [b"%d" % n for n in range(50)])
    leader = cluster.leader("near")
    other = next(n for n in cluster.brokers if n is not leader)
    settings = {
        **cluster.librdkafka(),
        "group.id": "near",
        "client.rack": other.plan.rack,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition("near", 0, 0)])
    found = 0
    while found < 50:
        message = cluster.wait_for(lambda: consumer.poll(0.1), lambda m: m is not None, "a record")
        assert message is not None
        assert message.error() is None
        found += 1
    consumer.close()
    assert other.node.metrics.topics.of("near").bytes_out.count > 0
    assert leader.node.metrics.topics.of("near").bytes_out.count == 0


def test_a_follower_that_ends_leaves_the_isr_and_comes_back(cluster: LocalCluster) -> None:
    cluster.create_topic("left", replication_factor=3)
    send(cluster, "left", [b"before"])
    leader = cluster.leader("left")
    follower = next(n for n in cluster.brokers if n is not leader)
    follower.stop()
    wait(cluster, lambda: follower.node_id not in in_sync(cluster, "left"), "out of the ISR")
    send(cluster, "left", [b"meanwhile"] * 20)
    follower.start()
    wait(cluster, lambda: len(in_sync(cluster, "left")) == 3, "back in the ISR")
    wait(cluster, lambda: all_equal(cluster, "left"), "the replicas are equal")


def test_with_too_few_in_sync_nothing_is_acknowledged(cluster: LocalCluster) -> None:
    cluster.create_topic("few", replication_factor=3, min__insync__replicas="3")
    leader = cluster.leader("few")
    follower = next(n for n in cluster.brokers if n is not leader)
    follower.stop()
    wait(cluster, lambda: follower.node_id not in replica(leader, "few").isr, "out of the ISR, and the leader knows")
    with pytest.raises(Exception, match="NOT_ENOUGH_REPLICAS"):
        asyncio.run(_send_once(cluster))
    send(cluster, "few", [b"written, not committed"], acks="1")
    assert replica(leader, "few").log.high_watermark == 0
    follower.start()
    wait(cluster, lambda: replica(leader, "few").log.high_watermark == 1, "committed once all are back")


async def _send_once(cluster: LocalCluster) -> None:
    from barnabas.client.config import ClientConfig
    from barnabas.client.producer import Producer

    settings = {**cluster.client(), "acks": "all", "enable.idempotence": "false", "retries": "0"}
    async with Producer(ClientConfig.from_properties(settings)) as producer:
        delivery = await producer.send("few", b"x", partition=0)
        await producer.flush()
        await delivery
