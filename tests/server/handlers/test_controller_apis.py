"""The controller's APIs and rights: what somebody without them learns, and what each right allows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from barnabas.model.principal import KafkaPrincipal
from barnabas.model.uuid import ZERO_UUID, Uuid
from barnabas.server.authorization import Authz
from barnabas.server.config import NodeConfig
from barnabas.server.context import ClientConnection, RequestContext
from barnabas.server.dev_node import prepare_plain
from barnabas.server.node import Node
from barnabas.wire.api_keys import API_KEYS
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import alter_client_quotas as quotas
from barnabas.wire.messages import incremental_alter_configs as incremental
from barnabas.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.wire.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.wire.messages.update_features import UpdateFeaturesRequest

pytestmark = pytest.mark.asyncio(loop_scope="module")

E = ErrorCode
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
}
CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 5, 6, 7, 8, 10, 11
TOPIC, CLUSTER = 2, 4


class World:
    """A node, and people who ask it for things."""

    def __init__(self, node: Node) -> None:
        self.node = node

    async def ask(self, who: str, request: Any) -> Any:
        """Give the answer to the newest version of a request, as forwarded by a broker for User:`who`."""
        row = API_KEYS[request.API_KEY]
        principal = KafkaPrincipal("User", who)
        ctx = RequestContext(
            node=self.node,
            connection=ClientConnection("c", "127.0.0.1", 1, "PLAINTEXT", "PLAINTEXT", principal),
            row=row,
            version=row.max_version,
            correlation_id=1,
            client_id="test",
            authz=Authz(self.node.authorizer(), principal, "127.0.0.1", request.NAME),
            forwarded_by=principal,
        )
        router = self.node.controller_router
        assert router is not None
        answer = await router.serve_message(request, ctx)
        assert ctx.authz.decided, "an answer without a decision is never sent"
        return answer

    async def allow(self, who: str, operation: int, name: str, kind: int = TOPIC) -> None:
        creation = AclCreation(
            resource_type=kind, resource_name=name, principal=f"User:{who}", host="*", operation=operation,
            permission_type=3,
        )  # fmt: skip
        answer = await self.ask("root", CreateAclsRequest(creations=[creation]))
        assert answer.results[0].error_code == E.NONE

    async def create(self, who: str, *names: str) -> dict[str, ErrorCode]:
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
        answer = await self.ask(who, CreateTopicsRequest(topics=topics))
        return {topic.name: ErrorCode(topic.error_code) for topic in answer.topics}

    async def delete(self, who: str, *wanted: str | Uuid) -> list[tuple[str | None, Uuid, ErrorCode]]:
        states = [DeleteTopicState(name=w) if isinstance(w, str) else DeleteTopicState(topic_id=w) for w in wanted]
        answer = await self.ask(who, DeleteTopicsRequest(topics=states))
        return sorted(((r.name, r.topic_id, ErrorCode(r.error_code)) for r in answer.responses), key=repr)

    def id_of(self, name: str) -> Uuid:
        return self.node.controller.image.topics.by_name[name].id


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    config = prepare_plain(tmp_path_factory.mktemp("node"), "PLAINTEXT://127.0.0.1:0")
    node = Node(NodeConfig.parse({**config.originals, **AUTHORIZER}))
    await node.start()
    yield node
    await node.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def world(node: Node) -> AsyncIterator[World]:
    world = World(node)
    yield world
    everything = DeleteAclsFilter(
        resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
        host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip
    await world.ask("root", DeleteAclsRequest(filters=[everything]))
    await world.delete("root", *node.controller.image.topics.by_name)


async def test_topics_are_created_by_those_who_may(world: World) -> None:
    assert await world.create("alice", "a", "b") == {
        "a": E.TOPIC_AUTHORIZATION_FAILED,
        "b": E.TOPIC_AUTHORIZATION_FAILED,
    }
    await world.allow("alice", CREATE, "a")
    assert await world.create("alice", "a", "b") == {"a": E.NONE, "b": E.TOPIC_AUTHORIZATION_FAILED}
    await world.allow("alice", CREATE, "kafka-cluster", CLUSTER)
    assert await world.create("alice", "b", "__cluster_metadata", "c", "c") == {
        "b": E.NONE,
        "__cluster_metadata": E.INVALID_REQUEST,
        "c": E.INVALID_REQUEST,
    }


async def test_the_configs_of_a_new_topic_are_shown_to_those_who_may_see_them(world: World) -> None:
    await world.allow("alice", CREATE, "kafka-cluster", CLUSTER)
    await world.allow("alice", DESCRIBE_CONFIGS, "seen")
    topics = [CreatableTopic(name=n, num_partitions=2, replication_factor=1) for n in ("seen", "hidden")]
    answer = await world.ask("alice", CreateTopicsRequest(topics=topics))
    seen, hidden = sorted(answer.topics, key=lambda t: t.name == "hidden")
    assert (seen.num_partitions, seen.topic_config_error_code) == (2, E.NONE)
    assert {c.name for c in seen.configs} >= {"retention.ms", "cleanup.policy"}
    assert (hidden.num_partitions, hidden.topic_config_error_code) == (-1, E.TOPIC_AUTHORIZATION_FAILED)
    assert hidden.configs == []


async def test_a_stranger_learns_nothing_by_deleting(world: World) -> None:
    await world.create("root", "there")
    topic_id = world.id_of("there")
    assert await world.delete("alice", "there") == [("there", ZERO_UUID, E.TOPIC_AUTHORIZATION_FAILED)]
    assert await world.delete("alice", "absent") == [("absent", ZERO_UUID, E.TOPIC_AUTHORIZATION_FAILED)]
    assert await world.delete("alice", topic_id) == [(None, topic_id, E.TOPIC_AUTHORIZATION_FAILED)]
    await world.allow("alice", DESCRIBE, "there")
    await world.allow("alice", DESCRIBE, "absent")
    assert await world.delete("alice", topic_id) == [("there", topic_id, E.TOPIC_AUTHORIZATION_FAILED)]
    assert await world.delete("alice", "absent") == [("absent", ZERO_UUID, E.UNKNOWN_TOPIC_OR_PARTITION)]
    await world.allow("alice", DELETE, "there")
    assert await world.delete("alice", topic_id, "there") == [("there", topic_id, E.INVALID_REQUEST)]
    assert await world.delete("alice", "there", "there") == [("there", ZERO_UUID, E.INVALID_REQUEST)]
    assert await world.delete("alice", "there") == [("there", topic_id, E.NONE)]
    assert "there" not in world.node.controller.image.topics.by_name


async def test_partitions_are_added_by_those_who_may_alter_the_topic(world: World) -> None:
    await world.create("root", "t")
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=3, assignments=None)])
    assert (await world.ask("alice", request)).results[0].error_code == E.TOPIC_AUTHORIZATION_FAILED
    await world.allow("alice", ALTER, "t")
    assert (await world.ask("alice", request)).results[0].error_code == E.NONE
    assert len(world.node.controller.image.topics.by_name["t"].partitions) == 3


def setting(kind: int, name: str, key: str, value: str) -> incremental.IncrementalAlterConfigsRequest:
    configs = [incremental.AlterableConfig(name=key, value=value)]
    resource = incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return incremental.IncrementalAlterConfigsRequest(resources=[resource])


@pytest.mark.parametrize(
    ("request_", "code", "right"),
    [
        (setting(2, "t", "retention.ms", "9"), E.TOPIC_AUTHORIZATION_FAILED, (ALTER_CONFIGS, "t", TOPIC)),
        (
            setting(4, "", "log.retention.ms", "9"),
            E.CLUSTER_AUTHORIZATION_FAILED,
            (ALTER_CONFIGS, "kafka-cluster", CLUSTER),
        ),
        (setting(8, "1", "asyncio", "INFO"), E.CLUSTER_AUTHORIZATION_FAILED, (9, "kafka-cluster", CLUSTER)),
    ],
)
async def test_configs_are_altered_by_those_who_may(
    world: World, request_: Any, code: ErrorCode, right: tuple[int, str, int]
) -> None:
    await world.create("root", "t")
    assert ErrorCode((await world.ask("alice", request_)).responses[0].error_code) is code
    await world.allow("alice", *right)
    assert ErrorCode((await world.ask("alice", request_)).responses[0].error_code) is E.NONE


def error_codes(message: Any) -> Iterator[ErrorCode]:
    """Give every error code in a response, wherever it stands."""
    if isinstance(message, list):
        for item in message:
            yield from error_codes(item)
        return
    for name in [n for cls in type(message).__mro__ for n in getattr(cls, "__slots__", ())]:
        value = getattr(message, name, None)
        if name == "error_code":
            yield ErrorCode(int(value or 0))
        elif isinstance(value, list):
            yield from error_codes(value)


@pytest.mark.requirement("A-39")
@pytest.mark.parametrize(
    "request_",
    [
        CreateAclsRequest(creations=[AclCreation()]),
        DeleteAclsRequest(filters=[DeleteAclsFilter()]),
        AlterClientQuotasRequest(entries=[quotas.RequestEntryData(entity=[quotas.EntityData()])]),
        ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0])]),
        UpdateFeaturesRequest(),
        UnregisterBrokerRequest(broker_id=1),
        BrokerHeartbeatRequest(broker_id=1),
        AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="x", mechanism=1)]),
    ],
)
async def test_what_concerns_the_cluster_is_refused_to_strangers(world: World, request_: Any) -> None:
    before = world.node.controller.image.offset_epoch
    codes = set(error_codes(await world.ask("alice", request_)))
    assert codes - {E.NONE} == {E.CLUSTER_AUTHORIZATION_FAILED}
    assert world.node.controller.image.offset_epoch == before


@pytest.mark.requirement("A-39")
async def test_without_an_authorizer_rules_cannot_be_kept(tmp_path: Path) -> None:
    node = Node(prepare_plain(tmp_path, "PLAINTEXT://127.0.0.1:0"))
    await node.start()
    try:
        channel = node.channel
        for request in (CreateAclsRequest(creations=[AclCreation()]), DeleteAclsRequest(filters=[DeleteAclsFilter()])):
            answer = await channel.call(request, request.MAX_VERSION)
            results = getattr(answer, "results", None) or answer.filter_results
            assert [ErrorCode(r.error_code) for r in results] == [E.SECURITY_DISABLED]
    finally:
        await node.stop()


async def test_where_topics_are_not_deleted_everybody_is_told_so(tmp_path: Path) -> None:
    config = prepare_plain(tmp_path, "PLAINTEXT://127.0.0.1:0")
    node = Node(NodeConfig.parse({**config.originals, "delete.topic.enable": "false"}))
    await node.start()
    try:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        await node.channel.call(CreateTopicsRequest(topics=[topic]), 7)
        codes = {}
        for version in range(1, 7):
            names: dict[str, Any] = {"topics": [DeleteTopicState(name="t")]} if version == 6 else {"topic_names": ["t"]}
            answer = await node.channel.call(DeleteTopicsRequest(**names), version)
            codes[version] = [(one.name, ErrorCode(one.error_code), one.error_message) for one in answer.responses]
        older, newer = [("t", E.INVALID_REQUEST, None)], [("t", E.TOPIC_DELETION_DISABLED, None)]
        assert codes == {1: older, 2: older, **dict.fromkeys(range(3, 7), newer)}
        assert "t" in node.controller.image.topics.by_name
    finally:
        await node.stop()
