"""The admin client against a real Apache Kafka."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import AlterConfigOp, ConfigChange, ConfigResource, ConfigResourceType, ConfigSource
from barnabas.client.admin.groups import CommittedOffset
from barnabas.client.admin.nodes import FeatureUpdate
from barnabas.client.admin.topics import ListedOffset, NewTopic, OffsetSpec
from barnabas.client.admin.users import EntityMatch, ScramDeletion, ScramInfo, ScramUpsertion
from barnabas.client.config import ClientConfig
from barnabas.model.acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.config import Password
from barnabas.model.topic_partition import TopicPartition
from barnabas.net.client import AuthenticationError, DisconnectedError, TlsHandshakeError
from barnabas.wire.errors import ApiError, ErrorCode
from tests.peers.eventually import eventually
from tests.peers.kafka import ADMIN, RealKafka

pytestmark = pytest.mark.peer


@pytest.fixture
async def admin(real_kafka: RealKafka) -> AsyncIterator[Admin]:
    async with Admin(ClientConfig.from_properties(real_kafka.client_properties())) as made:
        yield made


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:10]}"


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [
        ("PLAINTEXT", ""),
        ("SSL", ""),
        ("SASL_PLAINTEXT", "SCRAM-SHA-512"),
        ("SASL_SSL", "SCRAM-SHA-256"),
        ("SASL_SSL", "SCRAM-SHA-512"),
        ("SASL_SSL", "PLAIN"),
    ],
)
async def test_reaches_each_listener(real_kafka: RealKafka, protocol: str, mechanism: str) -> None:
    properties = real_kafka.client_properties(protocol, ADMIN, mechanism=mechanism)
    async with Admin(ClientConfig.from_properties(properties)) as admin:
        described = await admin.describe_cluster()
    assert [b.port for b in described.brokers] == [real_kafka.ports[protocol]]


async def test_a_wrong_password_is_refused(real_kafka: RealKafka) -> None:
    properties = real_kafka.client_properties("SASL_SSL", "alice", "wrong")
    async with Admin(ClientConfig.from_properties(properties)) as admin:
        with pytest.raises(AuthenticationError, match="SCRAM-SHA-512"):
            await admin.describe_cluster()


async def test_an_unknown_authority_is_not_trusted(real_kafka: RealKafka) -> None:
    properties = real_kafka.client_properties("SASL_SSL")
    for key in ("ssl.truststore.type", "ssl.truststore.location"):
        del properties[key]
    async with Admin(ClientConfig.from_properties(properties)) as admin:
        with pytest.raises(TlsHandshakeError, match=r"ssl\.truststore\.location"):
            await admin.describe_cluster()


@pytest.mark.parametrize(
    ("listener", "said", "hint"),
    [("SSL", "PLAINTEXT", ""), ("PLAINTEXT", "SSL", "PLAINTEXT"), ("SASL_PLAINTEXT", "PLAINTEXT", "")],
)
async def test_the_wrong_protocol_is_explained(real_kafka: RealKafka, listener: str, said: str, hint: str) -> None:
    properties = {
        "bootstrap.servers": real_kafka.bootstrap(listener),
        "security.protocol": said,
        "default.api.timeout.ms": "3000",
    }
    async with Admin(ClientConfig.from_properties(properties)) as admin:
        with pytest.raises((DisconnectedError, TlsHandshakeError), match=rf"security\.protocol.*{hint}"):
            await admin.describe_cluster()


async def test_topics_are_created_grown_and_deleted(admin: Admin, name: str) -> None:
    assert await admin.create_topics([NewTopic(name, 2, 1, configs={"retention.ms": "1000"})]) == {name: None}
    again = (await admin.create_topics([NewTopic(name, 2, 1)]))[name]
    assert again is not None
    assert again.code == ErrorCode.TOPIC_ALREADY_EXISTS
    await admin.create_partitions(name, 5)
    await eventually(lambda: _partitions(admin, name), 5)
    (described,) = await admin.describe_topics([name], partition_limit=2)
    assert [p.partition_index for p in described.partitions] == [0, 1, 2, 3, 4]
    assert await admin.delete_topics([name]) == {name: None}
    await eventually(lambda: _partitions(admin, name), 0)


async def create(admin: Admin, name: str, partitions: int) -> None:
    """Create a topic that the broker shows when this returns: it learns of it a moment after the controller."""
    assert await admin.create_topics([NewTopic(name, partitions, 1)]) == {name: None}
    await eventually(lambda: _partitions(admin, name), partitions)


async def _partitions(admin: Admin, name: str) -> int:
    topic = (await admin.topics()).get(name)
    return 0 if topic is None else len(topic.partitions)


async def test_configs_are_changed_key_by_key(admin: Admin, name: str) -> None:
    await create(admin, name, 1)
    topic = ConfigResource(ConfigResourceType.TOPIC, name)
    changed = await admin.incremental_alter_configs({topic: [ConfigChange("retention.ms", AlterConfigOp.SET, "5000")]})
    assert changed == {topic: None}
    await eventually(
        lambda: described(admin, topic, "retention.ms"), ("5000", ConfigSource.DYNAMIC_TOPIC_CONFIG, False)
    )
    broker = ConfigResource(ConfigResourceType.BROKER, "1")
    assert await described(admin, broker, "node.id") == ("1", ConfigSource.STATIC_BROKER_CONFIG, True)
    await admin.delete_topics([name])


async def described(admin: Admin, resource: ConfigResource, key: str) -> tuple[str | None, int, bool]:
    found = (await admin.describe_configs([resource], keys=[key]))[resource]
    assert isinstance(found, list)
    return found[0].value, found[0].config_source, found[0].read_only


async def test_acls_are_added_found_and_removed(admin: Admin, name: str) -> None:
    binding = AclBinding(
        ResourcePattern(ResourceType.TOPIC, name), "User:x", "*", AclOperation.READ, AclPermissionType.ALLOW
    )
    assert await admin.create_acls([binding]) == [None]
    wanted = AclBindingFilter(ResourceType.TOPIC, name)
    await eventually(lambda: admin.describe_acls(wanted), [binding])
    assert await admin.delete_acls([wanted]) == [binding]
    await eventually(lambda: admin.describe_acls(wanted), [])


async def test_a_new_user_can_log_in(admin: Admin, real_kafka: RealKafka, name: str) -> None:
    assert await admin.alter_scram([ScramUpsertion(name, "SCRAM-SHA-512", Password("pw"))]) == {name: None}
    await eventually(lambda: admin.describe_scram([name]), {name: [ScramInfo("SCRAM-SHA-512", 4096)]})
    properties = real_kafka.client_properties("SASL_SSL", name, "pw")
    await eventually(lambda: topics_of(properties), {})  # who describes a user need not know him yet who lets him in
    assert await admin.alter_scram(deletions=[ScramDeletion(name, "SCRAM-SHA-512")]) == {name: None}


async def topics_of(properties: dict[str, str]) -> object:
    """Give the topics that a user is shown, or why he is not let in."""
    async with Admin(ClientConfig.from_properties(properties)) as theirs:
        try:
            return await theirs.topics()
        except AuthenticationError as e:
            return str(e)


async def test_quotas_are_set_and_removed(admin: Admin, name: str) -> None:
    await admin.alter_quotas({"user": name}, {"producer_byte_rate": 1000.0})
    matches = [EntityMatch("user", name)]
    await eventually(lambda: admin.describe_quotas(matches), {(("user", name),): {"producer_byte_rate": 1000.0}})
    await admin.alter_quotas({"user": name}, {"producer_byte_rate": None})
    await eventually(lambda: admin.describe_quotas(matches), {})


async def test_offsets_of_a_group(admin: Admin, name: str) -> None:
    await create(admin, name, 2)
    partition = TopicPartition(name, 1)
    assert await admin.commit_offsets(name, {partition: CommittedOffset(0, metadata="m")}) == {partition: None}
    assert await admin.group_offsets(name) == {partition: CommittedOffset(0, -1, "m")}
    assert await admin.group_offsets(name, [TopicPartition(name, 0)]) == {}
    assert name in [g.group_id for g in await admin.list_groups()]
    assert (await admin.describe_group(name)).state == "Empty"
    assert await admin.delete_offsets(name, [partition]) == {partition: None}
    await admin.delete_groups([name])
    with pytest.raises(ApiError, match="GROUP_ID_NOT_FOUND"):
        await admin.describe_group(name)
    await admin.delete_topics([name])


async def test_offsets_of_logs(admin: Admin, name: str) -> None:
    await create(admin, name, 1)
    here, nowhere = TopicPartition(name, 0), TopicPartition(name, 9)
    found = await admin.list_offsets({here: OffsetSpec.LATEST, nowhere: OffsetSpec.LATEST})
    assert found[here] == ListedOffset(0, -1, 0)
    assert isinstance(found[nowhere], ApiError)
    assert await admin.delete_records({here: -1}) == {here: 0}
    await admin.delete_topics([name])


async def test_nodes_directories_quorum_and_features(admin: Admin, real_kafka: RealKafka) -> None:
    assert [n.id for n in await admin.nodes()] == [1]
    assert [d.log_dir for d in (await admin.describe_log_dirs())[1]] == [str(real_kafka.log_dir)]
    quorum = await admin.describe_quorum()
    assert (quorum.partition.leader_id, len(quorum.partition.current_voters)) == (1, 1)
    features = await admin.describe_features()
    assert features.finalized["kraft.version"] == 1
    with pytest.raises(ApiError):
        await admin.update_features([FeatureUpdate("kraft.version", 77)], validate_only=True)
