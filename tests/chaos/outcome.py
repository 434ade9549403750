"""What a cluster has in the end: its logs as a stranger reads them, its groups, and what each broker knows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import confluent_kafka

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import ConfigResource, ConfigResourceType
from barnabas.client.config import ClientConfig
from barnabas.model.acl import AclBindingFilter
from barnabas.testing.processes import ProcessCluster
from barnabas.wire.errors import ApiError
from tests.chaos.checks import Outcome, lost_changes
from tests.chaos.history import History, Mark

READ_SECONDS: Final = 60.0
SETTLE_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 0.25


def read_outcome(cluster: ProcessCluster, history: History, topic: str, groups: list[str]) -> Outcome:
    """Read everything; what never comes to rest is among the surprises."""
    asyncio.run(_settled(cluster, history, topic))
    return Outcome(
        {p: read_log(cluster.librdkafka(), topic, p) for p in _partitions(cluster, topic)},
        asyncio.run(_committed(cluster, topic, groups)),
        asyncio.run(_items(cluster, history)),
    )


def read_log(settings: Mapping[str, Any], topic: str, partition: int) -> list[tuple[int, Mark]]:
    """Give every record of a partition."""
    consumer = confluent_kafka.Consumer(
        {**settings, "group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 2}
    )
    try:
        begin, end = consumer.get_watermark_offsets(
            confluent_kafka.TopicPartition(topic, partition), timeout=READ_SECONDS
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, begin)])
        log: list[tuple[int, Mark]] = []
        while begin < end:
            message = consumer.poll(READ_SECONDS)
            if message is None:
                raise TimeoutError(f"partition {partition} cannot be read on from {begin} to {end}")
            error, offset, value = message.error(), message.offset(), message.value()
            if error is not None:
                if error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    break
                continue
            assert offset is not None
            log.append((offset, Mark.decode(value or b"")))
            begin = offset + 1
        return log
    finally:
        consumer.close()


def _partitions(cluster: ProcessCluster, topic: str) -> list[int]:
    admin = confluent_kafka.Consumer({**cluster.librdkafka(), "group.id": "unused"})
    try:
        return sorted(admin.list_topics(topic, timeout=READ_SECONDS).topics[topic].partitions)
    finally:
        admin.close()


def _admin(cluster: ProcessCluster, bootstrap: str = "") -> Admin:
    return Admin(ClientConfig.from_properties(cluster.client(bootstrap=bootstrap)))


async def _settled(cluster: ProcessCluster, history: History, topic: str) -> None:
    """Wait until every replica is in sync and every broker knows of every change."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SETTLE_SECONDS
    async with _admin(cluster) as admin:
        while True:
            await admin.cluster.retry(lambda: admin.cluster.refresh([topic]))
            info = await admin.cluster.topic(topic)
            behind = [str(p.partition) for p in info.partitions.values() if set(p.isr) != set(p.replicas)]
            if not behind:
                break
            if loop.time() > until:
                history.surprises.append(
                    f"partitions {', '.join(behind)} do not have all their replicas in sync "
                    f"{SETTLE_SECONDS:g} s after all faults"
                )
                break
            await asyncio.sleep(_AGAIN_SECONDS)
    while lost_changes(history, Outcome({}, {}, await _items(cluster, history))):
        if loop.time() > until:
            break  # the check will tell which
        await asyncio.sleep(_AGAIN_SECONDS)


async def _committed(cluster: ProcessCluster, topic: str, groups: list[str]) -> dict[tuple[str, int], int]:
    found = {}
    async with _admin(cluster) as admin:
        for group in groups:
            for partition, committed in (await admin.group_offsets(group)).items():
                if partition.topic == topic:
                    found[group, partition.partition] = committed.offset
    return found


async def _items(cluster: ProcessCluster, history: History) -> dict[str, dict[tuple[str, str], str | None]]:
    return {f"broker {n.node_id}": await _known_to(cluster, n.bootstrap, history) for n in cluster.brokers}


async def _known_to(cluster: ProcessCluster, bootstrap: str, history: History) -> dict[tuple[str, str], str | None]:
    found: dict[tuple[str, str], str | None] = {}
    async with _admin(cluster, bootstrap) as admin:
        topics = await admin.topics()
        found |= {("topic", name): str(len(info.partitions)) for name, info in topics.items()}
        wanted = [name for kind, name in history.items if kind == "config" and name in topics]
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in wanted]
        if resources:
            for resource, configs in (await admin.describe_configs(resources, keys=["retention.ms"])).items():
                if not isinstance(configs, ApiError):
                    found["config", resource.name] = configs[0].value
        if not cluster.plan.plaintext:
            found |= {("acl", b.principal): "read" for b in await admin.describe_acls(AclBindingFilter())}
        for user, credentials in (await admin.describe_scram()).items():
            if not isinstance(credentials, ApiError):
                found["user", user] = str(credentials[0].iterations)
        for entity, quotas in (await admin.describe_quotas()).items():
            found |= {("quota", name or ""): str(int(value)) for _, name in entity for value in quotas.values()}
    return found
