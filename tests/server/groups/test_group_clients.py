"""librdkafka's consumers in a group of a secured node: shared partitions, rebalances, offsets over a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.testing.cluster import Cluster

from .members import WAIT_SECONDS, polled, shares

PARTITIONS, RECORDS = 4, 80


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "node", {"group.initial.rebalance.delay.ms": "0"}) as running:
        running.create_topic("shared", PARTITIONS)
        producer = Producer(running.admin.librdkafka)
        for n in range(RECORDS):
            producer.produce("shared", str(n), partition=n % PARTITIONS)
        assert producer.flush(WAIT_SECONDS) == 0
        yield running


def consumer(cluster: Cluster, strategy: str, **settings: Any) -> Consumer:
    """Give a member of the group `readers` that commits only when told."""
    made = Consumer(
        {
            **cluster.admin.librdkafka,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": strategy,
            "heartbeat.interval.ms": 100,
            **settings,
        }
    )
    made.subscribe(["shared"])
    return made


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
async def test_members_share_the_partitions_and_take_over_from_each_other(cluster: Cluster, strategy: str) -> None:
    one, two = consumer(cluster, strategy), consumer(cluster, strategy)
    try:
        await polled([one, two], lambda: shares([one, two]) == [2, 2])
        two.close()
        await polled([one], lambda: shares([one]) == [PARTITIONS])
    finally:
        one.close()


@pytest.mark.slow
async def test_what_a_group_committed_is_where_it_goes_on_after_a_restart(cluster: Cluster) -> None:
    first = consumer(cluster, "range")
    seen: list[tuple[int, int]] = []

    def everything() -> bool:
        positions = [p.offset for p in first.position(first.assignment())] if first.assignment() else []
        return positions == [RECORDS // PARTITIONS] * PARTITIONS

    seen = await polled([first], everything)
    assert sorted(seen) == [(p, o) for p in range(PARTITIONS) for o in range(RECORDS // PARTITIONS)]
    first.commit(asynchronous=False)
    first.close()
    cluster.stop()
    cluster.start()
    again = consumer(cluster, "range")
    try:
        wanted = [TopicPartition("shared", p) for p in range(PARTITIONS)]
        committed = await asyncio.to_thread(again.committed, wanted, WAIT_SECONDS)
        assert [c.offset for c in committed] == [RECORDS // PARTITIONS] * PARTITIONS
    finally:
        again.close()


@pytest.mark.slow
async def test_a_static_member_comes_back_without_a_rebalance(cluster: Cluster) -> None:
    other = consumer(cluster, "range", **{"group.instance.id": "other"})
    static = consumer(cluster, "range", **{"group.instance.id": "static"})
    try:
        await polled([other, static], lambda: shares([other, static]) == [2, 2])
        before = {p.partition for p in static.assignment()}
        static.close()  # a static member does not leave
        static = consumer(cluster, "range", **{"group.instance.id": "static"})
        await polled([other, static], lambda: len(static.assignment()) == 2)
        assert {p.partition for p in static.assignment()} == before
        assert len(other.assignment()) == 2
    finally:
        other.close()
        static.close()
