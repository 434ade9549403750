"""Transactions over brokers of both kinds: markers, verification and offsets cross over, and coordinators take over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import pytest
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import TopicPartition as LibrdkafkaPartition

from barnabas.client.admin import Admin
from barnabas.client.admin.nodes import FeatureUpdate, UpgradeType
from barnabas.client.admin.topics import NewTopic
from barnabas.client.admin.transactions import TransactionDescription
from barnabas.client.cluster import CoordinatorKind
from barnabas.client.transactional_producer import TransactionalProducer
from barnabas.model.topic_partition import TopicPartition
from barnabas.testing.processes import ProcessCluster
from tests.peers.eventually import eventually
from tests.peers.kafka_cluster import MixedCluster

from .clusters import WAIT_S, mixed
from .exhausted_epochs import CRASHES, LEVELS, Exhausted
from .late_produces import Late
from .raw import same
from .walks import (
    client,
    in_sync,
    led_by,
    new_topic,
    read_committed,
    transactional,
    transactions,
    write_transaction,
)

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

REAL: Final = 1
OURS: Final = 2
COORDINATORS: Final = pytest.mark.parametrize("broker", [REAL, OURS], ids=["real", "ours"])
CROSSED: Final = {0: (REAL, OURS), 1: (OURS, REAL)}
TRANSACTIONS: Final = "__transaction_state"
OFFSETS: Final = "__consumer_offsets"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Give a broker of each kind under a controller of ours."""
    with mixed(tmp_path_factory.mktemp("transactions"), real={REAL}, controllers=1, brokers=2) as made:
        yield made


async def coordinated_by(asking: Admin, broker: int, begin: str) -> str:
    return await led_by(asking, TRANSACTIONS, broker, CoordinatorKind.TRANSACTION, begin)


def read_by_librdkafka(cluster: ProcessCluster, topic: str) -> list[list[bytes | None]]:
    return [read_committed(cluster, topic, partition) for partition in CROSSED]


@COORDINATORS
async def test_markers_cross_over(cluster: MixedCluster, broker: int) -> None:
    """By rules of both: librdkafka adds partitions itself, and ours has them added by its first batches."""
    topic = f"marked-{broker}"
    async with new_topic(cluster, topic, CROSSED) as asking:
        name = await coordinated_by(asking, broker, f"theirs-{broker}")
        theirs = await asyncio.to_thread(transactional, cluster, name)
        await asyncio.to_thread(write_transaction, theirs, topic, CROSSED, b"a")
        await asyncio.to_thread(theirs.commit_transaction, WAIT_S)
        await asyncio.to_thread(write_transaction, theirs, topic, CROSSED, b"b")
        await asyncio.to_thread(theirs.abort_transaction, WAIT_S)

        async def state() -> str:
            return (await transactions(asking, [name]))[name].state

        await eventually(state, "CompleteAbort", WAIT_S)
        own = client(cluster).with_properties(transactional_id=await coordinated_by(asking, broker, f"ours-{broker}"))
        async with TransactionalProducer(own) as ours:
            await ours.init_transactions()
            for value, commits in ((b"c", True), (b"d", False), (b"e", True)):
                await ours.begin()
                for partition in CROSSED:
                    await ours.send(topic, value, partition=partition)
                await ours.flush()
                await (ours.commit() if commits else ours.abort())
        await eventually(
            lambda: asyncio.to_thread(read_by_librdkafka, cluster, topic), [[b"a", b"c", b"e"]] * 2, WAIT_S
        )


@COORDINATORS
async def test_offsets_cross_over(cluster: MixedCluster, broker: int) -> None:
    """The group is the other broker's."""
    topic = f"input-{broker}"
    async with new_topic(cluster, topic, CROSSED) as asking:
        name = await coordinated_by(asking, broker, f"processor-{broker}")
        group = await led_by(
            asking, OFFSETS, OURS if broker == REAL else REAL, CoordinatorKind.GROUP, f"processed-{broker}"
        )
        producer = await asyncio.to_thread(transactional, cluster, name)
        consumer = LibrdkafkaConsumer(cluster.librdkafka() | {"group.id": group})
        wanted = [TopicPartition(topic, n) for n in CROSSED]
        try:
            for offset, commits in ((5, False), (7, True)):
                await asyncio.to_thread(write_transaction, producer, topic, CROSSED, b"x")
                await asyncio.to_thread(
                    producer.send_offsets_to_transaction,
                    [LibrdkafkaPartition(topic, n, offset) for n in CROSSED],
                    consumer.consumer_group_metadata(),
                    WAIT_S,
                )
                end = producer.commit_transaction if commits else producer.abort_transaction
                await asyncio.to_thread(end, WAIT_S)
            found = await asking.group_offsets(group, wanted, require_stable=True)
            assert {p.partition: o.offset for p, o in found.items()} == dict.fromkeys(CROSSED, 7)
        finally:
            await asyncio.to_thread(consumer.close)


