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
from barnabas.client.admin.transactions import TransactionDescription
from barnabas.client.cluster import CoordinatorKind
from barnabas.client.transactional_producer import TransactionalProducer
from barnabas.model.topic_partition import TopicPartition
from barnabas.testing.processes import ProcessCluster
from tests.peers.eventually import eventually
from tests.peers.kafka_cluster import MixedCluster

from .clusters import WAIT_S, mixed
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
