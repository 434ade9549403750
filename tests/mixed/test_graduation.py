"""A cluster of ours is stopped, Apache Kafka goes on with its directories and files, and then ours again."""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeGuard

import pytest
from confluent_kafka import Consumer as LibrdkafkaConsumer

from barnabas.cli.main import main
from barnabas.client.admin import Admin
from barnabas.client.admin.configs import AlterConfigOp, ConfigChange, ConfigResource, ConfigResourceType, ConfigSource
from barnabas.client.admin.topics import NewTopic
from barnabas.client.admin.users import ScramDeletion, ScramInfo, ScramUpsertion
from barnabas.client.producer import Producer
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
from barnabas.wire.errors import ApiError
from tests.peers.eventually import eventually
from tests.peers.kafka_cluster import MixedCluster
from tests.peers.tools import DUMP_LOG_SEGMENTS, METADATA_SHELL, run_tool_result

from .clusters import WAIT_S, mixed
from .walks import admin, client, ends_of, in_sync, read_all, write_by_librdkafka

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

TOPIC: Final = "kept"
PLACES: Final = {0: (1, 2), 1: (2, 1)}
GROUP: Final = "readers"
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
DYNAMIC: Final = (
    ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
)
COMPLAINTS: Final = ("isvalid: false", "Could not", "Found", "Error", "Exception", "skipping", "Mismatch", "mismatch")
PARTS: Final = ("features", "cluster", "topics", "configs", "producerIds", "scram")
"""What both shells print alike: Kafka's knows no names for the quotas of defaults, and ACLs are JSON in ours."""
FAULTS: Final = ("fatal fault", "publishing fault", "loading fault", "corrupt")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedCluster]:
    """Give a controller and two brokers of ours, running; a snapshot of the metadata now and then."""
    made = mixed(
        tmp_path,
        real=(),
        controllers=1,
        brokers=2,
        properties={"metadata.log.max.record.bytes.between.snapshots": "4000"},
    )
    with made:
        yield made


async def test_apache_kafka_takes_over_and_gives_back(cluster: MixedCluster) -> None:
    await fill(cluster)
    first = await state(cluster)
    await hand_over(cluster, real=True)
    assert differences(await state(cluster), first) == []

    await use(cluster, "kafka")
    second = await state(cluster)
    assert {what for what, *_ in differences(second, first)} >= {"topics", "configs", "acls", "offsets", "records"}
    await hand_over(cluster, real=False)
    assert differences(await state(cluster), second) == []

    await use(cluster, "barnabas")


async def hand_over(cluster: MixedCluster, *, real: bool) -> None:
    """Stop every node, look at its files with the tools of both, and go on as the other kind."""
    await asyncio.to_thread(cluster.stop)
    await asyncio.to_thread(check_files, cluster)
    for node in cluster:
        assert not [line for line in node.whole_log().splitlines() if any(f in line for f in FAULTS)]
        cluster.run_as(node.node_id, real=real)
    await asyncio.to_thread(cluster.start)
    async with admin(cluster) as asking:
        await in_sync(asking, TOPIC, PLACES)


async def fill(cluster: MixedCluster) -> None:
    """Make something of everything that a directory can hold."""
    async with admin(cluster) as asking:
        configs = {"retention.ms": "987654321", "min.insync.replicas": "2"}
        made = await asking.create_topics(
            [
                NewTopic(TOPIC, assignments=PLACES, configs=configs),
                NewTopic("compacted", 2, 2, configs={"cleanup.policy": "compact"}),
                NewTopic("gone", 1, 2),
            ]
        )
        assert set(made.values()) == {None}
        await in_sync(asking, TOPIC, PLACES)
        assert await asking.delete_topics(["gone"]) == {"gone": None}
        await set_configs(asking)
        await set_quotas(asking)
        await asking.create_acls([rule("reader", AclOperation.READ), rule("writer", AclOperation.WRITE)])
        await asking.delete_acls([AclBindingFilter(principal="User:writer")])
        upsertions = [ScramUpsertion("reader", f"SCRAM-SHA-{n}", Password("reader's")) for n in (256, 512)]
        assert await asking.alter_scram(upsertions) == {"reader": None}
    for codec in CODECS:
        settings = cluster.librdkafka() | {"compression.type": codec, "enable.idempotence": True}
        await asyncio.to_thread(write_by_librdkafka, settings, TOPIC, {n: [codec.encode()] * 40 for n in PLACES})
    async with Producer(client(cluster)) as producer:
        for n in range(20):
            await producer.send("compacted", b"%d" % n, key=b"%d" % (n % 3), partition=0)
    await asyncio.to_thread(consume, cluster, 150)


