"""Policies: how a node finds them, what they are asked, and that nothing gets around them (KIP-108, KIP-133)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barnabas.core.metadata.config_changes import Op, alter_configs, incremental_alter_configs
from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType
from barnabas.core.metadata.topic_changes import create_topics
from barnabas.model.config import ConfigError
from barnabas.server.config_schema import NodeConfigSchema
from barnabas.server.policies import (
    AlterConfigPolicy,
    ConfigsRequest,
    CreateTopicPolicy,
    Policies,
    PolicyViolationError,
    TopicRequest,
)
from barnabas.testing.cluster import Cluster
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.core.metadata.clusters import a_cluster, a_partition, apply, plans, with_topic

from .controllers import node_config
from .frames import LOGIN, FramePeer, port_of, several_listeners
from .requests import build

TOPIC = ConfigResource(ConfigResourceType.TOPIC, "t")


class RefuseEverything(CreateTopicPolicy):
    """Refuses; the text names the topic."""

    def validate(self, request: TopicRequest) -> None:
        raise PolicyViolationError(f"no {request.topic} here")


class KeepRetention(AlterConfigPolicy):
    """Remembers what it was asked, and refuses another retention."""

    def __init__(self) -> None:
        self.properties: Mapping[str, Any] = {}
        self.asked: list[ConfigsRequest] = []
        self.closed = False

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.properties = configs

    def validate(self, request: ConfigsRequest) -> None:
        self.asked.append(request)
        if request.configs.get("retention.ms"):
            raise PolicyViolationError("retention stays")

    def close(self) -> None:
        self.closed = True


class Unfinished(CreateTopicPolicy):
    """Forgets what it is for."""


class Broken(CreateTopicPolicy):
    """Fails in a way of its own."""

    def validate(self, request: TopicRequest) -> None:
        raise ZeroDivisionError("oops")


HERE = __name__


@pytest.mark.parametrize("name", [f"{HERE}:RefuseEverything", f"{HERE}.RefuseEverything", "refuse"])
def test_a_policy_is_named_as_a_class_or_an_entry_point(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "house_rules-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: house-rules\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(f"[barnabas.policies]\nrefuse = {HERE}:RefuseEverything\n")
    monkeypatch.syspath_prepend(tmp_path)
    policies = Policies.load(node_config(tmp_path, create__topic__policy__class__name=name))
    with pytest.raises(ApiError, match="no t here") as error:
        policies.create_topic(TopicRequest("t"))
    assert error.value.code is ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("org.example.Policy", "want a Python class as module:Class"),
        ("nobody", "no entry point 'nobody'"),
        (f"{HERE}:Missing", "cannot load"),
        (f"{HERE}:KeepRetention", "is not a CreateTopicPolicy"),
        (f"{HERE}:Unfinished", r"has no method validate"),
    ],
)
def test_a_policy_that_cannot_be_had_stops_the_start(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"create\.topic\.policy\.class\.name.*" + text):
        Policies.load(node_config(tmp_path, create__topic__policy__class__name=name))


def test_a_topic_policy_sees_what_would_be_made(tmp_path: Path) -> None:
    asked: list[TopicRequest] = []
    lent = replace(plans(num_partitions=4, replication_factor=2), check_policy=asked.append)
    configs = [CreatableTopicConfig(name="retention.ms", value="7")]
    by_default = CreatableTopic(name="a", num_partitions=-1, replication_factor=-1, configs=configs)
    by_hand = CreatableTopic(
        name="b",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[2, 1])],
    )
    request = CreateTopicsRequest(topics=[by_default, by_hand], validate_only=True)
    create_topics(a_cluster(1, 2), request, lent)
    assert asked == [TopicRequest("a", 4, 2, None, {"retention.ms": "7"}), TopicRequest("b", None, None, {0: (2, 1)})]


def test_a_config_policy_sees_what_changes(tmp_path: Path) -> None:
    config = node_config(tmp_path, alter__config__policy__class__name=f"{HERE}:KeepRetention")
    policies = Policies.load(config)
    [policy] = policies._made
    assert isinstance(policy, KeepRetention)
    assert policy.properties["node.id"] == "1"
    schema = NodeConfigSchema(config, policies.alter_config)
    image = with_topic(a_cluster(1), "t", a_partition([1]))

    def changed(**values: str | None) -> ApiError | None:
        ops = {k.replace("_", "."): (Op.DELETE if v is None else Op.SET, v) for k, v in values.items()}
        return incremental_alter_configs(image, {TOPIC: ops}, schema).response[TOPIC]

    refused = changed(retention_ms="7", segment_ms="9")
    assert refused is not None
    assert (refused.code, refused.message) == (ErrorCode.POLICY_VIOLATION, "retention stays")
    assert changed(segment_ms="9") is None
    assert policy.asked == [
        ConfigsRequest("TOPIC", "t", {"retention.ms": "7", "segment.ms": "9"}),
        ConfigsRequest("TOPIC", "t", {"segment.ms": "9"}),
    ]
    image = apply(image, incremental_alter_configs(image, {TOPIC: {"segment.ms": (Op.SET, "9")}}, schema).records)
    policy.asked.clear()
    replaced = alter_configs(image, {TOPIC: {"max.message.bytes": "5"}}, schema)
    assert len(replaced.records) == 2, "segment.ms goes, and the policy is not asked about that"
    assert policy.asked == [ConfigsRequest("TOPIC", "t", {"max.message.bytes": "5"})]
    policies.close()
    assert policy.closed


def test_a_policy_that_fails_refuses(tmp_path: Path) -> None:
    policies = Policies.load(node_config(tmp_path, create__topic__policy__class__name=f"{HERE}:Broken"))
    with pytest.raises(ApiError, match="oops") as error:
        policies.create_topic(TopicRequest("t"))
    assert error.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.slow
@pytest.mark.requirement("F-09")
def test_neither_clients_nor_the_cluster_itself_get_around_the_policy(tmp_path: Path) -> None:
    settings = several_listeners(
        create__topic__policy__class__name=f"{HERE}:RefuseEverything", auto__create__topics__enable="true"
    )
    with Cluster(tmp_path, settings) as cluster, FramePeer(port_of(cluster, LOGIN)) as root:
        root.login("root")
        wanted = [{"name": "asked-for", "num_partitions": 1, "replication_factor": 1}]
        [refused] = root.call(build(ApiKey.CREATE_TOPICS, topics=wanted)).topics
        assert (refused.error_code, refused.error_message) == (ErrorCode.POLICY_VIOLATION, "no asked-for here")
        automatic = build(ApiKey.METADATA, topics=[{"name": "automatic"}], allow_auto_topic_creation=True)
        [topic] = root.call(automatic).topics
        assert topic.error_code == ErrorCode.POLICY_VIOLATION
        coordinator = build(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=["g"])
        [found] = root.call(coordinator).coordinators
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, "there is no __consumer_offsets"
        assert root.call(build(ApiKey.METADATA, topics=None)).topics == []
