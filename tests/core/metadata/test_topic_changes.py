"""CreateTopics, DeleteTopics and CreatePartitions: what is made, and Kafka's code for what is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.topic_changes import create_partitions, create_topics, delete_topics
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsTopic
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from tests.core.metadata.clusters import a_cluster, a_partition, apply, plans, with_topic
from tests.core.metadata.metadata_records import a_uuid

E = ErrorCode


def a_topic(name: str = "t", partitions: int = -1, factor: int = -1, **rest: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **rest)


def by_hand(*replicas: tuple[int, list[int]]) -> list[CreatableReplicaAssignment]:
    return [CreatableReplicaAssignment(partition_index=i, broker_ids=ids) for i, ids in replicas]


def config(name: str, value: str | None) -> CreatableTopicConfig:
    return CreatableTopicConfig(name=name, value=value)


def created(image: MetadataImage, topic: CreatableTopic) -> CreatableTopicResult:
    [result] = create_topics(image, CreateTopicsRequest(topics=[topic]), plans()).response.topics
    return result


def test_a_topic_is_made_with_its_configs_and_partitions() -> None:
    image = a_cluster(0, 1, 2)
    request = CreateTopicsRequest(topics=[a_topic(partitions=6, factor=2, configs=[config("retention.ms", "7")])])
    decision = create_topics(image, request, plans(), describable={"t"})
    assert decision.atomic
    assert [type(r.record).__name__ for r in decision.records] == [
        "TopicRecord", "ConfigRecord", *["PartitionRecord"] * 6,
    ]  # fmt: skip
    after = apply(image, decision.records)
    topic = after.topics.by_name["t"]
    assert dict(after.configs.get(ConfigResource(ConfigResourceType.TOPIC, "t"))) == {"retention.ms": "7"}
    leaders = [topic.partitions[i].leader for i in range(6)]
    assert sorted(leaders) == [0, 0, 1, 1, 2, 2]
    for partition in topic.partitions.values():
        assert len(set(partition.replicas)) == 2
        assert partition.isr == partition.replicas
        assert partition.directories == tuple(a_uuid(b) for b in partition.replicas)
    [result] = decision.response.topics
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.topic_id, result.num_partitions, result.replication_factor) == (topic.id, 6, 2)
    assert {c.name: c.value for c in result.configs or []}["retention.ms"] == "7"


def test_configs_are_shown_only_to_those_who_may_see_them() -> None:
    result = created(a_cluster(0), a_topic())
    assert result.topic_config_error_code == E.TOPIC_AUTHORIZATION_FAILED
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, [])


def test_minus_one_means_the_clusters_defaults() -> None:
    decision = create_topics(
        a_cluster(0, 1), CreateTopicsRequest(topics=[a_topic()]), plans(num_partitions=4, replication_factor=2), {"t"}
    )
    [result] = decision.response.topics
    assert (result.num_partitions, result.replication_factor) == (4, 2)


def test_validate_only_writes_nothing_but_answers_the_same() -> None:
    request = CreateTopicsRequest(topics=[a_topic()], validate_only=True)
    decision = create_topics(a_cluster(0), request, plans())
    assert decision.records == ()
    assert decision.response.topics[0].error_code == E.NONE


def test_what_cannot_be_made_does_not_hold_up_the_rest() -> None:
    image = with_topic(a_cluster(0), "old", a_partition([0]))
    decision = create_topics(image, CreateTopicsRequest(topics=[a_topic("old"), a_topic("new")]), plans())
    assert [t.error_code for t in decision.response.topics] == [E.TOPIC_ALREADY_EXISTS, E.NONE]
    assert set(apply(image, decision.records).topics.by_name) == {"old", "new"}


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (a_topic(""), E.INVALID_TOPIC_EXCEPTION),
        (a_topic("."), E.INVALID_TOPIC_EXCEPTION),
        (a_topic(".."), E.INVALID_TOPIC_EXCEPTION),
        (a_topic("x" * 250), E.INVALID_TOPIC_EXCEPTION),
        (a_topic("ä"), E.INVALID_TOPIC_EXCEPTION),
        (a_topic("a/b"), E.INVALID_TOPIC_EXCEPTION),
        (a_topic("old_name"), E.INVALID_TOPIC_EXCEPTION),
        (a_topic("old.name"), E.TOPIC_ALREADY_EXISTS),
        (a_topic(factor=0), E.INVALID_REPLICATION_FACTOR),
        (a_topic(factor=-2), E.INVALID_REPLICATION_FACTOR),
        (a_topic(factor=4), E.INVALID_REPLICATION_FACTOR),
        (a_topic(partitions=0), E.INVALID_PARTITIONS),
        (a_topic(partitions=-2), E.INVALID_PARTITIONS),
        (a_topic(configs=[config("retention.ms", None)]), E.INVALID_CONFIG),
        (a_topic(configs=[config("retention.ms", "bad")]), E.INVALID_CONFIG),
        (a_topic(configs=[config("nonsense", "1")]), E.INVALID_CONFIG),
        (a_topic(partitions=1, assignments=by_hand((0, [0]))), E.INVALID_REQUEST),
        (a_topic(factor=1, assignments=by_hand((0, [0]))), E.INVALID_REQUEST),
        (a_topic(assignments=by_hand((0, [0]), (0, [1]))), E.INVALID_REPLICA_ASSIGNMENT),
        (a_topic(assignments=by_hand((1, [0]))), E.INVALID_REPLICA_ASSIGNMENT),
        (a_topic(assignments=by_hand((0, []))), E.INVALID_REPLICA_ASSIGNMENT),
        (a_topic(assignments=by_hand((0, [9]))), E.INVALID_REPLICA_ASSIGNMENT),
        (a_topic(assignments=by_hand((0, [0, 0]))), E.INVALID_REPLICA_ASSIGNMENT),
        (a_topic(assignments=by_hand((0, [0]), (1, [0, 1]))), E.INVALID_REPLICA_ASSIGNMENT),
        (a_topic(assignments=by_hand((0, [2]))), E.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_is_wrong_has_kafkas_code_and_a_reason(topic: CreatableTopic, code: ErrorCode) -> None:
    image = with_topic(a_cluster(0, 1, 2, fenced=[2]), "old.name", a_partition([0]))
    result = created(image, topic)
    assert ErrorCode(result.error_code) is code
    assert result.error_message


def test_a_name_is_free_again_after_its_topic_is_deleted() -> None:
    image = with_topic(a_cluster(0), "a.b", a_partition([0]))
    image = apply(image, delete_topics(image, [a_uuid(900)]).records)
    assert created(image, a_topic("a_b")).error_code == E.NONE


def test_a_manual_assignment_keeps_its_order_and_leaves_fenced_brokers_out_of_the_isr() -> None:
    image = a_cluster(0, 1, 2, fenced=[2])
    decision = create_topics(
        image, CreateTopicsRequest(topics=[a_topic(assignments=by_hand((1, [1, 0]), (0, [2, 1])))]), plans()
    )
    partitions = apply(image, decision.records).topics.by_name["t"].partitions
    assert (partitions[0].replicas, partitions[0].isr, partitions[0].leader) == ((2, 1), (1,), 1)
    assert (partitions[1].replicas, partitions[1].isr, partitions[1].leader) == ((1, 0), (1, 0), 1)


def test_a_request_may_not_want_more_than_ten_thousand_partitions() -> None:
    request = CreateTopicsRequest(topics=[a_topic("a", 6_000), a_topic("b", 4_001)])
    with pytest.raises(ApiError, match="10001") as refused:
        create_topics(a_cluster(0), request, plans())
    assert refused.value.code is E.POLICY_VIOLATION


def test_without_a_live_broker_nothing_is_made() -> None:
    for image in (a_cluster(), a_cluster(0, fenced=[0])):
        assert ErrorCode(created(image, a_topic()).error_code) is E.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(("metadata_version", "version"), [(7, 0), (17, 1), (23, 2), (30, 2)])
def test_records_have_the_version_that_the_clusters_level_knows(metadata_version: int, version: int) -> None:
    image = a_cluster(0, metadata_version=metadata_version)
    decision = create_topics(image, CreateTopicsRequest(topics=[a_topic()]), plans())
    assert decision.records[-1].version == version
    assert bool(decision.records[-1].record.directories) == (version > 0)


def test_deleting_an_unknown_id_says_so() -> None:
    image = with_topic(a_cluster(0), "t", a_partition([0]))
    decision = delete_topics(image, [a_uuid(900), a_uuid(1)])
    assert decision.response[a_uuid(900)] is None
    error = decision.response[a_uuid(1)]
    assert error is not None
    assert error.code is E.UNKNOWN_TOPIC_ID
    assert not apply(image, decision.records).topics.by_name


def test_topics_grow_but_never_shrink() -> None:
    image = with_topic(a_cluster(0, 1), "t", a_partition([0, 1]), a_partition([1, 0]))

    def grown(count: int, assignments: list[list[int]] | None = None, name: str = "t") -> ErrorCode:
        given = None if assignments is None else [CreatePartitionsAssignment(broker_ids=b) for b in assignments]
        topic = CreatePartitionsTopic(name=name, count=count, assignments=given)
        [result] = create_partitions(image, [topic], plans().random_below).response
        assert bool(result.error_message) == bool(result.error_code)
        return ErrorCode(result.error_code)

    assert grown(2) is E.INVALID_PARTITIONS
    assert grown(1) is E.INVALID_PARTITIONS
    assert grown(3, name="nope") is E.UNKNOWN_TOPIC_OR_PARTITION
    assert grown(4, [[0, 1]]) is E.INVALID_REPLICA_ASSIGNMENT
    assert grown(3, [[0]]) is E.INVALID_REPLICA_ASSIGNMENT
    assert grown(3, [[0, 1]]) is E.NONE
    wanted = [CreatePartitionsTopic(name="t", count=4, assignments=None)]
    decision = create_partitions(image, wanted, plans().random_below)
    partitions = apply(image, decision.records).topics.by_name["t"].partitions
    assert sorted(partitions) == [0, 1, 2, 3]
    assert all(len(p.replicas) == 2 for p in partitions.values())
    dry = create_partitions(image, wanted, plans().random_below, validate_only=True)
    assert dry.records == ()


def test_a_quota_refuses_one_topic_and_not_the_other() -> None:
    image = a_cluster(0)
    left = [3]

    def take(partitions: int) -> None:
        if partitions > left[0]:
            raise ApiError(E.THROTTLING_QUOTA_EXCEEDED)
        left[0] -= partitions

    request = CreateTopicsRequest(topics=[a_topic("a", 2), a_topic("b", 2), a_topic("c", 1)])
    decision = create_topics(image, request, replace(plans(), take_quota=take))
    assert [ErrorCode(t.error_code) for t in decision.response.topics] == [
        E.NONE, E.THROTTLING_QUOTA_EXCEEDED, E.NONE,
    ]  # fmt: skip