async def use(cluster: MixedCluster, who: str) -> None:
    """Go on where the others left off: each thing that there is changes a bit."""
    async with admin(cluster) as asking:
        assert await asking.create_topics([NewTopic(f"by-{who}", 1, 2)]) == {f"by-{who}": None}
        await asking.create_partitions("compacted", 3 if who == "kafka" else 4)
        await asking.create_acls([rule(who, AclOperation.ALL)])
        await asking.alter_scram([ScramUpsertion(who, "SCRAM-SHA-512", Password("secret"))])
        if who == "kafka":
            await asking.alter_scram(deletions=[ScramDeletion("reader", "SCRAM-SHA-256")])
        await asking.alter_quotas({"user": who}, {"request_percentage": 200.0})
        topic = ConfigResource(ConfigResourceType.TOPIC, TOPIC)
        changed = await asking.incremental_alter_configs(
            {topic: [ConfigChange("max.message.bytes", AlterConfigOp.SET, str(1_000_000 + len(who)))]}
        )
        assert changed == {topic: None}
    settings = cluster.librdkafka() | {"enable.idempotence": True}
    await asyncio.to_thread(write_by_librdkafka, settings, TOPIC, {n: [who.encode()] * 10 for n in PLACES})
    await asyncio.to_thread(consume, cluster, 100)
    async with admin(cluster, user=who, password="secret") as user:
        await eventually(lambda: can_see(user), True, WAIT_S)


async def set_configs(asking: Admin) -> None:
    changes = {
        ConfigResource(ConfigResourceType.BROKER, ""): [
            ConfigChange("log.retention.ms", AlterConfigOp.SET, "123456789")
        ],
        ConfigResource(ConfigResourceType.BROKER, "1"): [
            ConfigChange("follower.replication.throttled.rate", AlterConfigOp.SET, "1000000000")
        ],
    }
    assert await asking.incremental_alter_configs(changes) == dict.fromkeys(changes)


async def set_quotas(asking: Admin) -> None:
    await asking.alter_quotas({"user": "reader"}, {"consumer_byte_rate": 1e9})
    await asking.alter_quotas({"user": "reader", "client-id": None}, {"producer_byte_rate": 1e9})
    await asking.alter_quotas({"client-id": None}, {"request_percentage": 1000.0})
    await asking.alter_quotas({"ip": "10.1.2.3"}, {"connection_creation_rate": 500.0})


