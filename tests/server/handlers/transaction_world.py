"""A broker without a network: real replicas on a memory disk, a real group coordinator on one of them, and handlers.

Who knows of transactions stands beside it: the coordinator's part of the port, in a dict.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeVar, cast

from barnabas.core.authorizer.standard import StandardAuthorizer
from barnabas.core.groups.config import GroupConfig
from barnabas.core.metadata.delta import difference
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.runs import replay
from barnabas.core.replicated import VersionedRecord
from barnabas.model.acl import AclBinding
from barnabas.model.metrics import Metrics
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import Uuid
from barnabas.net.clock import SystemClock
from barnabas.server.authorization import Authz
from barnabas.server.config import NodeConfig
from barnabas.server.context import ClientConnection, LiveBroker, RequestContext
from barnabas.server.coordinators.partition_log import PartitionLog
from barnabas.server.groups.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from barnabas.server.metrics import ServerMetrics
from barnabas.server.node import Node
from barnabas.server.quotas.throttle import Throttle
from barnabas.server.replication.partition import Partition
from barnabas.server.replication.replica_manager import ReplicaManager
from barnabas.server.router import Router
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_dirs import LogDirs
from barnabas.storage.memory_fs import MemoryFileSystem
from barnabas.wire.api_keys import API_KEYS
from barnabas.wire.errors import ErrorCode
from barnabas.wire.header import decode_response_header
from barnabas.wire.message import Message, decode, encode
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.topic_record import TopicRecord
from tests.server.handlers.group_world import SETTINGS, topic_id

DATA = Path("/data")
HANDLERS = ("produce", "write_txn_markers", "txn_offset_commit", "describe_producers", "list_offsets", "offset_fetch")
ALONE, SHARED, FOLLOWED = "t", "shared", "followed"
"""Topics of one replica, of two that are led here, and of two that are led elsewhere."""
M = TypeVar("M", bound=Message)


class Coordinator:
    """The twin of a way to coordinators. wrong: what it says; asked: (question, id, producer, epoch, partitions)."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, int, int, tuple[TopicPartition, ...]]] = []
        self.wrong: list[Mapping[TopicPartition, ErrorCode]] = []
        self.answers = asyncio.Event()
        self.answers.set()
        self.was_asked = asyncio.Event()

    async def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        return await self._asked("verify", transactional_id, producer_id, epoch, partitions)

    async def add(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        return await self._asked("add", transactional_id, producer_id, epoch, partitions)

    def verified_at_once(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]
    ) -> None:
        """Say that it has to be waited for, as for a coordinator elsewhere."""

    async def _asked(self, question: str, *what: Any) -> Mapping[TopicPartition, ErrorCode]:
        self.asked.append((question, *what))
        self.was_asked.set()
        await self.answers.wait()
        return self.wrong.pop(0) if self.wrong else {}


class _Tail:
    """A session of the other replica that only notes that there is more to fetch."""

    def __init__(self) -> None:
        self.more = asyncio.Event()

    def grown(self) -> None:
        self.more.set()

    def news(self) -> None:
        pass


