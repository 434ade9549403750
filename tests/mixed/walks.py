"""What clients do to a cluster here, and what can be seen of it in the nodes' own files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import Producer as LibrdkafkaProducer
from confluent_kafka import TopicPartition as LibrdkafkaPartition

from barnabas.client.accumulator import Delivery
from barnabas.client.admin import Admin
from barnabas.client.admin.reassignments import ElectionType
from barnabas.client.admin.topics import ListedOffset, NewTopic, OffsetSpec
from barnabas.client.admin.transactions import TransactionDescription
from barnabas.client.cluster import CoordinatorKind
from barnabas.client.config import ClientConfig
from barnabas.client.consumer import PartitionFetcher
from barnabas.client.producer import Producer
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.dev_node import SUPER_USER
from barnabas.testing.processes import ProcessCluster
from tests.peers.eventually import eventually

from .clusters import WAIT_S

_PACE_S: Final = 0.005
EAGER: Final = {"retry.backoff.max.ms": "200"}


def client(cluster: ProcessCluster, node: int | None = None, user: str = "", password: str = "") -> ClientConfig:
    """Give a client's settings. node: the only one that it knows at first; user: other than the super user."""
    bootstrap = "" if node is None else cluster.node(node).bootstrap
    return ClientConfig.from_properties(cluster.client(user or SUPER_USER, password, bootstrap) | EAGER)


def admin(cluster: ProcessCluster, node: int | None = None, user: str = "", password: str = "") -> Admin:
    """Give an admin client. node: the broker through which everything goes that any broker may be asked."""
    return Admin(client(cluster, node, user, password))


@asynccontextmanager
async def new_topic(
    cluster: ProcessCluster, name: str, assignments: Mapping[int, Sequence[int]], **configs: str
) -> AsyncIterator[Admin]:
    """Make a topic whose replicas lie on these brokers, wait until all are in sync; delete it in the end."""
    named = {key.replace("__", "."): value for key, value in configs.items()}
    async with admin(cluster) as made:
        refused = await made.create_topics([NewTopic(name, assignments=assignments, configs=named)])
        assert refused == {name: None}
        await in_sync(made, name, assignments)
        yield made
        await made.delete_topics([name])


async def leaders_and_isrs(asking: Admin, topic: str) -> dict[int, tuple[int, set[int]]]:
    """Give each partition's leader and in-sync replicas as a broker tells them now."""
    asking.cluster.forget_topic(topic)
    found = await asking.cluster.retry(lambda: asking.cluster.topic(topic))
    return {n: (p.leader, set(p.isr)) for n, p in found.partitions.items()}


async def in_sync(asking: Admin, topic: str, assignments: Mapping[int, Sequence[int]]) -> None:
    """Wait until every replica is in sync and the preferred one leads, after electing it."""

    async def isrs() -> dict[int, set[int]]:
        return {n: isr for n, (_, isr) in (await leaders_and_isrs(asking, topic)).items()}

    async def leaders() -> dict[int, int]:
        return {n: leader for n, (leader, _) in (await leaders_and_isrs(asking, topic)).items()}

    await eventually(isrs, {n: set(replicas) for n, replicas in assignments.items()}, WAIT_S)
    await asking.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, n) for n in assignments])
    await eventually(leaders, {n: replicas[0] for n, replicas in assignments.items()}, WAIT_S)


class Load:
    """Writes numbered records to every partition of a topic, all replicas acknowledging, until the block ends."""

    def __init__(self, cluster: ProcessCluster, topic: str, partitions: int) -> None:
        self.sent: dict[int, list[bytes]] = {n: [] for n in range(partitions)}
        self._topic = topic
        self._producer = Producer(client(cluster))
        self._deliveries: list[Delivery] = []
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._write())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._producer.close(flush=kind is None)
        if kind is None:
            for delivery in self._deliveries:
                await delivery

    async def _write(self) -> None:
        number = 0
        while True:
            for partition, values in self.sent.items():
                value = b"%d-%d" % (partition, number)
                self._deliveries.append(await self._producer.send(self._topic, value, partition=partition))
                values.append(value)
            number += 1
            await asyncio.sleep(_PACE_S)


def write_by_librdkafka(settings: dict[str, Any], topic: str, values: dict[int, list[bytes]]) -> None:
    """Write by another client than ours; every record has to be acknowledged."""
    failed: list[LibrdkafkaError] = []
    producer = LibrdkafkaProducer(settings)
    for partition, written in values.items():
        for value in written:
            producer.produce(
                topic, value, partition=partition, on_delivery=lambda error, _: failed.append(error) if error else None
            )
    assert producer.flush(WAIT_S) == 0
    assert failed == []


