"""AlterConfigs and IncrementalAlterConfigs: what is set, and what the features in use forbid."""

from __future__ import annotations

import pytest

from barnabas.core.metadata.config_changes import (
    Change,
    Op,
    alter_configs,
    elr_safety_records,
    incremental_alter_configs,
)
from barnabas.core.metadata.configs import CLUSTER_DEFAULT, ConfigResource, ConfigResourceType
from barnabas.core.metadata.image import MetadataImage
from barnabas.wire.errors import ErrorCode
from barnabas.wire.records.clear_elr_record import ClearElrRecord
from tests.core.metadata.clusters import SCHEMA, a_cluster, a_partition, apply, with_topic

E = ErrorCode
TOPIC = ConfigResource(ConfigResourceType.TOPIC, "t")
BROKER = ConfigResource(ConfigResourceType.BROKER, "1")


def a_configured_cluster(**overrides: str) -> MetadataImage:
    image = with_topic(a_cluster(1), "t", a_partition([1]))
    ops: dict[str, Change] = {key: (Op.SET, value) for key, value in overrides.items()}
    return apply(image, incremental_alter_configs(image, {BROKER: ops}, SCHEMA).records)


def altered(image: MetadataImage, resource: ConfigResource, key: str, op: Op, value: str | None) -> ErrorCode | str:
    """Give the new value, or why there is none."""
    decision = incremental_alter_configs(image, {resource: {key: (op, value)}}, SCHEMA)
    error = decision.response[resource]
    if error is not None:
        assert decision.records == ()
        assert error.message
        return error.code
    return apply(image, decision.records).configs.get(resource).get(key, "unset")


def test_keys_are_set_deleted_appended_and_subtracted() -> None:
    image = with_topic(a_cluster(1), "t", a_partition([1]))
    assert altered(image, TOPIC, "retention.ms", Op.SET, "7") == "7"
    assert altered(image, TOPIC, "retention.ms", Op.DELETE, None) == "unset"
    assert altered(image, TOPIC, "cleanup.policy", Op.APPEND, "compact") == "delete,compact"
    assert altered(image, TOPIC, "cleanup.policy", Op.APPEND, "delete") == "delete"
    assert altered(image, TOPIC, "cleanup.policy", Op.SUBTRACT, "delete") == ""
    assert altered(image, TOPIC, "cleanup.policy", Op.SUBTRACT, "x") == "delete"


def test_what_is_wrong_has_kafkas_code() -> None:
    image = with_topic(a_cluster(1), "t", a_partition([1]))
    assert altered(image, TOPIC, "retention.ms", Op.APPEND, "7") is E.INVALID_CONFIG
    assert altered(image, TOPIC, "retention.ms", Op.SET, "bad") is E.INVALID_CONFIG
    assert altered(image, TOPIC, "retention.ms", Op.SET, "x" * 32768) is E.INVALID_CONFIG
    absent = ConfigResource(ConfigResourceType.TOPIC, "absent")
    assert altered(image, absent, "retention.ms", Op.SET, "7") is E.UNKNOWN_TOPIC_OR_PARTITION
    other = ConfigResource(ConfigResourceType.BROKER, "2")
    assert altered(image, other, "k", Op.SET, "7") is E.BROKER_ID_NOT_REGISTERED


def test_a_topics_key_that_stays_is_not_written_but_a_brokers_is() -> None:
    image = a_configured_cluster(k="v")
    again = incremental_alter_configs(image, {BROKER: {"k": (Op.SET, "v")}}, SCHEMA)
    assert len(again.records) == 1, "brokers read files anew when they see the record"
    same = incremental_alter_configs(image, {TOPIC: {"retention.ms": (Op.DELETE, None)}}, SCHEMA)
    assert same.records == ()


def test_one_bad_resource_does_not_hold_up_the_others() -> None:
    image = with_topic(a_cluster(1), "t", a_partition([1]))
    changes: dict[ConfigResource, dict[str, Change]] = {
        TOPIC: {"retention.ms": (Op.SET, "bad"), "min.insync.replicas": (Op.SET, "2")},
        CLUSTER_DEFAULT: {"k": (Op.SET, "v")},
    }
    decision = incremental_alter_configs(image, changes, SCHEMA)
    after = apply(image, decision.records)
    assert dict(after.configs.get(CLUSTER_DEFAULT)) == {"k": "v"}
    assert not after.configs.get(TOPIC)
    assert incremental_alter_configs(image, changes, SCHEMA, validate_only=True).records == ()


def test_the_old_api_drops_what_is_not_named() -> None:
    image = with_topic(a_cluster(1), "t", a_partition([1]))
    both = {TOPIC: {"retention.ms": "7", "min.insync.replicas": "2"}}
    image = apply(image, alter_configs(image, both, SCHEMA).records)
    image = apply(image, alter_configs(image, {TOPIC: {"min.insync.replicas": "3"}}, SCHEMA).records)
    assert dict(image.configs.get(TOPIC)) == {"min.insync.replicas": "3"}
    error = alter_configs(image, {TOPIC: {"retention.ms": "bad"}}, SCHEMA).response[TOPIC]
    assert error is not None
    assert error.code is E.INVALID_CONFIG


def test_min_insync_replicas_is_guarded_while_eligible_leaders_are_kept() -> None:
    image = with_topic(a_cluster(1, elr=True), "t", a_partition([1]))
    key = "min.insync.replicas"
    assert altered(image, BROKER, key, Op.SET, "2") is E.INVALID_CONFIG
    assert altered(image, CLUSTER_DEFAULT, key, Op.DELETE, None) is E.INVALID_CONFIG
    assert altered(image, CLUSTER_DEFAULT, key, Op.SET, "2") == "2"
    plain = with_topic(a_cluster(1), "t", a_partition([1]))
    assert altered(plain, BROKER, key, Op.SET, "2") == "2"


def test_a_change_of_min_insync_replicas_forgets_who_was_eligible() -> None:
    image = with_topic(a_cluster(1, elr=True), "t", a_partition([1, 2], [1], elr=(2,)))
    changes: dict[ConfigResource, dict[str, Change]] = {TOPIC: {"min.insync.replicas": (Op.SET, "2")}}
    decision = incremental_alter_configs(image, changes, SCHEMA)
    assert decision.records[-1].record == ClearElrRecord(topic_name="t")
    assert apply(image, decision.records).topics.by_name["t"].partitions[0].elr == ()


def test_turning_eligible_leaders_on_moves_min_insync_replicas_to_the_cluster() -> None:
    image = a_configured_cluster(**{"min.insync.replicas": "2"})
    after = apply(image, elr_safety_records(image, 3))
    assert dict(after.configs.get(CLUSTER_DEFAULT)) == {"min.insync.replicas": "3"}
    assert not after.configs.get(BROKER)
    assert elr_safety_records(after, 4) == []


@pytest.mark.parametrize(("forwarded", "value", "fine"), [(True, "/a", True), (False, "/a", False), (False, "", True)])
def test_only_a_broker_knows_which_directories_to_cordon(forwarded: bool, value: str, fine: bool) -> None:
    image = a_cluster(1)
    changes: dict[ConfigResource, dict[str, Change]] = {BROKER: {"cordoned.log.dirs": (Op.SET, value)}}
    decision = incremental_alter_configs(image, changes, SCHEMA, forwarded=forwarded)
    assert (decision.response[BROKER] is None) == fine
    old = incremental_alter_configs(a_cluster(1, metadata_version=29), changes, SCHEMA)
    assert old.response[BROKER] is not None
