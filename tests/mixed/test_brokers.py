"""Brokers of both kinds in one cluster, under real controllers and under ours, each taking the other for Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import pytest
from confluent_kafka import Consumer as LibrdkafkaConsumer

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import AlterConfigOp, ConfigChange, ConfigResource, ConfigResourceType
from barnabas.client.admin.reassignments import ElectionType
from barnabas.client.admin.topics import NewTopic
from barnabas.client.admin.users import EntityMatch, ScramUpsertion
from barnabas.client.cluster import CoordinatorKind
from barnabas.model.acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.config import Password
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode
from tests.peers.eventually import eventually
from tests.peers.kafka_cluster import LEVELS, MixedCluster
from tests.peers.tools import CONSUMER_GROUP_COMMAND, run_tool

from .clusters import WAIT_S, mixed
from .walks import Load, admin, in_sync, leaders_and_isrs, led_by, new_topic, read_all, same_logs, write_by_librdkafka

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

REAL: Final = 1
OURS: Final = 2
BROKERS: Final = pytest.mark.parametrize("broker", [REAL, OURS], ids=["real", "ours"])
CROSSED: Final = {0: (REAL, OURS), 1: (OURS, REAL)}
"""Two partitions, each kind leading one and following in the other."""
OFFSETS: Final = "__consumer_offsets"
SECRET: Final = "a-new-user's-secret"


@pytest.fixture(scope="module", params=["real-controller", "our-controllers"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Give a broker of each kind under one real controller, or under three of ours."""
    under_ours = request.param == "our-controllers"
    made = mixed(
        tmp_path_factory.mktemp("brokers"),
        real={REAL} if under_ours else {REAL, 101},
        controllers=3 if under_ours else 1,
        brokers=2,
    )
    with made:
        yield made


@BROKERS
async def test_every_broker_is_registered_and_unfenced(cluster: MixedCluster, broker: int) -> None:
    async with admin(cluster, broker) as asking:

        async def alive() -> dict[int, bool]:
            found = await asking.describe_cluster(include_fenced=True)
            assert found.cluster_id == cluster.plan.cluster_id
            return {b.broker_id: not b.is_fenced for b in found.brokers}

        async def observers() -> set[int]:
            return {o.replica_id for o in (await asking.describe_quorum()).partition.observers}

        await eventually(alive, {REAL: True, OURS: True}, WAIT_S)
        await eventually(observers, {REAL, OURS}, WAIT_S)
        quorum = (await asking.describe_quorum()).partition
        assert {v.replica_id for v in quorum.current_voters} == {n.node_id for n in cluster.controllers}
        levels = await asking.describe_features(broker)
        assert not any(levels.finalized.get(name, 0) for name in LEVELS)
        assert levels.finalized["group.version"] == 1


async def test_records_are_copied_in_both_directions(cluster: MixedCluster) -> None:
    async with new_topic(cluster, "crossed", CROSSED, min__insync__replicas="2"):
        values = {partition: [b"%d-%d" % (partition, n) * 5 for n in range(400)] for partition in CROSSED}
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            settings = cluster.librdkafka() | {"compression.type": codec, "acks": "all", "enable.idempotence": True}
            await asyncio.to_thread(write_by_librdkafka, settings, "crossed", values)
        counts = {partition: 5 * len(written) for partition, written in values.items()}
        found = await read_all(cluster, "crossed", counts)
        assert found == {partition: written * 5 for partition, written in values.items()}
        await same_logs([cluster.data(REAL), cluster.data(OURS)], [f"crossed-{n}" for n in CROSSED])


@BROKERS
async def test_replicas_leave_and_come_back(cluster: MixedCluster, broker: int) -> None:
    """Each kind is killed under controllers of its own kind and stopped under those of the other."""
    topic = f"alive-{broker}"
    kill = (broker in cluster.real) is (cluster.controllers[0].node_id in cluster.real)
    other = OURS if broker == REAL else REAL
    node = cluster.node(broker)
    async with new_topic(cluster, topic, CROSSED) as asking:
        async with Load(cluster, topic, len(CROSSED)) as load:
            await asyncio.to_thread(node.kill if kill else node.stop)
            await eventually(lambda: leaders_and_isrs(asking, topic), dict.fromkeys(CROSSED, (other, {other})), WAIT_S)
            so_far = len(load.sent[0])
            await eventually(lambda: has_grown(load, so_far + 50), True, WAIT_S)
            await asyncio.to_thread(node.start)
            await in_sync(asking, topic, CROSSED)
        found = await read_all(cluster, topic, {n: len(sent) for n, sent in load.sent.items()})
        assert found == load.sent
        await same_logs([cluster.data(REAL), cluster.data(OURS)], [f"{topic}-{n}" for n in CROSSED])


