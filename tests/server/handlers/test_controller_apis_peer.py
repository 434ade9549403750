"""The controller's APIs answer with the codes that Apache Kafka answers with, request by request, in every version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from barnabas.net.client import Channel, ChannelSettings
from barnabas.server.config import NodeConfig
from barnabas.server.dev_node import prepare_plain
from barnabas.server.node import Node
from barnabas.wire.api_keys import API_KEYS
from barnabas.wire.errors import ErrorCode, ProtocolError
from barnabas.wire.messages import alter_client_quotas as quotas
from barnabas.wire.messages import alter_configs, incremental_alter_configs
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.wire.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.core.metadata.metadata_records import a_uuid
from tests.peers.kafka import RealKafka

pytestmark = pytest.mark.peer

T = "diff-controller-apis"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest_asyncio.fixture
async def both(tmp_path: Path, real_kafka: RealKafka) -> AsyncIterator[tuple[Channel, Channel]]:
    config = prepare_plain(tmp_path, "PLAINTEXT://127.0.0.1:0")
    node = Node(NodeConfig.parse({**config.originals, **SETTINGS}))
    await node.start()
    channels = []
    for address in (node.bootstrap(), real_kafka.bootstrap("PLAINTEXT")):
        host, _, port = address.partition(":")
        channels.append(await Channel.open(host, int(port), ChannelSettings()))
    ours, theirs = channels
    yield ours, theirs
    for channel in channels:
        await channel.close()
    await node.stop()


def told(message: Any) -> Any:
    """Give what a client's program acts on: all but texts, ids made at random, and how long to wait."""
    if isinstance(message, list):
        return sorted((told(item) for item in message), key=repr)
    if not hasattr(message, "__slots__"):
        return message
    names = [n for cls in type(message).__mro__ for n in getattr(cls, "__slots__", ())]
    return {
        name: ErrorCode(value).name if name.endswith("error_code") else told(value)
        for name in names
        if (value := getattr(message, name, None)) is not None
        and name not in ("error_message", "throttle_time_ms", "topic_id")
    }


def topic(name: str = T, partitions: int = -1, factor: int = -1, **rest: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **rest)


def by_hand(*replicas: tuple[int, list[int]]) -> list[CreatableReplicaAssignment]:
    return [CreatableReplicaAssignment(partition_index=i, broker_ids=ids) for i, ids in replicas]


def creates(*topics: CreatableTopic, dry: bool = True) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), validate_only=dry, timeout_ms=60_000)


def incremental(kind: int, name: str, *ops: tuple[str, int, str | None], dry: bool = True) -> Any:
    m = incremental_alter_configs
    configs = [m.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in ops]
    resource = m.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return m.IncrementalAlterConfigsRequest(resources=[resource], validate_only=dry)


def legacy(kind: int, name: str, *pairs: tuple[str, str | None]) -> Any:
    m = alter_configs
    configs = [m.AlterableConfig(name=key, value=value) for key, value in pairs]
    resource = m.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return m.AlterConfigsRequest(resources=[resource], validate_only=True)


def quota(entity: list[tuple[str, str | None]], *ops: tuple[str, float]) -> Any:
    parts = [quotas.EntityData(entity_type=t, entity_name=n) for t, n in entity]
    return quotas.AlterClientQuotasRequest(
        entries=[quotas.RequestEntryData(entity=parts, ops=[quotas.OpData(key=k, value=v) for k, v in ops])],
        validate_only=True,
    )


def acl(
    resource_type: int = 2, name: str = T, pattern: int = 3, operation: int = 3, permission: int = 3
) -> AclCreation:
    return AclCreation(
        resource_type=resource_type, resource_name=name, resource_pattern_type=pattern, principal="User:diff",
        host="*", operation=operation, permission_type=permission,
    )  # fmt: skip


def feature(name: str, level: int, kind: int = 1) -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    return UpdateFeaturesRequest(feature_updates=[update], validate_only=True)


def put(name: str = "diff", mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"p" * 32
    )


def grows(count: int, replicas: list[list[int]] | None = None, name: str = T) -> CreatePartitionsRequest:
    given = None if replicas is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in replicas]
    wanted = CreatePartitionsTopic(name=name, count=count, assignments=given)
    return CreatePartitionsRequest(topics=[wanted], timeout_ms=60_000, validate_only=True)


def moves(replicas: list[int] | None, name: str = T) -> AlterPartitionReassignmentsRequest:
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name, partitions=[partition])])


