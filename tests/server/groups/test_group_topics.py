"""The topics as groups of the consumer protocol know them: they follow the metadata, and no more than that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.groups.consumer.world import World
from barnabas.core.metadata.delta import DeltaBuilder, difference
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.runs import replay
from barnabas.core.replicated import VersionedRecord
from barnabas.model.config import ConfigError
from barnabas.server.config_keys import TABLE
from barnabas.server.groups.config import check_broker_keys, consumer_settings, group_config
from barnabas.server.groups.topics import GroupTopics
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.records.config_record import ConfigRecord
from barnabas.wire.records.no_op_record import NoOpRecord
from barnabas.wire.records.partition_change_record import PartitionChangeRecord
from barnabas.wire.records.topic_record import TopicRecord
from tests.core.metadata.clusters import a_cluster, a_partition, with_topic
from tests.core.metadata.metadata_records import a_uuid, logs


def everything(names: Iterable[str]) -> set[str]:
    return set(names)


class Followed:
    """Topics that follow an image step by step."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.topics = GroupTopics(lambda: self.image)

    def step(self, *records: Any) -> World:
        builder = DeltaBuilder(self.image)
        for record in records:
            builder.replay(record)
        delta = builder.build(self.image.offset_epoch.offset + len(records), 1)
        self.image = delta.after
        self.topics.publish(delta, self.image)
        return self.world()

    def snapshot(self, image: MetadataImage) -> World:
        delta = difference(self.image, image)
        self.image = image
        self.topics.publish(delta, image)
        return self.world()

    def world(self) -> World:
        return self.topics.world(everything)


@given(logs(), st.integers(1, 4), st.booleans())
@settings(max_examples=150, deadline=None)
def test_whoever_follows_knows_what_one_does_who_looks_at_the_whole(log: list[Any], pace: int, snapshots: bool) -> None:
    followed = Followed(MetadataImage.EMPTY)
    before = followed.world()
    for start in range(0, len(log), pace):
        records = log[start : start + pace]
        if snapshots and start % 3 == 2:
            after = replay(followed.image, [VersionedRecord(r, 0) for r in records])
            now = followed.snapshot(after.at(followed.image.offset_epoch.offset + len(records), 1))
        else:
            now = followed.step(*records)
        fresh = GroupTopics(lambda: followed.image).world(everything)
        assert (dict(now.by_name), dict(now.by_id)) == (dict(fresh.by_name), dict(fresh.by_id))
        for topic_id, topic in now.by_id.items():
            assert topic is before.by_id.get(topic_id) or topic != before.by_id.get(topic_id), "the value was kept"
        if (dict(now.by_id), dict(now.by_name)) != (dict(before.by_id), dict(before.by_name)):
            assert now.version > before.version
        if set(now.by_id) - set(before.by_id):
            assert now.new_topics_version > before.new_topics_version
        before = now


def test_a_change_of_leaders_costs_no_hash() -> None:
    image = with_topic(a_cluster(1, 2, racks={1: "east", 2: "west"}), "t", a_partition([1, 2]), a_partition([2]))
    followed = Followed(image)
    before = followed.world()
    assert before.by_name["t"].racks == (("east", "west"), ("west",))
    assert (before.version, before.new_topics_version) == (1000, 1000)
    at_rest = followed.step(NoOpRecord())
    assert (at_rest.version, at_rest.new_topics_version) == (1000, 1000)
    elected = followed.step(PartitionChangeRecord(topic_id=a_uuid(900), partition_id=0, leader=2))
    assert elected.by_name["t"] is before.by_name["t"]
    created = followed.step(TopicRecord(name="u", topic_id=a_uuid(901)))
    assert (created.version, created.new_topics_version) == (1003, 1003)
    assert set(before.by_name) == {"t"}, "what was given out stays as it is"


def test_another_rack_is_another_topic() -> None:
    partition = a_partition([1])
    followed = Followed(with_topic(a_cluster(1, racks={1: "east"}), "t", partition))
    before = followed.world()
    moved = followed.snapshot(with_topic(a_cluster(1, racks={1: "west"}), "t", partition).at(1001, 1))
    assert moved.by_name["t"].racks == (("west",),)
    assert moved.by_name["t"].hash != before.by_name["t"].hash
    assert (moved.version, moved.new_topics_version) == (1001, 1000)


def test_patterns_match_what_one_may_describe() -> None:
    image = a_cluster(1)
    for n, name in enumerate(("orders", "orders-2", "secret-orders", "other")):
        image = with_topic(image, name, a_partition([1]), n=900 + n)
    patterns = GroupTopics(lambda: image).world(lambda names: {n for n in names if "secret" not in n}).patterns
    assert patterns.match(".*orders.*") == {"orders", "orders-2"}
    assert patterns.match("orders") == {"orders"}
    assert patterns.match("(?=x)") == frozenset(), "another coordinator took it"
    with pytest.raises(ApiError) as refused:
        patterns.check("[")
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def values(**changed: Any) -> dict[str, Any]:
    return {key.name: key.default for key in TABLE} | {k.replace("__", "."): v for k, v in changed.items()}


def test_what_a_group_sets_counts_within_the_bounds_of_the_broker() -> None:
    record = ConfigRecord(resource_type=32, resource_name="g", name="consumer.session.timeout.ms", value="50000")
    configs = replay(MetadataImage.EMPTY, [VersionedRecord(record, 0)]).configs
    now = values(group__consumer__assignment__interval__ms=2_000)
    consumer = group_config(values(), lambda group: consumer_settings(configs, group, now)).consumer
    assert (consumer.session_of("g"), consumer.session_of("other")) == (50_000, 45_000)
    assert (consumer.assignment_of("g"), consumer.heartbeat_of("g")) == (2_000, 5_000)
    bounded = values(group__consumer__max__session__timeout__ms=47_000)
    consumer = group_config(bounded, lambda group: consumer_settings(configs, group, now)).consumer
    assert consumer.session_of("g") == 47_000


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"group__consumer__session__timeout__ms": 1}, "group.consumer.min.session.timeout.ms"),
        ({"group__consumer__heartbeat__interval__ms": 20_000}, "group.consumer.max.heartbeat.interval.ms"),
        (
            {
                "group__consumer__heartbeat__interval__ms": 45_000,
                "group__consumer__max__heartbeat__interval__ms": 45_000,
            },
            "must be less than group.consumer.session.timeout.ms",
        ),
        ({"group__consumer__assignors": ("uniform", "com.example.Mine")}, "com.example.Mine is not served"),
        ({"group__coordinator__rebalance__protocols": ("consumer",)}, "must hold classic"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(changed: dict[str, Any], why: str) -> None:
    check_broker_keys(values())
    with pytest.raises(ConfigError, match=why):
        check_broker_keys(values(**changed))
