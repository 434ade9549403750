"""Using all that leaves znodes behind, on a cluster of two brokers, in the same order whoever they are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from confluent_kafka import Consumer, Producer

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import AlterConfigOp, ConfigChange, ConfigResource, ConfigResourceType
from barnabas.client.admin.reassignments import ElectionType
from barnabas.client.admin.topics import NewTopic
from barnabas.client.admin.users import ScramDeletion, ScramUpsertion
from barnabas.model.acl import AclBinding, AclOperation, AclPermissionType, PatternType, ResourcePattern, ResourceType
from barnabas.model.config import Password
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.topic_partition import TopicPartition
from tests.peers.eventually import eventually
from tests.peers.zookeeper_cluster import WAIT_S, ZooKeeperCluster

ORDERS: Final = "orders"
PROPERTIES: Final = {"password.encoder.secret": "of-the-workload", "auto.leader.rebalance.enable": "false"}
_TOPIC: Final = ConfigResource(ConfigResourceType.TOPIC, ORDERS)
_BROKER: Final = ConfigResource(ConfigResourceType.BROKER, "1")
_ALL_BROKERS: Final = ConfigResource(ConfigResourceType.BROKER, "")


def use_everything(cluster: ZooKeeperCluster) -> None:
    """Do all of it; the controller is broker 0 from beginning to end."""
    one, two = cluster.brokers
    cluster.hand_over(one)
    _as_admin(cluster, topics, configs, quotas, users, rules, tokens, moves)
    produce_and_consume(cluster)
    cluster.in_sync()
    two.stop(kill=True)
    _as_admin(cluster, lambda admin: eventually(lambda: isr(admin), (0,), WAIT_S))
    two.start()
    cluster.in_sync()
    _as_admin(cluster, elections, deletions)


def _as_admin(cluster: ZooKeeperCluster, *steps: Callable[[Admin], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Admin(cluster.brokers[0].client_config()) as admin:
            for step in steps:
                await step(admin)

    asyncio.run(run())


def set_to(key: str, value: str) -> ConfigChange:
    """Give one change of a configuration."""
    return ConfigChange(key, AlterConfigOp.SET, value)


async def topics(admin: Admin) -> None:
    """Make topics, one with configs, and give one more partitions."""
    made = await admin.create_topics([
        NewTopic(ORDERS, assignments={0: [0, 1], 1: [1, 0]}, configs={"retention.ms": "7000000"}),
        NewTopic("moved", assignments={0: [0]}),
        NewTopic("gone", assignments={0: [0, 1]}, configs={"retention.ms": "8000000"}),
    ])  # fmt: skip
    assert set(made.values()) == {None}
    await admin.create_partitions(ORDERS, 3, [[0, 1]])


async def configs(admin: Admin) -> None:
    """Configure a topic, a broker and all brokers; one value is a secret."""
    for changes in (
        {_TOPIC: [set_to("cleanup.policy", "compact"), ConfigChange("retention.ms", AlterConfigOp.DELETE)]},
        {_BROKER: [set_to("log.cleaner.threads", "2"), set_to("listener.name.extra.ssl.key.password", "hush")]},
        {_ALL_BROKERS: [set_to("log.retention.ms", "9000000")]},
    ):
        done = await admin.incremental_alter_configs(changes)
        assert not any(done.values()), done


async def quotas(admin: Admin) -> None:
    """Limit users, clients, addresses, and those that have no limit of their own."""
    for entity, limits in (
        ({"user": "al ice"}, {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6}),
        ({"user": "al ice"}, {"consumer_byte_rate": None}),
        ({"user": None}, {"request_percentage": 90.5}),
        ({"user": "al ice", "client-id": "c"}, {"producer_byte_rate": 1e6}),
        ({"user": None, "client-id": None}, {"controller_mutation_rate": 1000.0}),
        ({"client-id": "c"}, {"producer_byte_rate": 1e6}),
        ({"client-id": None}, {"producer_byte_rate": 1e6}),
        ({"ip": "127.0.0.9"}, {"connection_creation_rate": 100.0}),
        ({"ip": None}, {"connection_creation_rate": 10_000.0}),
    ):
        await admin.alter_quotas(entity, limits)


async def users(admin: Admin) -> None:
    """Make users, and one less."""
    for name, mechanism in (("al ice", "SCRAM-SHA-256"), ("bob", "SCRAM-SHA-512"), ("carol", "SCRAM-SHA-512")):
        assert await admin.alter_scram([ScramUpsertion(name, mechanism, Password("pw"))]) == {name: None}
    assert await admin.alter_scram((), [ScramDeletion("carol", "SCRAM-SHA-512")]) == {"carol": None}


def rule(kind: ResourceType, name: str, pattern: PatternType = PatternType.LITERAL, who: str = "alice") -> AclBinding:
    """Give a rule."""
    resource = ResourcePattern(kind, name, pattern)
    return AclBinding(resource, f"User:{who}", "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW)


async def rules(admin: Admin) -> None:
    """Make rules of every kind, and some less."""
    one, other = rule(ResourceType.TOPIC, ORDERS), rule(ResourceType.TOPIC, ORDERS, who="bob")
    prefixed = rule(ResourceType.GROUP, "g", PatternType.PREFIXED)
    made = [
        one, other, prefixed, rule(ResourceType.TOPIC, "ord", PatternType.PREFIXED),
        rule(ResourceType.CLUSTER, "kafka-cluster"), rule(ResourceType.TRANSACTIONAL_ID, "t:1"),
        rule(ResourceType.DELEGATION_TOKEN, "t"), rule(ResourceType.USER, "User:bob"), rule(ResourceType.GROUP, "*"),
    ]  # fmt: skip
    for binding in made:  # one at a time: the order in a znode is that of the making
        assert await admin.create_acls([binding]) == [None]
    assert await admin.delete_acls([one.as_filter, prefixed.as_filter]) == [one, prefixed]


async def tokens(admin: Admin) -> None:
    """Make two tokens, renew one and end the other."""
    kept = await admin.create_token(renewers=[KafkaPrincipal("User", "al ice")])
    await admin.renew_token(kept.hmac, 60_000_000)
    await admin.expire_token((await admin.create_token()).hmac)


async def moves(admin: Admin) -> None:
    """Move a partition to another broker."""
    moved = await admin.alter_partition_reassignments({TopicPartition("moved", 0): [1]})
    assert set(moved.values()) == {None}
    await eventually(admin.list_partition_reassignments, {}, WAIT_S)


async def elections(admin: Admin) -> None:
    """Let those lead again who are to: one partition's leader was killed."""
    led = [TopicPartition(ORDERS, 1)]
    assert await admin.elect_leaders(ElectionType.PREFERRED, led) == {led[0]: None}