@BROKERS
async def test_everything_an_admin_wants_goes_through_one_broker(cluster: MixedCluster, broker: int) -> None:
    """Each request is forwarded to the active controller; the other broker shows what came of it."""
    other = OURS if broker == REAL else REAL
    name = f"forwarded-{broker}"
    async with admin(cluster, broker) as asking, admin(cluster, other) as looking:
        await walk_topics(asking, looking, name)
        await walk_configs(asking, looking, name)
        await walk_users(cluster, asking, looking, name)
        await walk_acls(cluster, broker, asking, name)
        gone = await asking.delete_topics([name, f"{name}-own"])
        assert set(gone.values()) == {None}
        await eventually(lambda: missing(looking, name), True, WAIT_S)


async def walk_topics(asking: Admin, looking: Admin, name: str) -> None:
    made = await asking.create_topics([NewTopic(name, 1, 2, configs={"retention.ms": "7000"}), NewTopic("a b", 1, 1)])
    assert made[name] is None
    assert code_of(made["a b"]) == ErrorCode.INVALID_TOPIC_EXCEPTION
    again = await asking.create_topics([NewTopic(name, 1, 2)])
    assert code_of(again[name]) == ErrorCode.TOPIC_ALREADY_EXISTS
    await asking.create_partitions(name, 3)
    await eventually(lambda: partition_count(looking, name), 3, WAIT_S)
    moved = await asking.alter_partition_reassignments({TopicPartition(name, 0): [OURS, REAL]})
    assert set(moved.values()) == {None}
    await eventually(lambda: replicas_of(looking, name, 0), (OURS, REAL), WAIT_S)
    await eventually(asking.list_partition_reassignments, {}, WAIT_S)
    elected = await asking.elect_leaders(ElectionType.PREFERRED, [TopicPartition(name, 0)])
    assert {code_of(e) for e in elected.values()} <= {None, ErrorCode.ELECTION_NOT_NEEDED}


async def walk_configs(asking: Admin, looking: Admin, name: str) -> None:
    topic = ConfigResource(ConfigResourceType.TOPIC, name)
    every_broker = ConfigResource(ConfigResourceType.BROKER, "")
    changed = await asking.incremental_alter_configs(
        {
            topic: [
                ConfigChange("retention.ms", AlterConfigOp.DELETE),
                ConfigChange("cleanup.policy", AlterConfigOp.APPEND, "compact"),
            ],
            every_broker: [ConfigChange("log.retention.ms", AlterConfigOp.SET, "123456")],
        }
    )
    assert changed == {topic: None, every_broker: None}
    refused = await asking.incremental_alter_configs({topic: [ConfigChange("retention.ms", AlterConfigOp.SET, "x")]})
    assert code_of(refused[topic]) == ErrorCode.INVALID_CONFIG

    async def shown() -> dict[str, str | None]:
        described = await looking.describe_configs([topic])
        entries = described[topic]
        assert not isinstance(entries, ApiError)
        return {e.name: e.value for e in entries if e.name in ("retention.ms", "cleanup.policy")}

    await eventually(shown, {"retention.ms": "123456", "cleanup.policy": "delete,compact"}, WAIT_S)
    await asking.incremental_alter_configs({every_broker: [ConfigChange("log.retention.ms", AlterConfigOp.DELETE)]})


async def walk_users(cluster: MixedCluster, asking: Admin, looking: Admin, name: str) -> None:
    made = await asking.alter_scram([ScramUpsertion(name, "SCRAM-SHA-512", Password(SECRET))])
    assert made == {name: None}
    await asking.alter_quotas({"user": name}, {"producer_byte_rate": 1e9})

    async def quotas() -> dict[Any, dict[str, float]]:
        return await looking.describe_quotas([EntityMatch("user", name)])

    await eventually(quotas, {(("user", name),): {"producer_byte_rate": 1e9}}, WAIT_S)

    async def users() -> set[str]:
        return set(await looking.describe_scram())

    await eventually(lambda: holds(users, name), True, WAIT_S)
    for broker in (REAL, OURS):
        async with admin(cluster, broker, name, SECRET) as user:
            assert await user.topics() == {}