ONCE = [
    creates(topic(partitions=2, configs=[CreatableTopicConfig(name="retention.ms", value="7")]), dry=False),
    creates(topic(T + ".dot"), dry=False),
    incremental(2, T, ("cleanup.policy", 2, "compact"), ("retention.ms", 1, None), dry=False),
    AlterUserScramCredentialsRequest(upsertions=[put()]),
    CreateAclsRequest(creations=[acl(), acl(), acl(operation=4)]),
]
"""What the rest stands on; each is sent once, in the newest version."""

ALWAYS = [
    creates(topic()),
    creates(topic(T + "-new", 3, 1), topic(T + "-two", 1, 2), topic(T + "-two", 1, 1)),
    creates(topic(T + "_dot")),
    creates(topic("")),
    creates(topic("..")),
    creates(topic("x" * 250)),
    creates(topic("a b")),
    creates(topic("__cluster_metadata")),
    creates(topic(T + "-new", 0, 1)),
    creates(topic(T + "-new", 1, 0)),
    creates(topic(T + "-new", 1, -2)),
    creates(topic(T + "-new", 10_001, 1)),
    creates(topic(T + "-new", 1, 1, configs=[CreatableTopicConfig(name="retention.ms", value="x")])),
    creates(topic(T + "-new", 1, 1, configs=[CreatableTopicConfig(name="nonsense", value="x")])),
    creates(topic(T + "-new", 1, 1, configs=[CreatableTopicConfig(name="retention.ms", value=None)])),
    creates(topic(T + "-new", assignments=by_hand((0, [1]), (1, [1])))),
    creates(topic(T + "-new", 1, assignments=by_hand((0, [1])))),
    creates(topic(T + "-new", assignments=by_hand((0, [1]), (0, [1])))),
    creates(topic(T + "-new", assignments=by_hand((1, [1])))),
    creates(topic(T + "-new", assignments=by_hand((0, [1, 1])))),
    creates(topic(T + "-new", assignments=by_hand((0, [77])))),
    creates(topic(T + "-new", assignments=by_hand((0, [])))),
    DeleteTopicsRequest(topic_names=[T + "-none", T + "-twice", T + "-twice"], timeout_ms=60_000),
    DeleteTopicsRequest(
        topics=[
            DeleteTopicState(name=T + "-none"),
            DeleteTopicState(topic_id=a_uuid(1)),
            DeleteTopicState(topic_id=a_uuid(2), name=T),
            DeleteTopicState(),
        ],
        timeout_ms=60_000,
    ),
    grows(2),
    grows(1),
    grows(3),
    grows(3, [[1]]),
    grows(3, [[1], [1]]),
    grows(3, [[77]]),
    grows(3, name=T + "-none"),
    legacy(2, T, ("retention.ms", "9")),
    legacy(2, T, ("retention.ms", None)),
    legacy(2, T, ("retention.ms", "x")),
    legacy(2, T, ("retention.ms", "1"), ("retention.ms", "2")),
    legacy(2, T + "-none", ("retention.ms", "9")),
    legacy(4, "1", ("node.id", "9")),
    legacy(8, "1", ("root", "INFO")),
    legacy(99, "1", ("x", "y")),
    incremental(2, T, ("retention.ms", 0, "9"), ("min.insync.replicas", 0, "1")),
    incremental(2, T, ("retention.ms", 2, "9")),
    incremental(2, T, ("retention.ms", 0, None)),
    incremental(2, "", ("retention.ms", 0, "1")),
    incremental(2, "a b", ("retention.ms", 0, "1")),
    incremental(2, T, ("cleanup.policy", 2, "nonsense")),
    incremental(4, "1", ("message.max.bytes", 0, "1000013")),
    incremental(4, "1", ("message.max.bytes", 0, "x")),
    incremental(4, "1", ("broker.rack", 0, "x")),
    incremental(4, "77", ("message.max.bytes", 0, "1000013")),
    incremental(4, "one", ("message.max.bytes", 0, "1000013")),
    incremental(4, "", ("min.insync.replicas", 1, None)),
    incremental(4, "1", ("min.insync.replicas", 0, "2")),
    incremental(8, "1", ("nonsense-logger", 0, "INFO")),
    incremental(8, "1", ("root", 0, "LOUD")),
    incremental(8, "1", ("root", 1, None)),
    incremental(8, "1", ("root", 2, "INFO")),
    incremental(8, "77", ("root", 0, "INFO")),
    incremental(99, "x", ("y", 0, "z")),
    quota([("user", "diff")], ("producer_byte_rate", 1.0)),
    quota([("user", "diff")], ("producer_byte_rate", 1.5)),
    quota([("user", "diff")], ("producer_byte_rate", 0.0)),
    quota([("user", "diff")], ("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0)),
    quota([("user", "diff")], ("nonsense", 1.0)),
    quota([("user", "")], ("producer_byte_rate", 1.0)),
    quota([("nonsense", "x")], ("producer_byte_rate", 1.0)),
    quota([("user", "diff"), ("ip", "1.2.3.4")], ("producer_byte_rate", 1.0)),
    quota([("ip", "1.2.3.4")], ("connection_creation_rate", 1.0)),
    quota([("ip", None)], ("connection_creation_rate", 1.0)),
    quota([], ("producer_byte_rate", 1.0)),
    AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="diff-none", mechanism=1)]),
    AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="diff", mechanism=2)]),
    AlterUserScramCredentialsRequest(upsertions=[put(""), put("x", 0), put("y", 1, 4095), put("z", 2, 16385)]),
    AlterUserScramCredentialsRequest(upsertions=[put("x"), put("x", 2)]),
    CreateAclsRequest(creations=[acl(name="")]),
    CreateAclsRequest(creations=[acl(resource_type=4, name="x")]),
    DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=2,
                resource_name_filter="diff-none",
                pattern_type_filter=3,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
        ]
    ),
    ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=T, partitions=[0, 9])], timeout_ms=60_000),
    ElectLeadersRequest(
        election_type=1, topic_partitions=[TopicPartitions(topic=T, partitions=[0])], timeout_ms=60_000
    ),
    ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=T + "-none", partitions=[0])], timeout_ms=60_000),
    feature("nonsense", 1),
    feature("metadata.version", 99),
    feature("metadata.version", 29),
    feature("metadata.version", 29, 2),
    feature("metadata.version", 29, 3),
    feature("metadata.version", 30),
    feature("eligible.leader.replicas.version", 1),
    feature("kraft.version", 0, 2),
    moves(None),
    moves([77]),
    moves([1, 1]),
    moves([]),
    moves([1]),
    moves([1], T + "-none"),
    ListPartitionReassignmentsRequest(),
    UnregisterBrokerRequest(broker_id=77),
]
"""What changes nothing, whatever the answer: sent in every version that can say it."""


