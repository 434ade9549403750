"""The image: every prefix of any log can be rebuilt from a snapshot of itself."""

from __future__ import annotations

import pkgutil
from dataclasses import replace
from importlib import import_module
from inspect import isfunction
from typing import Any

import pytest
from hypothesis import given, settings
from immutables import Map

from barnabas.core import metadata
from barnabas.core.metadata.acls import acl_record
from barnabas.core.metadata.features import UnsupportedFeatureError
from barnabas.core.metadata.image import TOPICS, WHOLE, MetadataImage, known_records, replay_one, snapshot_records
from barnabas.core.metadata.runs import replay
from barnabas.core.replicated import ReplayError, UnknownRecordError, VersionedRecord, replayed_by
from barnabas.model.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.wire import records as record_package
from barnabas.wire.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.wire.records.begin_transaction_record import BeginTransactionRecord
from barnabas.wire.records.config_record import ConfigRecord
from barnabas.wire.records.feature_level_record import FeatureLevelRecord
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from barnabas.wire.records.remove_topic_record import RemoveTopicRecord
from barnabas.wire.records.topic_record import TopicRecord
from tests.core.metadata.metadata_records import FIRST, a_uuid, logs

ELSEWHERE = {
    "BeginTransactionRecord": "the loader's",
    "EndTransactionRecord": "the loader's",
    "AbortTransactionRecord": "the loader's",
}


@given(logs())
@settings(max_examples=60, deadline=None)
def test_every_prefix_is_rebuilt_by_its_own_snapshot(log: list[Any]) -> None:
    image = MetadataImage.EMPTY
    for record in log:
        image = replay_one(image, record)
        rebuilt = replay(MetadataImage.EMPTY, snapshot_records(image))
        assert rebuilt == image


@given(logs())
@settings(max_examples=30, deadline=None)
def test_a_snapshot_is_the_same_whatever_the_order_of_events(log: list[Any]) -> None:
    image = MetadataImage.EMPTY
    for record in log:
        image = replay_one(image, record)
    once = list(snapshot_records(image))
    again = list(snapshot_records(replay(MetadataImage.EMPTY, once)))
    assert once == again
    assert all(r.record.MIN_VERSION <= r.version <= r.record.MAX_VERSION for r in once)


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_rule_with_several_ids_is_known_by_the_smallest(gone: int) -> None:
    binding = AclBinding(
        ResourcePattern(ResourceType.TOPIC, "x", PatternType.LITERAL),
        "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW,
    )  # fmt: skip
    ids = [a_uuid(2), a_uuid(1), a_uuid(3)]
    image = replay_one(MetadataImage.EMPTY, FIRST)
    for each in ids:
        image = replay_one(image, acl_record(each, binding).record)
    assert image.acls.ids == Map({binding: ids[1]})
    image = replay_one(image, RemoveAccessControlEntryRecord(id=ids.pop(gone)))
    assert image.acls.ids == Map({binding: min(ids)})
    other = replace(binding, principal="User:bob")
    image = replay_one(image, acl_record(min(ids), other).record)  # an id that is given anew
    assert image.acls.ids == Map({binding: max(ids), other: min(ids)})
    for each in ids:
        image = replay_one(image, RemoveAccessControlEntryRecord(id=each))
    assert not image.acls.ids


def test_every_metadata_record_of_kafka_has_a_replay() -> None:
    declared = {}
    for module in pkgutil.iter_modules(record_package.__path__):
        for cls in vars(import_module(f"barnabas.wire.records.{module.name}")).values():
            if isinstance(cls, type) and getattr(cls, "KIND", None) == "metadata":
                declared[cls.__name__] = cls
    missing = {name for name, cls in declared.items() if cls not in known_records()}
    assert missing == set(ELSEWHERE)


def test_every_marked_function_is_in_a_table() -> None:
    listed = {f for topic in TOPICS for f in topic.replays} | set(WHOLE)
    for module in pkgutil.iter_modules(metadata.__path__):
        if module.name == "delta":
            continue
        for name, value in vars(import_module(f"barnabas.core.metadata.{module.name}")).items():
            if isfunction(value) and replayed_by(value):
                assert value in listed, f"{module.name}.{name} is marked but in no table"


def test_a_topics_configs_go_with_it() -> None:
    image = MetadataImage.EMPTY
    for record in (
        FIRST,
        TopicRecord(name="a", topic_id=a_uuid(1)),
        ConfigRecord(resource_type=2, resource_name="a", name="k", value="v"),
        RemoveTopicRecord(topic_id=a_uuid(1)),
    ):
        image = replay_one(image, record)
    assert not image.configs.by_resource
    assert not image.topics.by_name


def test_images_are_not_changed_by_what_follows() -> None:
    before = replay_one(MetadataImage.EMPTY, FIRST)
    after = replay_one(before, TopicRecord(name="a", topic_id=a_uuid(1)))
    assert not before.topics.by_name
    assert set(after.topics.by_name) == {"a"}


@pytest.mark.requirement("A-14")
def test_an_acl_made_and_removed_in_one_batch_leaves_nothing() -> None:
    made = AccessControlEntryRecord(
        id=a_uuid(1), resource_type=2, resource_name="x", pattern_type=3, principal="User:a", host="*", operation=3,
        permission_type=3,
    )  # fmt: skip
    batch = [VersionedRecord(made, 0), VersionedRecord(RemoveAccessControlEntryRecord(id=a_uuid(1)), 0)]
    assert replay(MetadataImage.EMPTY, batch).acls == MetadataImage.EMPTY.acls


@pytest.mark.parametrize(
    ("record", "error", "text"),
    [
        (RemoveTopicRecord(topic_id=a_uuid(9)), ReplayError, "no earlier record made"),
        (PartitionRecord(topic_id=a_uuid(9)), ReplayError, "no earlier record made"),
        (RemoveAccessControlEntryRecord(id=a_uuid(9)), ReplayError, "no earlier record made"),
        (BeginTransactionRecord(), UnknownRecordError, "cannot apply"),
        (FeatureLevelRecord(name="metadata.version", feature_level=99), UnsupportedFeatureError, "7 to 30"),
        (FeatureLevelRecord(name="share.version", feature_level=1), UnsupportedFeatureError, "share.version=0"),
    ],
)
def test_records_that_do_not_fit_stop_the_replay(record: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        replay_one(MetadataImage.EMPTY, record)