async def ends_of(asking: Admin, topic: str, partitions: int) -> dict[int, int]:
    """Give the end offset of each partition."""
    wanted = {TopicPartition(topic, n): int(OffsetSpec.LATEST) for n in range(partitions)}
    found = {}
    for partition, listed in (await asking.list_offsets(wanted)).items():
        assert isinstance(listed, ListedOffset), listed
        found[partition.partition] = listed.offset
    return found


async def read_all(cluster: ProcessCluster, topic: str, counts: Mapping[int, int]) -> dict[int, list[bytes | None]]:
    """Give the values of each partition from the beginning, as many as wanted."""
    found: dict[int, list[bytes | None]] = {n: [] for n in counts}
    async with PartitionFetcher(client(cluster)) as fetcher, asyncio.timeout(WAIT_S):
        fetcher.assign(await fetcher.start_offsets([TopicPartition(topic, n) for n in counts], "earliest"))
        while any(len(found[n]) < count for n, count in counts.items()):
            for batches in await fetcher.fetch(500):
                found[batches.partition.partition] += batches.columns().values
    return found


def log_bytes(directory: Path, name: str) -> bytes:
    """Give a log as it lies in a node's directory, all segments in their order."""
    return b"".join(path.read_bytes() for path in sorted((directory / name).glob("*.log")))


async def same_logs(directories: Sequence[Path], names: Sequence[str]) -> None:
    """Wait until the replicas of these partitions are the same byte for byte."""

    async def differing() -> list[str]:
        return [name for name in names if len({log_bytes(d, name) for d in directories}) != 1]

    await eventually(differing, [], WAIT_S)
    assert all(log_bytes(directories[0], name) for name in names)


def write_transaction(producer: LibrdkafkaProducer, topic: str, partitions: Iterable[int], value: bytes) -> None:
    """Begin a transaction and write one record to each partition, acknowledged."""
    producer.begin_transaction()
    for partition in partitions:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(WAIT_S) == 0


def transactional(cluster: ProcessCluster, transactional_id: str) -> LibrdkafkaProducer:
    """Give librdkafka's producer of a transactional id, its older producers fenced."""
    settings = {"transactional.id": transactional_id, "transaction.timeout.ms": 600_000, "linger.ms": 0}
    made = LibrdkafkaProducer(cluster.librdkafka() | settings)
    made.init_transactions(WAIT_S)
    return made


def read_committed(cluster: ProcessCluster, topic: str, partition: int) -> list[bytes | None]:
    """Give the values of a partition up to its last stable offset as librdkafka sees them."""
    settings = {"group.id": "readers-of-what-is-committed", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = LibrdkafkaConsumer(cluster.librdkafka() | settings | {"isolation.level": "read_committed"})
    consumer.assign([LibrdkafkaPartition(topic, partition, 0)])
    found: list[bytes | None] = []
    try:
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None, f"{topic}-{partition} gave no end after {found}"
            error = message.error()
            if error is None:
                found.append(message.value())
            else:
                assert error.code() == LibrdkafkaError._PARTITION_EOF, error
                return found
    finally:
        consumer.close()


async def led_by(asking: Admin, topic: str, broker: int, coordinators: CoordinatorKind, begin: str) -> str:
    """Give a name, of those that begin so, that this broker coordinates when all preferred replicas lead.

    topic: the coordinators' own.
    """
    await asking.cluster.retry(partial(asking.cluster.coordinator, coordinators, "any"))
    [described] = await asking.describe_topics([topic])
    await in_sync(asking, topic, {p.partition_index: p.replica_nodes for p in described.partitions})
    for n in range(200):
        name = f"{begin}-{n}"
        if await asking.cluster.retry(partial(asking.cluster.coordinator, coordinators, name)) == broker:
            return name
    raise AssertionError(f"broker {broker} coordinates nothing of {topic}")


async def transactions(asking: Admin, names: Iterable[str]) -> dict[str, TransactionDescription]:
    """Give what the coordinators of now say of transactional ids that they know."""
    found = {}
    for name in names:
        asking.cluster.forget_coordinator(CoordinatorKind.TRANSACTION, name)
        described = (await asking.describe_transactions([name]))[name]
        assert isinstance(described, TransactionDescription), described
        found[name] = described
    return found


async def markers_written(asking: Admin, names: Iterable[str]) -> None:
    """Wait until no transaction of these is ending: clients are answered before the markers are written."""

    async def ending() -> list[str]:
        found = await transactions(asking, names)
        return [name for name, transaction in found.items() if transaction.state.startswith("Prepare")]

    await eventually(ending, [], WAIT_S)
