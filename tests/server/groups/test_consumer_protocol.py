"""librdkafka's consumers in groups of the consumer protocol (KIP-848) on a secured node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.testing.cluster import Cluster

from .members import WAIT_SECONDS, polled, shares

PARTITIONS, RECORDS = 4, 80
QUICK_GROUPS = {
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "100",
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


@pytest.mark.slow
async def test_what_a_group_committed_is_where_it_goes_on_after_a_restart(cluster: Cluster) -> None:
    first = consumer(cluster)
    seen: list[tuple[int, int]] = []
    try:
        seen += await polled([first], lambda: len(first.assignment()) == PARTITIONS)
        while len(seen) < RECORDS // 2:
            seen += await polled([first], Once())
        first.commit(asynchronous=False)
    finally:
        first.close()
    cluster.stop()
    cluster.start()
    second = consumer(cluster)
    try:
        while len(seen) < RECORDS:
            seen += await polled([second], Once())
    finally:
        second.close()
    assert sorted(seen) == [(p, o) for p in range(PARTITIONS) for o in range(RECORDS // PARTITIONS)]


@pytest.mark.slow
async def test_a_pattern_takes_in_the_topics_that_match_and_that_one_may_describe(cluster: Cluster) -> None:
    for name in ("shared-too", "shared-secret", "other"):
        cluster.create_topic(name, 1)
    bob = cluster.as_user("bob")
    bob.allow("read", "group", "readers")
    for name in ("shared", "shared-too", "other"):
        bob.allow("read", "topic", name)
    one = consumer(cluster, **bob.librdkafka)
    one.subscribe(["^shared.*"])
    try:
        # At first it may have what it subscribed to before, or nothing yet.
        await polled([one], lambda: {p.topic for p in one.assignment()} not in ({"shared"}, set()))
        assert {p.topic for p in one.assignment()} == {"shared", "shared-too"}
    finally:
        one.close()


class Once:
    """True from the second time on."""

    def __init__(self) -> None:
        self.told = False

    def __call__(self) -> bool:
        told, self.told = self.told, True
        return told
