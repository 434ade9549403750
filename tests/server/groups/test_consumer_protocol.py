"""librdkafka's consumers in groups of the consumer protocol (KIP-848) on a secured node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.testing.cluster import Cluster

PARTITIONS, RECORDS = 4, 80
WAIT_SECONDS = 60.0
QUICK_GROUPS = {
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "node", QUICK_GROUPS) as running:
        running.create_topic("shared", PARTITIONS)
        producer = Producer(running.admin.librdkafka)
        for n in range(RECORDS):
            producer.produce("shared", str(n), partition=n % PARTITIONS)
        assert producer.flush(WAIT_SECONDS) == 0
        yield running


def consumer(cluster: Cluster, **settings: Any) -> Consumer:
    """Give a member of the group `readers` that commits only when told."""
    made = Consumer(
        {
            **cluster.admin.librdkafka,
            "group.id": "readers",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    made.subscribe(["shared"])
    return made


async def polled(members: list[Consumer], wanted: Callable[[], bool]) -> list[tuple[int, int]]:
    """Poll all members in turn until `wanted()`; gives what came: (partition, offset)."""
    seen = []
    async with asyncio.timeout(WAIT_SECONDS):
        while not wanted():
            for member in members:
                message = await asyncio.to_thread(member.poll, 0.05)
                if message is not None:
                    assert message.error() is None, message.error()
                    seen.append((message.partition() or 0, message.offset() or 0))
    return seen


def shares(members: list[Consumer]) -> list[int]:
    return sorted(len(m.assignment()) for m in members)


@pytest.mark.slow
@pytest.mark.parametrize("assignor", ["uniform", "range"])
async def test_members_share_the_partitions_and_take_over_from_each_other(cluster: Cluster, assignor: str) -> None:
    one = consumer(cluster, **{"group.remote.assignor": assignor})
    two = consumer(cluster, **{"group.remote.assignor": assignor})
    try:
        await polled([one, two], lambda: shares([one, two]) == [2, 2])
        two.close()
        await polled([one], lambda: shares([one]) == [PARTITIONS])
    finally:
        one.close()