async def walk_acls(cluster: MixedCluster, broker: int, asking: Admin, name: str) -> None:
    """The controller decides by the client's own principal, which the forwarding broker passes on."""
    rule = AclBinding(
        ResourcePattern(ResourceType.TOPIC, name, PatternType.PREFIXED),
        f"User:{name}",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    mine = AclBindingFilter(principal=rule.principal)
    own = f"{name}-own"
    async with admin(cluster, broker, name, SECRET) as user:
        refused = await user.create_topics([NewTopic(own, 1, 1)])
        assert code_of(refused[own]) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await asking.create_acls([rule]) == [None]

        async def made() -> int | None:
            return code_of((await user.create_topics([NewTopic(own, 1, 1)]))[own])

        await eventually(lambda: is_one_of(made, None, ErrorCode.TOPIC_ALREADY_EXISTS), True, WAIT_S)
        assert await asking.describe_acls(mine) == [rule]
        assert await asking.delete_acls([mine]) == [rule]
        refused = await user.delete_topics([own])
        assert code_of(refused[own]) in (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )


@BROKERS
async def test_a_group_outlives_its_coordinator(cluster: MixedCluster, broker: int) -> None:
    """Its offsets were written by one kind and are read by the other, which takes the group over."""
    topic = f"grouped-{broker}"
    async with new_topic(cluster, topic, CROSSED) as asking:
        group = await led_by(asking, OFFSETS, broker, CoordinatorKind.GROUP, f"group-{broker}")
        settings = cluster.librdkafka() | {
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        consumer = LibrdkafkaConsumer(settings)
        consumer.subscribe([topic])
        try:
            for _ in range(2):  # once with the first coordinator, once with the other
                await asyncio.to_thread(
                    write_by_librdkafka, cluster.librdkafka(), topic, {0: [b"0"] * 50, 1: [b"1"] * 50}
                )
                await asyncio.to_thread(consume_and_commit, consumer, 100)
                if cluster.node(broker).running:
                    await eventually(lambda: committed(asking, group), {0: 50, 1: 50}, WAIT_S)
                    await asyncio.to_thread(cluster.node(broker).stop)
            asking.cluster.forget_coordinator(CoordinatorKind.GROUP, group)
            await eventually(lambda: committed(asking, group), {0: 100, 1: 100}, WAIT_S)
            described = await asking.describe_group(group)
            assert described.state == "Stable"
            assert described.coordinator != broker
        finally:
            await asyncio.to_thread(consumer.close)
            if not cluster.node(broker).running:
                await asyncio.to_thread(cluster.node(broker).start)
        await in_sync(asking, topic, CROSSED)
        config = cluster.plan.files.directory / "tools.properties"
        config.write_text(cluster.client_texts()["java"])
        shown = await asyncio.to_thread(
            run_tool,
            CONSUMER_GROUP_COMMAND,
            *("--bootstrap-server", cluster.bootstrap, "--command-config", str(config)),
            *("--describe", "--group", group, "--offsets"),
        )
        rows = [line.split() for line in shown.splitlines() if line.startswith(group)]
        assert sorted((row[2], row[3], row[5]) for row in rows) == [("0", "100", "0"), ("1", "100", "0")]


def consume_and_commit(consumer: LibrdkafkaConsumer, count: int) -> None:
    while count:
        messages = consumer.consume(count, WAIT_S)
        assert messages, f"{count} records are missing"
        for message in messages:
            assert message.error() is None
        count -= len(messages)
    consumer.commit(asynchronous=False)


async def committed(asking: Admin, group: str) -> dict[int, int]:
    return {p.partition: o.offset for p, o in (await asking.group_offsets(group)).items()}


async def has_grown(load: Load, count: int) -> bool:
    return all(len(sent) > count for sent in load.sent.values())


async def partition_count(looking: Admin, topic: str) -> int:
    return len(await leaders_and_isrs(looking, topic))


async def replicas_of(looking: Admin, topic: str, partition: int) -> tuple[int, ...]:
    looking.cluster.forget_topic(topic)
    return (await looking.cluster.topic(topic)).partitions[partition].replicas


async def missing(looking: Admin, topic: str) -> bool:
    return topic not in await looking.topics()


async def holds(ask: Callable[[], Awaitable[set[str]]], name: str) -> bool:
    return name in await ask()


async def is_one_of(ask: Callable[[], Awaitable[int | None]], *wanted: int | None) -> bool:
    return await ask() in wanted


def code_of(error: ApiError | None) -> ErrorCode | None:
    return None if error is None else error.code