async def deletions(admin: Admin) -> None:
    """Delete a topic, configs and quotas."""
    assert await admin.delete_topics(["gone"]) == {"gone": None}
    await admin.alter_quotas({"client-id": None}, {"producer_byte_rate": None})
    done = await admin.incremental_alter_configs({_BROKER: [ConfigChange("log.cleaner.threads", AlterConfigOp.DELETE)]})
    assert not any(done.values()), done

    async def there() -> bool:
        return "gone" in await admin.topics()

    await eventually(there, False, WAIT_S)


async def isr(admin: Admin) -> tuple[int, ...]:
    """Give who is in sync of the first partition of `ORDERS`, by the broker that is asked."""
    admin.cluster.forget_topic(ORDERS)
    return tuple((await admin.cluster.topic(ORDERS)).partitions[0].isr)


def produce_and_consume(cluster: ZooKeeperCluster) -> None:
    """Have ids given to a producer, and offsets kept for a group."""
    producer = Producer(cluster.librdkafka | {"enable.idempotence": True})
    producer.produce(ORDERS, b"value", key=b"key", partition=0)
    assert producer.flush(WAIT_S) == 0
    group = {"group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(cluster.librdkafka | group)
    try:
        consumer.subscribe([ORDERS])
        (message,) = consumer.consume(1, WAIT_S)
        assert message.error() is None
        consumer.commit(message=message, asynchronous=False)
    finally:
        consumer.close()
