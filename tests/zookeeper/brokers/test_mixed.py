"""Brokers of Apache Kafka 3.9.1 and ours in one cluster: the role of the controller goes from one make to the other.

Records are written and read all the time, and everything is changed through every broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from confluent_kafka.cimpl import NewPartitions, NewTopic

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import ConfigResource as Resource
from barnabas.client.admin.configs import ConfigResourceType, ConfigSource
from barnabas.client.admin.users import ANY_NAME, EntityMatch
from barnabas.model.acl import AclBindingFilter
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError
from tests.peers.eventually import eventually
from tests.peers.kafka_zookeeper import ZooKeeperBroker
from tests.peers.zookeeper import ZooKeeper
from tests.peers.zookeeper_cluster import KAFKA, KILLED_MS, OURS, WAIT_S, ZooKeeperCluster

from .admins import do
from .traffic import Traffic

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

MIXTURES: Final = {"two of ours": [OURS, KAFKA, OURS], "two of theirs": [KAFKA, OURS, KAFKA]}
LOADED: Final = "loaded"


@pytest.fixture(params=MIXTURES)
def cluster(
    request: pytest.FixtureRequest, zookeeper: ZooKeeper, chroot: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ZooKeeperCluster]:
    """Give three secured brokers; broker 1 is of the other make."""
    folder = tmp_path_factory.mktemp("mixed")
    jaas = zookeeper.client_jaas()
    brief = {"zookeeper.session.timeout.ms": str(KILLED_MS)}
    with ZooKeeperCluster(
        folder, zookeeper, chroot, MIXTURES[request.param], jaas=jaas, set_acl=True, properties=brief
    ) as found:
        yield found


@pytest.mark.requirement("A-33")
def test_the_controller_moves_both_ways_and_nothing_is_lost(cluster: ZooKeeperCluster) -> None:
    one, other, third = cluster.brokers
    with Traffic(cluster.librdkafka, LOADED, partitions=3, replicas=3) as traffic:
        for turn, controller in enumerate((other, one, other, third)):
            cluster.hand_over(controller)
            for broker in cluster.brokers:
                change_everything(broker, f"{turn}-{broker.broker_id}")
            move(cluster, TopicPartition(f"kept-{turn}-{one.broker_id}", 0), [controller.broker_id])
            traffic.go_on()
        asyncio.run(all_know_the_same(cluster))
        for killed in (third, other):  # the controller at first, then whoever of the other make
            killed.stop(kill=True)
            traffic.go_on()
            survivor = next(broker for broker in cluster.brokers if broker is not killed)
            change_everything(survivor, f"without-{killed.broker_id}", copies=2)
            killed.start()
            cluster.in_sync()
            traffic.go_on()
        traffic.caught_up()
    asyncio.run(all_know_the_same(cluster))


def change_everything(broker: ZooKeeperBroker, name: str, copies: int = 3) -> None:
    """Make a topic, configure it, let it grow, make a rule, a user and limits; delete another topic."""
    settings = broker.librdkafka()
    kept, gone = f"kept-{name}", f"gone-{name}"
    made = [NewTopic(kept, 1, copies), NewTopic(gone, 1, copies)]
    do(settings, lambda admin: admin.create_topics(made), KafkaError.TOPIC_ALREADY_EXISTS)
    entry = ConfigEntry("retention.ms", "7000000", incremental_operation=AlterConfigOpType.SET)
    wanted = [ConfigResource(ConfigResource.Type.TOPIC, kept, incremental_configs=[entry])]
    do(settings, lambda admin: admin.incremental_alter_configs(wanted))
    do(settings, lambda admin: admin.create_partitions([NewPartitions(kept, 2)]), KafkaError.INVALID_PARTITIONS)
    rule = AclBinding(
        ResourceType.TOPIC, kept, ResourcePatternType.LITERAL, "User:alice", "*", AclOperation.READ,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    do(settings, lambda admin: admin.create_acls([rule]))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    user = UserScramCredentialUpsertion(f"user-{name}", info, b"secret")
    do(settings, lambda admin: admin.alter_user_scram_credentials([user]))
    do(settings, lambda admin: admin.delete_topics([gone]), KafkaError.UNKNOWN_TOPIC_OR_PART)
    asyncio.run(limit(broker, f"user-{name}"))


async def limit(broker: ZooKeeperBroker, user: str) -> None:
    """Have this very broker limit a user; any may be asked that."""
    async with Admin(broker.client_config()) as admin:
        await admin.alter_quotas({"user": user}, {"producer_byte_rate": 1e9})


def move(cluster: ZooKeeperCluster, partition: TopicPartition, replicas: list[int]) -> None:
    """Have the controller move a partition, and wait until it is done."""

    async def run() -> None:
        async with Admin(cluster.controller().client_config()) as admin:
            assert await admin.alter_partition_reassignments({partition: replicas}) == {partition: None}
            await eventually(admin.list_partition_reassignments, {}, WAIT_S)

    asyncio.run(run())


async def all_know_the_same(cluster: ZooKeeperCluster) -> None:
    """Wait until every broker tells the same of everything."""

    async def differing() -> list[str]:
        told = await asyncio.gather(*(what_it_tells(broker) for broker in cluster.brokers))
        return [key for key in told[0] if any(one[key] != told[0][key] for one in told)]

    await eventually(differing, [], WAIT_S)


async def what_it_tells(broker: ZooKeeperBroker) -> dict[str, Any]:
    """Give all that this broker says of the cluster."""
    async with Admin(broker.client_config()) as admin:
        topics = await admin.topics()
        resources = [Resource(ConfigResourceType.TOPIC, name) for name in topics]
        configs = await admin.describe_configs(resources) if resources else {}
        described = await admin.describe_cluster()
        return {
            "cluster": described.cluster_id,
            "brokers": sorted((one.broker_id, one.host, one.port) for one in described.brokers),
            "topics": {name: (t.topic_id, _partitions(t)) for name, t in topics.items()},
            "configs": {resource.name: _own(entries) for resource, entries in configs.items()},
            "rules": sorted(map(str, await admin.describe_acls(AclBindingFilter()))),
            "users": await admin.describe_scram(),
            "quotas": await admin.describe_quotas([EntityMatch("user", ANY_NAME)]),
        }


def _partitions(topic: Any) -> list[tuple[Any, ...]]:
    return [(p.leader, p.leader_epoch, p.replicas, sorted(p.isr)) for p in topic.partitions.values()]


def _own(entries: Any) -> dict[str, str]:
    assert not isinstance(entries, ApiError), entries
    return {e.name: e.value for e in entries if e.config_source == ConfigSource.DYNAMIC_TOPIC_CONFIG}
