"""A group of the consumer protocol (KIP-848) whose coordinator is of one kind first, and then of the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest
from confluent_kafka import Consumer

from barnabas.client.admin.groups import GroupInfo
from barnabas.client.cluster import CoordinatorKind
from barnabas.model.topic_partition import TopicPartition
from tests.peers.eventually import eventually
from tests.peers.kafka_cluster import MixedCluster

from .clusters import WAIT_S, mixed
from .walks import admin, in_sync, led_by, new_topic, write_by_librdkafka

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

REAL: Final = 1
OURS: Final = 2
PLACES: Final = {0: (REAL, OURS), 1: (OURS, REAL), 2: (REAL, OURS)}
OFFSETS: Final = "__consumer_offsets"
PER_PARTITION: Final = 20
QUICK: Final = {
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Give a controller of ours and a broker of each kind."""
    folder = tmp_path_factory.mktemp("groups")
    with mixed(folder, real={REAL}, controllers=1, brokers=2, properties=QUICK) as made:
        yield made


@pytest.mark.parametrize("broker", [REAL, OURS], ids=["real", "ours"])
async def test_a_coordinator_goes_on_with_what_the_other_kind_wrote(cluster: MixedCluster, broker: int) -> None:
    """The members stay who they were, at their epochs and with their partitions, and learn of nothing."""
    topic = f"shared-{broker}"
    async with new_topic(cluster, topic, PLACES) as asking:
        group = await led_by(asking, OFFSETS, broker, CoordinatorKind.GROUP, f"members-{broker}")
        members = [Consumer(settings(cluster, group)) for _ in range(3)]
        try:
            for member in members[:2]:
                member.subscribe([topic])
            await read_and_commit(cluster, topic, members[:2])

            async def described() -> GroupInfo:
                return await asking.describe_group(group)

            async def shares() -> list[int]:
                for member in members:  # a client takes up or gives up partitions while it is polled
                    assert await asyncio.to_thread(member.poll, 0.05) is None
                return sorted(len(member.partitions) for member in (await described()).members)

            await eventually(shares, [1, 2], WAIT_S)
            before = await described()
            await asyncio.to_thread(cluster.node(broker).stop)
            asking.cluster.forget_coordinator(CoordinatorKind.GROUP, group)
            await read_and_commit(cluster, topic, members[:2])
            after = await described()
            assert after.coordinator != before.coordinator == broker
            assert (after.state, after.epoch, after.target_epoch) == ("Stable", before.epoch, before.target_epoch)
            assert held(after) == held(before)
            members[2].subscribe([topic])
            await read_and_commit(cluster, topic, members)
            await eventually(shares, [1, 1, 1], WAIT_S)
        finally:
            await asyncio.gather(*(asyncio.to_thread(member.close) for member in members))
            if not cluster.node(broker).running:
                await asyncio.to_thread(cluster.node(broker).start)
        await in_sync(asking, topic, PLACES)
        offsets = {p.partition: o.offset for p, o in (await asking.group_offsets(group)).items()}
        assert offsets == dict.fromkeys(PLACES, 3 * PER_PARTITION)
    async with admin(cluster) as asking:
        assert [g.group_type for g in await asking.list_groups() if g.group_id == group] == ["consumer"]


def held(group: GroupInfo) -> set[tuple[str, int | None, frozenset[TopicPartition], frozenset[TopicPartition]]]:
    """Give what a group's members are, at which epoch, with which partitions, and which they are to have."""
    return {(m.member_id, m.epoch, frozenset(m.partitions), frozenset(m.target)) for m in group.members}


def settings(cluster: MixedCluster, group: str) -> dict[str, Any]:
    return cluster.librdkafka() | {
        "group.id": group,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }


async def read_and_commit(cluster: MixedCluster, topic: str, members: Sequence[Consumer]) -> None:
    """Write to every partition and have these members read all of it, nothing twice; each commits what it read."""
    values = {partition: [b"%d" % n for n in range(PER_PARTITION)] for partition in PLACES}
    await asyncio.to_thread(write_by_librdkafka, cluster.librdkafka(), topic, values)
    found: list[tuple[int | None, int | None]] = []
    async with asyncio.timeout(WAIT_S):
        while len(found) < PER_PARTITION * len(PLACES):
            for member in members:
                for message in await asyncio.to_thread(member.consume, 100, 0.1):
                    assert message.error() is None, message.error()
                    found.append((message.partition(), message.offset()))
                    member.commit(message=message, asynchronous=False)
    assert len(set(found)) == len(found)
