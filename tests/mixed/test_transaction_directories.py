"""Transactions in directories that change hands: each of two brokers goes on as the other kind with what it finds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import Producer as LibrdkafkaProducer

from barnabas.client.admin import Admin
from barnabas.client.cluster import CoordinatorKind
from barnabas.client.transaction_errors import ProducerFencedError
from barnabas.client.transactional_producer import TransactionalProducer
from tests.peers.eventually import eventually
from tests.peers.kafka_cluster import MixedCluster

from .clusters import WAIT_S, mixed
from .walks import (
    client,
    led_by,
    markers_written,
    new_topic,
    read_committed,
    transactional,
    transactions,
    write_transaction,
)

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

TOPIC: Final = "handed-over"
PLACES: Final = {0: (1,), 1: (2,)}
REAL: Final = 1
OURS: Final = 2
ALONE: Final = {f"{topic}.replication.factor": "1" for topic in ("transaction.state.log", "offsets.topic", "default")}
"""What a broker knows is in its own directory and nowhere else."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedCluster]:
    """Give a broker of each kind under a controller of ours."""
    with mixed(tmp_path, real={REAL}, controllers=1, brokers=2, properties=ALONE) as made:
        yield made


class Left:
    """The transactions of one coordinator, by what became of them so far, and those who go on with them."""

    def __init__(self, cluster: MixedCluster, broker: int, names: dict[str, str]) -> None:
        self.names = names
        self._cluster = cluster
        self._broker = broker
        self._old: dict[str, LibrdkafkaProducer] = {}
        self._new: dict[str, TransactionalProducer] = {}

    @asynccontextmanager
    async def begun(self) -> AsyncIterator[None]:
        """Bring each transactional id as far as its name says, those of ours by the rules of transaction.version 2."""
        async with AsyncExitStack() as stack:
            for what in ("committed", "aborted", "open", "fenced", "prepared"):
                self._old[what] = await asyncio.to_thread(transactional, self._cluster, self.names[what])
                partitions = [n for n in PLACES if what != "prepared" or self._is_elsewhere(n)]
                await asyncio.to_thread(write_transaction, self._old[what], TOPIC, partitions, self._value(what))
            await asyncio.to_thread(self._old["committed"].commit_transaction, WAIT_S)
            await asyncio.to_thread(self._old["aborted"].abort_transaction, WAIT_S)
            for what in ("new committed", "new aborted", "new open", "new fenced"):
                own = client(self._cluster).with_properties(
                    transactional_id=self.names[what], transaction_timeout_ms="600000"
                )
                self._new[what] = producer = await stack.enter_async_context(TransactionalProducer(own))
                await producer.init_transactions()
                await producer.begin()
                for partition in PLACES:
                    await (await producer.send(TOPIC, self._value(what), partition=partition))
            await self._new["new committed"].commit()
            await self._new["new aborted"].abort()
            yield

    def _is_elsewhere(self, partition: int) -> bool:
        return PLACES[partition] != (self._broker,)

    def _value(self, what: str) -> bytes:
        return f"{what} {self._broker}".encode()

    def decide(self) -> None:
        """Commit what is to hang: the leader of its only partition is away and gets no marker."""
        self._old["prepared"].commit_transaction(WAIT_S)

    async def end(self) -> None:
        """Go on: end what is open, be fenced, and write in one more transaction of every kind."""
        await asyncio.to_thread(self._old["open"].commit_transaction, WAIT_S)
        await self._new["new open"].commit()
        for what in ("fenced", "new fenced"):
            successor = await asyncio.to_thread(transactional, self._cluster, self.names[what])
            await asyncio.to_thread(write_transaction, successor, TOPIC, PLACES, b"by a successor")
            await asyncio.to_thread(successor.abort_transaction, WAIT_S)
        with pytest.raises(KafkaException, match=r"(?i)fenced"):
            await asyncio.to_thread(self._old["fenced"].commit_transaction, WAIT_S)
        with pytest.raises(ProducerFencedError):
            await self._new["new fenced"].commit()
        for what in ("committed", "aborted", "open", "prepared"):
            await asyncio.to_thread(write_transaction, self._old[what], TOPIC, PLACES, self._value(f"more {what}"))
            await asyncio.to_thread(self._old[what].commit_transaction, WAIT_S)
        for what in ("new committed", "new aborted", "new open"):
            async with self._new[what].transaction():
                for partition in PLACES:
                    await self._new[what].send(TOPIC, self._value(f"more {what}"), partition=partition)

    def seen(self, partition: int) -> set[bytes]:
        """Give what readers of what is committed are to find in the end."""
        whole = ("committed", "open", "new committed", "new open")
        more = ("committed", "aborted", "open", "prepared", "new committed", "new aborted", "new open")
        prepared = ["prepared"] if self._is_elsewhere(partition) else []
        return {self._value(what) for what in (*whole, *prepared, *(f"more {what}" for what in more))}


async def test_both_kinds_go_on_with_what_the_other_left(cluster: MixedCluster) -> None:
    async with new_topic(cluster, TOPIC, PLACES) as asking:
        left = {broker: Left(cluster, broker, await named(asking, broker)) for broker in (REAL, OURS)}
        everything = [name for one in left.values() for name in one.names.values()]
        async with left[REAL].begun(), left[OURS].begun():
            settled = [name for name in everything if "prepared" not in name]
            await markers_written(asking, settled)
            before = await transactions(asking, settled)
            await asyncio.to_thread(stop_while_deciding, cluster, left)
            for node in (REAL, OURS):
                cluster.run_as(node, real=node == OURS)
            await asyncio.to_thread(cluster.start)
            assert await transactions(asking, settled) == before
            listed = {t.transactional_id for t in await asking.list_transactions()}
            assert listed >= set(everything)
            prepared = [one.names["prepared"] for one in left.values()]
            await eventually(lambda: states(asking, prepared), ["CompleteCommit"] * 2, WAIT_S)
            for one in left.values():
                await one.end()
        for partition in PLACES:
            wanted = set().union(*(one.seen(partition) for one in left.values()))
            await eventually(lambda: seen(cluster, partition), wanted, WAIT_S)  # noqa: B023


def stop_while_deciding(cluster: MixedCluster, left: dict[int, Left]) -> None:
    """Leave a decided transaction without its marker in each directory: of a node that is killed, of one that stops."""
    cluster.node(OURS).kill()
    left[REAL].decide()
    cluster.node(REAL).kill()
    cluster.node(OURS).start()
    left[OURS].decide()
    cluster.node(OURS).stop()


async def named(asking: Admin, broker: int) -> dict[str, str]:
    """Give transactional ids that this broker coordinates, by what shall become of them."""
    kinds = ("committed", "aborted", "open", "fenced")
    whats = [*kinds, *(f"new {kind}" for kind in kinds), "prepared"]
    found = {}
    for what in whats:
        begin = f"{broker}-{what.replace(' ', '-')}"
        found[what] = await led_by(asking, "__transaction_state", broker, CoordinatorKind.TRANSACTION, begin)
    return found


async def states(asking: Admin, names: list[str]) -> list[str]:
    found = await transactions(asking, names)
    return [found[name].state for name in names]


async def seen(cluster: MixedCluster, partition: int) -> set[bytes | None]:
    return set(await asyncio.to_thread(read_committed, cluster, TOPIC, partition))