@COORDINATORS
async def test_the_other_kind_takes_over_from_a_coordinator_that_is_killed(cluster: MixedCluster, broker: int) -> None:
    topic = f"left-{broker}"
    async with new_topic(cluster, topic, CROSSED) as asking:
        names = {what: await coordinated_by(asking, broker, f"{what}-{broker}") for what in ("commit", "abort", "own")}
        producers = {what: await asyncio.to_thread(transactional, cluster, names[what]) for what in ("commit", "abort")}
        for what, producer in producers.items():
            await asyncio.to_thread(write_transaction, producer, topic, CROSSED, what.encode())
        own = client(cluster).with_properties(transactional_id=names["own"])
        async with TransactionalProducer(own) as ours:
            await ours.init_transactions()
            async with ours.transaction():
                await ours.send(topic, b"before", partition=0)
            await ours.begin()
            for partition in CROSSED:
                await (await ours.send(topic, b"ours", partition=partition))
            before = await placeless(asking, names.values())
            await asyncio.to_thread(cluster.node(broker).kill)
            try:
                await eventually(lambda: placeless(asking, names.values()), before, WAIT_S)
                await asyncio.to_thread(producers["commit"].commit_transaction, WAIT_S)
                await asyncio.to_thread(producers["abort"].abort_transaction, WAIT_S)
                await ours.commit()
                async with ours.transaction():
                    await ours.send(topic, b"after", partition=1)
            finally:
                await asyncio.to_thread(cluster.node(broker).start)
        await in_sync(asking, topic, CROSSED)
        wanted = [[b"commit", b"before", b"ours"], [b"commit", b"ours", b"after"]]
        await eventually(lambda: asyncio.to_thread(read_by_librdkafka, cluster, topic), wanted, WAIT_S)


async def placeless(asking: Admin, names: Iterable[str]) -> dict[str, TransactionDescription]:
    """Give the transactions but for who coordinates them."""
    return {name: replace(found, coordinator=0) for name, found in (await transactions(asking, names)).items()}


async def test_both_kinds_refuse_late_writes_whoever_coordinates(cluster: MixedCluster) -> None:
    pairs = [(leader, coordinator) for leader in (REAL, OURS) for coordinator in (REAL, OURS)]
    topics = {pair: f"late-{pair[0]}-{pair[1]}" for pair in pairs}
    talks = {}
    async with new_topic(cluster, "not-late", CROSSED) as asking:
        places = {topic: {0: (leader, 3 - leader)} for (leader, _), topic in topics.items()}
        await asking.create_topics([NewTopic(topic, assignments=place) for topic, place in places.items()])
        for (leader, coordinator), topic in topics.items():
            await in_sync(asking, topic, places[topic])
            name = await coordinated_by(asking, coordinator, f"writer-{leader}-{coordinator}")
            late = Late(asking, coordinator, leader, topic, "not-late", name)
            await late.ask_for_everything()
            talks[leader, coordinator] = late.talk
        await asking.delete_topics(list(places))
    for talk in talks.values():
        same(talks[REAL, REAL], talk)


async def test_both_kinds_do_the_same_about_the_last_epochs(cluster: MixedCluster) -> None:
    writer = client(cluster).with_properties(client_id="__admin_client")  # others may not write to internal topics
    async with new_topic(cluster, "worn-out", CROSSED), Admin(writer) as asking:
        await coordinated_by(asking, OURS, "any")
        [log] = await asking.describe_topics([TRANSACTIONS])
        places = {p.partition_index: tuple(p.replica_nodes) for p in log.partitions}
        led = {places[n][0]: n for n in places}
        both = {b: Exhausted(asking, b, led[b], len(places), "worn-out") for b in (REAL, OURS)}
        for one in both.values():
            await one.write()
        for away in (True, False):
            moved = {n: places[n][::-1] if away and n in led.values() else places[n] for n in places}
            targets = {TopicPartition(TRANSACTIONS, n): moved[n] for n in led.values()}
            assert set((await asking.alter_partition_reassignments(targets)).values()) == {None}
            await in_sync(asking, TRANSACTIONS, moved)
        for one in both.values():
            await one.read()
        try:
            for level in LEVELS:
                await set_level(asking, level)
                for one in both.values():
                    await one.asked_for(level)
        finally:
            await set_level(asking, max(LEVELS))
    same(both[REAL].talk, both[OURS].talk, *CRASHES)
    logged = {b: one.logged(cluster.data(b)) for b, one in both.items()}
    assert logged[OURS] == logged[REAL]


async def set_level(asking: Admin, level: int) -> None:
    """Finalise a level of transaction.version, and wait until both brokers know."""
    now = (await asking.describe_features(OURS)).finalized.get("transaction.version", 0)
    kind = UpgradeType.UPGRADE if level > now else UpgradeType.SAFE_DOWNGRADE
    if level != now:
        refused = await asking.update_features([FeatureUpdate("transaction.version", level, kind)])
        assert set(refused.values()) == {None}

    async def levels() -> set[int]:
        return {(await asking.describe_features(n)).finalized.get("transaction.version", 0) for n in (REAL, OURS)}

    await eventually(levels, {level}, WAIT_S)