BETTER = [
    incremental(2, T, ("retention.ms", 9, "1")),
    CreateAclsRequest(creations=[acl(resource_type=1)]),
    CreateAclsRequest(creations=[acl(operation=1)]),
    CreateAclsRequest(creations=[acl(permission=1)]),
    CreateAclsRequest(creations=[acl(pattern=1)]),
    CreateAclsRequest(creations=[acl(pattern=2)]),
]
"""What Kafka's broker stumbles over (UNKNOWN_SERVER_ERROR) and we call INVALID_REQUEST, as A-38 wants."""


async def ask(channel: Channel, request: Any, version: int) -> Any:
    async with asyncio.timeout(60):
        return told(await channel.call(request, version=version))


async def test_the_same_codes_as_apache_kafka(both: tuple[Channel, Channel]) -> None:
    ours, theirs = both
    differ = []
    for request in (*ONCE, *ALWAYS):
        row = API_KEYS[request.API_KEY]
        newest = row.max_version
        versions = [newest] if request in ONCE else range(row.min_version, newest + 1)
        for version in versions:
            try:
                mine = await ask(ours, request, version)
            except ProtocolError:
                continue  # this version cannot say it
            real = await ask(theirs, request, version)
            if mine != real:
                differ.append(f"{request} v{version}\n  ours   {mine}\n  Kafka's {real}")
    assert not differ, "\n".join(differ)


@pytest.mark.requirement("A-38")
async def test_where_kafka_stumbles_we_say_what_is_wrong(both: tuple[Channel, Channel]) -> None:
    ours, theirs = both
    await ask(ours, ONCE[0], 7)
    for request in BETTER:
        newest = API_KEYS[request.API_KEY].max_version
        assert "INVALID_REQUEST" in repr(await ask(ours, request, newest)), request
        assert "UNKNOWN_SERVER_ERROR" in repr(await ask(theirs, request, newest)), request