class World:
    """As much of a node as these handlers use. acls: None for a node without an authorizer."""

    def __init__(self, acls: list[AclBinding] | None = None) -> None:
        self.clock = SystemClock()
        self.acls = acls
        self.config = NodeConfig.parse({**SETTINGS, "log.dirs": str(DATA)})
        self.metrics = ServerMetrics(Metrics(self.clock))
        self.quotas = Throttle(self.config, self.clock)
        self.log_dirs = LogDirs(
            [DATA],
            self.clock,
            fs=MemoryFileSystem(self.clock.now_ms),
            rng=Random(1),
            topic_config=lambda topic: LogConfig.of({}),
        )
        self.log_dirs.acquire("world", 1)
        self.log_dirs.load()
        self._image = MetadataImage.EMPTY
        self.replicas = ReplicaManager(
            self.config,
            self.clock,
            self.log_dirs,
            cast(Any, None),
            self.metrics.registry,
            image=self.image,
            broker_epoch=lambda: 1,
        )
        self.partitions = self.replicas.partitions
        self.coordinator = Coordinator()
        self.replicas.verification.verifier = self.coordinator
        self.groups = GroupCoordinator(
            GroupConfig(initial_rebalance_delay_ms=0),
            clock=self.clock,
            new_uuid=lambda: Uuid(bytes(16)),
            partition_count=lambda: 1,
            open_log=lambda tp: PartitionLog(self.partitions, tp),
            verify=self.replicas.verification.guard_of_offsets,
        )
        self.router = Router(HANDLERS, listener="broker")
        after = _image()
        self.partitions.publish(difference(self._image, after), after)
        self._image = after

    # --- what handlers ask for

    def image(self) -> MetadataImage:
        return self._image

    def live_brokers(self, listener_name: str) -> list[LiveBroker]:
        return []

    def leader_and_epoch(self, topic: str, partition: int) -> tuple[int, int]:
        return -1, -1

    # --- driving

    def partition(self, topic: str = ALONE, number: int = 0) -> Partition:
        found = self.partitions.find(TopicPartition(topic, number))
        assert found is not None
        return found

    async def grown(self, end: int) -> None:
        """Wait until the shared partition ends there."""
        partition = self.partition(SHARED)
        tail = partition.tails[2] = _Tail()
        while partition.log.log_end_offset < end:
            tail.more.clear()
            await tail.more.wait()

    def follow(self, topic: str = SHARED) -> None:
        """Let the other replica fetch all there is."""
        partition = self.partition(topic)
        end = partition.log.log_end_offset
        partition.follower_fetched(2, 1, end, 0, end, self.clock.monotonic_ms())

    async def ask(self, request: Message, response: type[M], version: int, user: str = "alice") -> M:
        """Send the request as bytes, from a buffer that is used again at once, and read the answer's bytes."""
        frame = bytearray(encode(request, version))
        answer: Any = self.router.route(self._context(request, version, user), memoryview(frame), 0)
        if isinstance(answer, Awaitable):
            frame[:] = bytes(len(frame))
            answer = await answer
        data = b"".join(bytes(p) for p in answer)
        _, at = decode_response_header(request.API_KEY, version, data, 4)
        return decode(response, version, data, at)

    def _context(self, request: Message, version: int, user: str) -> RequestContext:
        authorizer = None
        if self.acls is not None:
            authorizer = StandardAuthorizer().with_acls([(Uuid(bytes([n] * 16)), a) for n, a in enumerate(self.acls)])
        principal = KafkaPrincipal("User", user)
        connection = ClientConnection("c", "10.0.0.9", 1, "PLAINTEXT", "PLAINTEXT", principal)
        row = API_KEYS[request.API_KEY]
        authz = Authz(authorizer, principal, "10.0.0.9", "Test")
        return RequestContext(cast(Node, self), connection, row, version, 7, "client", authz)

    async def produce(
        self, *written: tuple[str, int, memoryview], version: int = 12, name: str | None = "x", acks: int = -1
    ) -> list[ErrorCode]:
        """Write a batch to each (topic, partition), and give what was answered."""
        topics = [
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=number, records=records)])
            for topic, number, records in written
        ]
        request = ProduceRequest(transactional_id=name, acks=acks, timeout_ms=10_000, topic_data=topics)
        answer = await self.ask(request, ProduceResponse, version)
        return [ErrorCode(p.error_code) for t in answer.responses for p in t.partition_responses]


def _image() -> MetadataImage:
    records: list[VersionedRecord] = []
    topics = {ALONE: ([1], 2, 1), SHARED: ([1, 2], 1, 1), FOLLOWED: ([2, 1], 1, 2), OFFSETS_TOPIC: ([1], 1, 1)}
    for name, (replicas, count, leader) in topics.items():
        records.append(VersionedRecord(TopicRecord(name=name, topic_id=topic_id(name)), 0))
        for index in range(count):
            partition = PartitionRecord(
                partition_id=index,
                topic_id=topic_id(name),
                replicas=replicas,
                isr=replicas,
                leader=leader,
                leader_epoch=0,
                partition_epoch=0,
                directories=[topic_id("dir")] * len(replicas),
            )
            records.append(VersionedRecord(partition, 1))
    return replay(MetadataImage.EMPTY, records)


@asynccontextmanager
async def world(acls: list[AclBinding] | None = None) -> AsyncIterator[World]:
    """Give a world whose group coordinator serves."""
    made = World(acls)
    await made.groups.elected(0)
    async with asyncio.timeout(60):
        yield made
    await made.groups.close()
