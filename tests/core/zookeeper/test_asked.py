"""Reassignments and elections that tools ask for by a znode, however many they are."""

from __future__ import annotations

from barnabas.core.metadata.limits import MAX_RECORDS_PER_REQUEST
from barnabas.core.zookeeper.asked import elect_preferred, reassign, under_way
from barnabas.model.topic_partition import TopicPartition
from tests.core.metadata.clusters import SCHEMA, a_cluster, a_partition, apply, with_topic

MANY = MAX_RECORDS_PER_REQUEST + 1
PARTITIONS = [TopicPartition("orders", number) for number in range(MANY)]


def test_more_are_reassigned_than_one_request_may() -> None:
    image = with_topic(a_cluster(1, 2), "orders", *[a_partition([1])] * MANY)
    asked = {**dict.fromkeys(PARTITIONS, (2,)), TopicPartition("none", 0): (2,)}
    decision = reassign(image, SCHEMA, asked)
    assert len(decision.records) == MANY
    assert list(decision.response) == [TopicPartition("none", 0)]
    assert under_way(apply(image, decision.records), asked).keys() == set(PARTITIONS)


def test_more_leaders_are_elected_than_one_request_may() -> None:
    image = with_topic(a_cluster(1, 2), "orders", *[a_partition([1, 2], leader=2)] * MANY)
    decision = elect_preferred(image, SCHEMA, [*PARTITIONS, PARTITIONS[0], TopicPartition("none", 0)])
    assert len(decision.records) == MANY
    assert list(decision.response) == [TopicPartition("none", 0)]
    assert {p.leader for p in apply(image, decision.records).topics.by_name["orders"].partitions.values()} == {1}
