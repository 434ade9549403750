"""The loads of coordinators do what clients do, and say when they are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from bench.librdkafka import Librdkafka
from bench.members import ClassicMember, MemberError
from bench.requests import RequestsError
from bench.transactional import Transactions

from barnabas.model.uuid import ZERO_UUID
from barnabas.testing.local import LocalCluster
from bench import groups, members, requests, transactional

MEMBERS = 5
PARTITIONS = 2
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("loads"), combined=1, plaintext=True) as cluster:
        cluster.create_topic("written", PARTITIONS)
        cluster.create_topic("some", PARTITIONS)
        cluster.create_topic(groups.TOPIC, MEMBERS)
        asyncio.run(groups.coordinated(cluster.bootstrap))
        yield cluster


def join(bootstrap: str, group: str) -> float:
    async def run() -> float:
        channels = await members.open_channels(bootstrap, MEMBERS)
        try:
            return await members.join(ClassicMember, channels, group, groups.TOPIC, ZERO_UUID, LIMIT_S)
        finally:
            await members.close_channels(channels)

    return asyncio.run(run())


def test_a_group_settles(node: LocalCluster) -> None:
    assert 0 < join(node.bootstrap, "settles") < LIMIT_S


def test_a_member_that_is_refused_ends_the_load(node: LocalCluster) -> None:
    with pytest.raises(MemberError, match="INVALID_GROUP_ID"):
        join(node.bootstrap, "")


def test_offsets_are_committed_on_every_connection(node: LocalCluster) -> None:
    config = {"bootstrap.servers": node.bootstrap}
    frames = [groups.commit_frame(f"commits-{number}") for number in range(2)]
    assert requests.repeat(config, frames, groups.check_commit, seconds=0.2).requests >= len(frames)


def test_a_refused_commit_ends_the_load(node: LocalCluster) -> None:
    config = {"bootstrap.servers": node.bootstrap}
    with pytest.raises(RequestsError, match="GROUP_ID_NOT_FOUND"):
        requests.repeat(config, [groups.commit_frame("unknown", generation=7)], groups.check_commit, seconds=0.2)


def test_producers_commit_transactions_at_once(node: LocalCluster) -> None:
    config = {"bootstrap.servers": node.bootstrap}
    rate = transactional.measure(
        Librdkafka(), config, "some", Transactions(2, 10), partitions=PARTITIONS, producers=2, seconds=0.2
    )
    assert rate.transactions >= 2


def test_what_is_filled_in_is_what_committed_readers_get(node: LocalCluster) -> None:
    library, config = Librdkafka(), {"bootstrap.servers": node.bootstrap}
    shape = Transactions(records=5, size=10, abort_each=2)
    filled = transactional.fill(library, config, "written", shape, partitions=PARTITIONS, records=40)
    assert filled.records == 20
    read = library.fetch(
        {**config, "isolation.level": "read_committed"},
        "written",
        partitions=PARTITIONS,
        records=filled.records + 1,  # so that it waits for one too many
        size=shape.size,
        limit_s=2.0,
    )
    assert read.records == filled.records
