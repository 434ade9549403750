"""Group handlers behind a real router, as bytes, on a coordinator in memory: a node reduced to what they use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast

from barnabas.core.authorizer.standard import StandardAuthorizer
from barnabas.core.groups.config import GroupConfig
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.runs import replay
from barnabas.core.replicated import VersionedRecord
from barnabas.model.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.uuid import Uuid
from barnabas.net.clock import SystemClock
from barnabas.server.authorization import Authz
from barnabas.server.config import NodeConfig
from barnabas.server.context import ClientConnection, RequestContext
from barnabas.server.coordinators.coordinator_log import MemoryLog
from barnabas.server.groups.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from barnabas.server.node import Node
from barnabas.server.quotas.throttle import Throttle
from barnabas.server.router import Promised, Router
from barnabas.server.transactions.transaction_coordinator import TransactionCoordinator
from barnabas.wire.api_keys import API_KEYS
from barnabas.wire.header import decode_response_header
from barnabas.wire.message import Message, decode, encode
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.topic_record import TopicRecord
from tests.server.transactions.test_coordinator import World as TransactionWorld

HANDLERS = (
    "delete_groups",
    "describe_groups",
    "find_coordinator",
    "heartbeat",
    "join_group",
    "leave_group",
    "list_groups",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
    "sync_group",
)

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}
M = TypeVar("M", bound=Message)


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode().ljust(16, b"."))


def allow(principal: str, operation: AclOperation, kind: ResourceType, name: str) -> AclBinding:
    return AclBinding(ResourcePattern(kind, name), principal, "*", operation, AclPermissionType.ALLOW)


class Broker(NamedTuple):
    node_id: int
    host: str
    port: int


@dataclass
class GroupNode:
    """What group handlers use of a node."""

    groups: GroupCoordinator
    topics: dict[str, int]
    created: list[str] = field(default_factory=list)
    leader: int = 1
    transactions: TransactionCoordinator = field(default_factory=lambda: TransactionWorld().coordinator)
    quotas: Throttle = field(default_factory=lambda: Throttle(NodeConfig.parse(SETTINGS), SystemClock()))

    def image(self) -> MetadataImage:
        records: list[VersionedRecord] = []
        for name, count in self.topics.items():
            records.append(VersionedRecord(TopicRecord(name=name, topic_id=topic_id(name)), 0))
            for index in range(count):
                partition = PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id(name),
                    replicas=[1],
                    isr=[1],
                    leader=self.leader,
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[topic_id("dir")],
                )
                records.append(VersionedRecord(partition, 1))
        return replay(MetadataImage.EMPTY, records)

    def live_brokers(self, listener_name: str) -> list[Broker]:
        return [Broker(1, "broker.example", 9092)] if listener_name == "PLAINTEXT" else []

    async def ensure_internal_topic(self, name: str) -> None:
        self.created.append(name)


@dataclass
class World:
    """acls: None for a node without an authorizer."""

    node: GroupNode
    acls: list[AclBinding] | None = None
    router: Router = field(default_factory=lambda: Router(HANDLERS, listener="broker"))

    async def ask(self, request: Message, response: type[M], version: int, user: str = "alice") -> M:
        """Send the request as bytes and read the response's bytes."""
        row = API_KEYS[request.API_KEY]
        authorizer = None
        if self.acls is not None:
            by_id = [(Uuid(bytes([n] * 16)), acl) for n, acl in enumerate(self.acls)]
            authorizer = StandardAuthorizer().with_acls(by_id)
        principal = KafkaPrincipal("User", user)
        connection = ClientConnection("c", "10.0.0.9", 1, "PLAINTEXT", "PLAINTEXT", principal)
        ctx = RequestContext(
            cast(Node, self.node),
            connection,
            row,
            version,
            7,
            "client",
            Authz(authorizer, principal, "10.0.0.9", "Test"),
        )
        answer: Any = self.router.route(ctx, memoryview(encode(request, version)), 0)
        if isinstance(answer, Promised):
            await asyncio.wait([answer.answer])
            answer = self.router.kept(ctx, answer)
        parts = await answer if isinstance(answer, Awaitable) else answer
        frame = b"".join(bytes(p) for p in parts)
        header, at = decode_response_header(request.API_KEY, version, frame, 4)
        assert header.correlation_id == 7
        return decode(response, version, frame, at)


@asynccontextmanager
async def world(config: GroupConfig | None = None, **topics: int) -> AsyncIterator[World]:
    """Give a world whose one partition of `__consumer_offsets` is led here."""
    count = 0

    def new_uuid() -> Uuid:
        nonlocal count
        count += 1
        return Uuid(count.to_bytes(16, "big"))

    log = MemoryLog()
    groups = GroupCoordinator(
        config or GroupConfig(initial_rebalance_delay_ms=0),
        clock=SystemClock(),
        new_uuid=new_uuid,
        partition_count=lambda: 1,
        open_log=lambda tp: log,
    )
    await groups.elected(0)
    async with asyncio.timeout(60):
        yield World(GroupNode(groups, {OFFSETS_TOPIC: 1, **topics}))
    await groups.close()
