"""The directory of a node that is broker and controller, handed over both ways with transactions and groups in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import Producer as LibrdkafkaProducer
from confluent_kafka import TopicPartition as LibrdkafkaPartition

from barnabas.client.admin import Admin
from barnabas.client.transactional_producer import TransactionalProducer
from barnabas.model.topic_partition import TopicPartition
from tests.peers.kafka_cluster import MixedCluster

from .clusters import WAIT_S, mixed
from .walks import client, markers_written, new_topic, read_committed, transactional, transactions, write_transaction

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

TOPIC: Final = "handed-over"
NODE: Final = 1
PROTOCOLS: Final = ("classic", "consumer")
PENDING: Final = 5


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedCluster]:
    """Give a single node of ours."""
    alone = {f"{topic}.replication.factor": "1" for topic in ("transaction.state.log", "offsets.topic", "default")}
    with mixed(tmp_path, real=set(), combined=1, properties=alone) as made:
        yield made


class Turn:
    """What one kind leaves behind: transactions that have ended, and some that the other kind is to end."""

    def __init__(self, cluster: MixedCluster, number: int) -> None:
        self.names: Final = {what: f"{what}-{number}" for what in ("committed", "aborted", "open", "own", "fenced")}
        self.group: Final = f"pending-{number}"
        self._cluster = cluster
        self._old: dict[str, LibrdkafkaProducer] = {}
        own = client(cluster).with_properties(transactional_id=self.names["own"], transaction_timeout_ms="600000")
        self.own: Final = TransactionalProducer(own)

    async def begin(self) -> None:
        """Leave transactions in every state, one of them with offsets, one of a client of transaction.version 2."""
        await self._write("committed")
        await asyncio.to_thread(self._old["committed"].commit_transaction, WAIT_S)
        await self._write("aborted")
        await asyncio.to_thread(self._old["aborted"].abort_transaction, WAIT_S)
        await self._write("open")
        await asyncio.to_thread(self._send_offsets)
        await self.own.init_transactions()
        await self.own.begin()
        await (await self.own.send(TOPIC, self.names["own"].encode(), partition=0))
        await self._write("fenced")

    async def _write(self, what: str) -> None:
        self._old[what] = producer = await asyncio.to_thread(transactional, self._cluster, self.names[what])
        await asyncio.to_thread(write_transaction, producer, TOPIC, [0], self.names[what].encode())

    def _send_offsets(self) -> None:
        offsets = [LibrdkafkaPartition(TOPIC, 0, PENDING)]
        consumer = Consumer(self._cluster.librdkafka() | {"group.id": self.group})
        try:
            self._old["open"].send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WAIT_S)
        finally:
            consumer.close()

    async def end(self) -> bytes:
        """Go on with what is open; give what is written last."""
        await asyncio.to_thread(self._old["open"].commit_transaction, WAIT_S)
        await self.own.commit()
        successor = await asyncio.to_thread(transactional, self._cluster, self.names["fenced"])
        with pytest.raises(KafkaException, match=r"(?i)fenced"):
            await asyncio.to_thread(self._old["fenced"].commit_transaction, WAIT_S)
        await asyncio.to_thread(write_transaction, successor, TOPIC, [0], last := b"last of " + self.group.encode())
        await asyncio.to_thread(successor.commit_transaction, WAIT_S)
        return last


class Reader:
    """A member of a group that stays one, whoever coordinates."""

    def __init__(self, cluster: MixedCluster, protocol: str) -> None:
        self.group: Final = f"readers-{protocol}"
        settings: dict[str, Any] = {"group.id": self.group, "group.protocol": protocol, "enable.auto.commit": False}
        self.consumer: Final = Consumer(cluster.librdkafka() | settings | {"auto.offset.reset": "earliest"})
        self.consumer.subscribe([TOPIC])
        self._found: list[bytes | None] = []

    async def read_until(self, last: bytes) -> list[bytes | None]:
        """Read on to this value, and commit; give everything that was ever read."""
        async with asyncio.timeout(WAIT_S):
            while self._found[-1:] != [last]:
                message = await asyncio.to_thread(self.consumer.poll, 0.1)
                if message is not None and message.error() is None:
                    self._found.append(message.value())
        await asyncio.to_thread(self.consumer.commit, asynchronous=False)
        return self._found


async def test_a_combined_node_goes_on_as_the_other_kind(cluster: MixedCluster) -> None:
    """Ours is killed, and Apache Kafka's stops in order."""
    wanted: list[bytes] = []
    async with AsyncExitStack() as stack, new_topic(cluster, TOPIC, {0: (NODE,)}) as asking:
        readers = [Reader(cluster, protocol) for protocol in PROTOCOLS]
        for reader in readers:
            stack.push_async_callback(asyncio.to_thread, reader.consumer.close)
        for number, next_is_real in enumerate((True, False)):
            turn = Turn(cluster, number)
            await stack.enter_async_context(turn.own)
            await turn.begin()
            wanted += [turn.names[what].encode() for what in ("committed", "open", "own")]
            for reader in readers:
                await reader.read_until(turn.names["committed"].encode())
            await markers_written(asking, turn.names.values())
            before = await left(asking, turn, readers)
            await asyncio.to_thread(cluster.node(NODE).kill if next_is_real else cluster.node(NODE).stop)
            cluster.run_as(NODE, real=next_is_real)
            await asyncio.to_thread(cluster.start)
            assert await left(asking, turn, readers) == before
            wanted.append(await turn.end())
            pending = await asking.group_offsets(turn.group, [TopicPartition(TOPIC, 0)], require_stable=True)
            assert pending[TopicPartition(TOPIC, 0)].offset == PENDING
            for reader in readers:
                assert await reader.read_until(wanted[-1]) == wanted
        assert await asyncio.to_thread(read_committed, cluster, TOPIC, 0) == wanted


async def left(asking: Admin, turn: Turn, readers: list[Reader]) -> tuple[object, ...]:
    """Give what the coordinators know: transactions, members of groups, offsets."""
    found = [await asking.describe_group(reader.group) for reader in readers]
    groups = [(g.state, g.epoch, sorted(m.member_id for m in g.members)) for g in found]
    offsets = [await asking.group_offsets(reader.group) for reader in readers]
    kinds = sorted((g.group_id, g.group_type) for g in await asking.list_groups())
    return await transactions(asking, turn.names.values()), groups, offsets, kinds