def rule(user: str, operation: AclOperation) -> AclBinding:
    pattern = ResourcePattern(ResourceType.TOPIC, TOPIC, PatternType.LITERAL)
    return AclBinding(pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def consume(cluster: MixedCluster, count: int) -> None:
    """Read on as a member of the group, commit and leave."""
    consumer = LibrdkafkaConsumer(
        cluster.librdkafka() | {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    try:
        consumer.subscribe([TOPIC])
        left = count
        while left:
            messages = consumer.consume(left, WAIT_S)
            assert messages, f"{left} of {count} records are missing"
            assert [m.error() for m in messages if m.error()] == []
            left -= len(messages)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


async def state(cluster: MixedCluster) -> dict[str, Mapping[str, Any]]:
    """Give what clients can see of everything."""
    async with admin(cluster) as asking:
        topics = await asking.topics()
        offsets = await asking.group_offsets(GROUP)
        return {
            "topics": {
                n: (t.topic_id, {p.partition: p.replicas for p in t.partitions.values()}) for n, t in topics.items()
            },
            "configs": await configs(asking, topics),
            "acls": {str(acl): acl for acl in await asking.describe_acls(AclBindingFilter())},
            "scram": {user: set(found) for user, found in (await asking.describe_scram()).items() if is_known(found)},
            "quotas": {str(entity): values for entity, values in (await asking.describe_quotas()).items()},
            "features": dict((await asking.describe_features()).finalized),
            "offsets": {str(p): o.offset for p, o in offsets.items()},
            "records": await records(cluster, asking),
        }


def differences(now: Mapping[str, Mapping[str, Any]], before: Mapping[str, Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Give each thing that is not as it was: its kind, its name, what it is now and what it was."""
    return [
        (kind, name, now[kind].get(name), before[kind].get(name))
        for kind in before
        for name in {**before[kind], **now[kind]}
        if now[kind].get(name) != before[kind].get(name)
    ]


async def configs(asking: Admin, topics: Any) -> dict[str, dict[str, str | None]]:
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in topics]
    resources += [ConfigResource(ConfigResourceType.BROKER, name) for name in ("", "1", "2")]
    found = {}
    for resource, entries in (await asking.describe_configs(resources)).items():
        assert isinstance(entries, list), (resource, entries)
        found[f"{resource.type.name} {resource.name}"] = {
            e.name: e.value for e in entries if e.config_source in DYNAMIC
        }
    return found


async def records(cluster: MixedCluster, asking: Admin) -> dict[str, dict[int, list[bytes | None]]]:
    found = {}
    for topic, info in (await asking.topics()).items():
        if not info.is_internal:
            ends = await ends_of(asking, topic, len(info.partitions))
            found[topic] = await read_all(cluster, topic, ends)
    return found


def is_known(found: list[ScramInfo] | ApiError) -> TypeGuard[list[ScramInfo]]:
    return isinstance(found, list)


async def can_see(user: Admin) -> bool:
    return TOPIC in await user.topics()


def check_files(cluster: MixedCluster) -> None:
    """Let Kafka's tools read every file of every node, and compare what its shell makes of the metadata with ours."""
    for node in cluster:
        logs = [p for p in cluster.data(node.node_id).glob("*/*") if p.suffix in (".log", ".index", ".timeindex")]
        metadata = [p for p in logs if p.parent.name == "__cluster_metadata-0"]
        metadata += cluster.data(node.node_id).glob("__cluster_metadata-0/*.checkpoint")
        dump([p for p in logs if p not in metadata])
        dump(metadata, "--cluster-metadata-decoder")
    # Kafka's shell never ends when it has a snapshot's records before it has seen the footer, so it gets the log only.
    for part in PARTS:
        log = cluster.data(101) / "__cluster_metadata-0" / "00000000000000000000.log"
        compare_shells("--snapshot", str(log), "tree", f"/image/{part}")


def compare_shells(*words: str) -> None:
    """Compare what our shell prints with what Kafka's does, which may answer before it has applied what it read."""
    ours = io.StringIO()
    with contextlib.redirect_stdout(ours), contextlib.suppress(SystemExit):
        main(["metadata-shell", "--show-secrets", *words])
    until = time.monotonic() + WAIT_S
    while (kafkas := run_tool_result(METADATA_SHELL, *words)).stdout != ours.getvalue() and time.monotonic() < until:
        pass
    assert (ours.getvalue(), 0) == (kafkas.stdout, kafkas.code), words


def dump(files: list[Path], *options: str) -> None:
    result = run_tool_result(DUMP_LOG_SEGMENTS, *options, "--files", ",".join(map(str, files)))
    complaints = [line for line in (result.stdout + result.stderr).splitlines() if any(c in line for c in COMPLAINTS)]
    assert (result.code, complaints) == (0, [])
