"""What a client knows of a cluster: its nodes, topics, leaders and coordinators, and a channel to each node.

Everything learned is a cache: whoever gets an answer that shows it to be old calls `forget_*` and asks again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple, Self, TypeVar

from barnabas.client.config import ClientConfig, HostPort
from barnabas.client.security import channel_settings
from barnabas.core.forwarding.outcome import from_wrong_node
from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import ZERO_UUID, Uuid
from barnabas.net.client import (
    Channel,
    ChannelSettings,
    DisconnectedError,
    RequestTimeoutError,
    UnsupportedVersionError,
)
from barnabas.wire.api_keys import API_KEYS
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

T = TypeVar("T")
_STALE_LEADER: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
_STALE_CONTROLLER: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER})
_STALE_COORDINATOR: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


CONTROLLERS: Final = 2
"""DescribeCluster's endpoint type of controllers; 1 is that of brokers."""


class CoordinatorKind(IntEnum):
    """What a coordinator coordinates; the numbers are FindCoordinator's."""

    GROUP = 0
    TRANSACTION = 1


class Node(NamedTuple):
    """A node as clients reach it."""

    id: int
    host: str
    port: int
    rack: str | None = None


class PartitionInfo(NamedTuple):
    """Where a partition is. leader: -1 when it has none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic as metadata describes it."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: Mapping[int, PartitionInfo]
    learned_at: float = field(compare=False)


class Cluster:
    """The nodes of one cluster as one client sees them. Use as an async context manager, or `close` it.

    With bootstrap.controllers the nodes are the controllers, and "whichever node" is the active one.
    """

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.nodes: dict[int, Node] = {}
        self.cluster_id: str | None = None
        self.controller_id = -1
        self._topics: dict[str, TopicInfo] = {}
        self._names: dict[Uuid, str] = {}
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}
        self._channels: dict[int | HostPort, Channel] = {}
        self._opening: dict[int | HostPort, asyncio.Lock] = {}
        self._misled: Channel | None = None
        """To a node that did not find the controller; others are asked first."""
        self._looks_for_controller = False
        self._settings: ChannelSettings | None = None
        self._refreshing = asyncio.Lock()
        self.reached = False
        """Whether any node has ever been talked to."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close()

    # Channels.

    async def channel(self, node_id: int) -> Channel:
        """Give the open channel to a node, opening it first when there is none."""
        if (channel := self._channels.get(node_id)) is not None and not channel.is_closed:
            return channel
        if node_id not in self.nodes:
            await self.refresh(())
        node = self.nodes.get(node_id)
        if node is None:
            raise DisconnectedError(f"there is no live node {node_id} in the cluster")
        return await self._open(node_id, node.host, node.port)

    async def any_channel(self) -> Channel:
        """Give the open channel to a node on which the fewest requests are on their way, or open one.

        DisconnectedError when no node can be reached.
        """
        if not self.config.asks_controllers:
            return await self._found_controller() or await self._some_channel()
        if self.controller_id < 0:
            await self.refresh(())
        if self.controller_id < 0:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "no controller is active now")
        return await self.channel(self.controller_id)

    async def _found_controller(self) -> Channel | None:
        """Give the channel to whom brokers take for the controller, after one of them has refused to act for it.

        In KRaft every broker acts for it; in ZooKeeper mode those of Apache Kafka leave it to clients to find it.
        """
        misled, self._looks_for_controller = self._looks_for_controller, False
        if not misled:
            return None
        await self.refresh(())
        if self.controller_id not in self.nodes:
            return None
        found = await self.channel(self.controller_id)
        return None if found is self._misled else found

    async def _some_channel(self) -> Channel:
        channels = [channel for channel in self._channels.values() if not channel.is_closed]
        if fresh := [channel for channel in channels if channel is not self._misled]:
            return min(fresh, key=lambda channel: channel.in_flight)
        why: Exception | None = None
        candidates: list[tuple[int | HostPort, str, int]] = [(n.id, n.host, n.port) for n in self.nodes.values()]
        random.shuffle(candidates)
        candidates.sort(key=lambda candidate: candidate[0] in self._channels)
        candidates += [(server, server.host, server.port) for server in self.config.bootstrap]
        for key, host, port in candidates:
            try:
                return await self._open(key, host, port)
            except (DisconnectedError, RequestTimeoutError) as e:
                why = e
        raise why or DisconnectedError("no node of the cluster can be reached")

    async def _open(self, key: int | HostPort, host: str, port: int) -> Channel:
        async with self._opening.setdefault(key, asyncio.Lock()):
            channel = self._channels.get(key)
            if channel is None or channel.is_closed:
                channel = await Channel.open(host, port, self._channel_settings())
                self._channels[key] = channel
                self.reached = True
            return channel

    def _channel_settings(self) -> ChannelSettings:
        if self._settings is None:
            self._settings = channel_settings(self.config)
        return self._settings

    def feature_level(self, name: str) -> int:
        """Give the finalized level of a feature, as the node with the newest word tells it; 0 when it is not set."""
        channels = [c for c in self._channels.values() if c.finalized_features_epoch >= 0]
        if not channels:
            return 0
        newest = max(channels, key=lambda channel: channel.finalized_features_epoch)
        return newest.finalized_features.get(name, (0, 0))[1]

    # Calls.

    async def call_any(self, request: Any, **how: Any) -> Any:
        """Send a request to whichever node; lost connections are tried again until default.api.timeout.ms."""

        async def once() -> Any:
            channel = await self.any_channel()
            response = await channel.call(request, **how)
            code = getattr(response, "error_code", 0)
            if code in _STALE_CONTROLLER:
                self._misled, self._looks_for_controller = channel, True
                raise ApiError(ErrorCode(code), getattr(response, "error_message", None))
            row = API_KEYS[request.API_KEY]
            if row.forwardable and from_wrong_node(row.key, response):
                self._misled, self._looks_for_controller = channel, True
                raise ApiError(ErrorCode.NOT_CONTROLLER)
            return response

        return await self.retry(once)

    async def call_node(self, node_id: int, request: Any, **how: Any) -> Any:
        """Send a request to one node; lost connections are tried again."""

        async def once() -> Any:
            return await (await self.channel(node_id)).call(request, **how)

        return await self.retry(once)

    async def call_leader(self, partition: TopicPartition, request: Any, **how: Any) -> Any:
        """Send a request to the leader of a partition."""

        async def once() -> Any:
            return await (await self.channel(await self.leader(partition))).call(request, **how)

        return await self.retry(once)

    async def call_coordinator(self, kind: CoordinatorKind, key: str, request: Any, **how: Any) -> Any:
        """Send a request to the coordinator of a group or transactional id.

        A top-level error_code that says the coordinator moved or loads is tried again; others are the caller's.
        """

        async def once() -> Any:
            node = await self.coordinator(kind, key)
            response = await (await self.channel(node)).call(request, **how)
            code = getattr(response, "error_code", 0)
            if code in _STALE_COORDINATOR or code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                self.forget_coordinator(kind, key)
                raise ApiError(ErrorCode(code))
            return response

        return await self.retry(once)

    async def retry(self, attempt: Callable[[], Awaitable[T]], *, timeout_ms: int | None = None) -> T:
        """Do `attempt` until it gives something: lost connections and retriable refusals are tried again.

        Gives up after timeout_ms (default.api.timeout.ms) with the last error. A cluster that was never reached
        is not waited for: its address is more likely wrong than its nodes asleep.
        """
        loop = asyncio.get_running_loop()
        limit_ms = self.config.integer("default.api.timeout.ms") if timeout_ms is None else timeout_ms
        deadline = loop.time() + limit_ms / 1000
        for backoff_s in backoffs(self.config):
            try:
                return await attempt()
            except ApiError as e:
                if not e.code.retriable or loop.time() + backoff_s > deadline:
                    raise
                if e.code in _STALE_LEADER:
                    self._topics.clear()
                if e.code in _STALE_CONTROLLER:
                    self.controller_id = -1
            except (DisconnectedError, RequestTimeoutError):
                if not self.reached or loop.time() + backoff_s > deadline:
                    raise
                self._topics.clear()
                self._coordinators.clear()
                self.controller_id = -1
            await asyncio.sleep(backoff_s)
        raise AssertionError("back-offs never end")

    # Metadata.

    async def refresh(self, topics: Collection[str] | None = None, *, create: bool = False) -> None:
        """Learn nodes and these topics anew (None: all of them); ApiError when a topic is refused.

        create: let the cluster create topics that are missing, where it is configured to.
        """
        async with self._refreshing:
            if self.config.asks_controllers:
                await self._learn_controllers()
                return
            response = await self._metadata(topics, create)
            self._learn(response, complete=topics is None)
        if topics is None:
            return
        for topic in response.topics:
            if topic.error_code != ErrorCode.NONE:
                self._topics.pop(topic.name or "", None)
                raise topic_error(topic.error_code, topic.name or "")

    async def _learn_controllers(self) -> None:
        channel = await self._some_channel()
        response: DescribeClusterResponse = await channel.call(DescribeClusterRequest(endpoint_type=CONTROLLERS))
        if response.error_code != ErrorCode.NONE:
            raise ApiError(ErrorCode(response.error_code), response.error_message)
        self.nodes = {b.broker_id: Node(b.broker_id, b.host, b.port) for b in response.brokers}
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id

    async def _metadata(self, topics: Collection[str] | None, create: bool) -> MetadataResponse:
        request = MetadataRequest(
            topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=create,
        )
        response: MetadataResponse = await (await self._some_channel()).call(request)
        return response

    def _learn(self, response: MetadataResponse, *, complete: bool) -> None:
        now = asyncio.get_running_loop().time()
        self.nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        if complete:
            self._topics.clear()
        for t in response.topics:
            if t.error_code == ErrorCode.NONE and t.name is not None:
                partitions = {
                    p.partition_index: PartitionInfo(
                        p.partition_index,
                        p.leader_id,
                        p.leader_epoch,
                        tuple(p.replica_nodes),
                        tuple(p.isr_nodes),
                        tuple(p.offline_replicas),
                    )
                    for p in sorted(t.partitions, key=lambda p: p.partition_index)
                }
                self._topics[t.name] = TopicInfo(t.name, t.topic_id, t.is_internal, partitions, now)
                if t.topic_id != ZERO_UUID:
                    self._names[t.topic_id] = t.name

    async def topics(self) -> Mapping[str, TopicInfo]:
        """Give every topic that this client may see, asked anew."""

        async def once() -> None:
            await self.refresh(None)

        await self.retry(once)
        return dict(self._topics)

    async def topic(self, name: str, *, create: bool = False) -> TopicInfo:
        """Give one topic, from the cache while it is younger than metadata.max.age.ms; ApiError when refused."""
        known = self._topics.get(name)
        now = asyncio.get_running_loop().time()
        if known is None or now - known.learned_at > self.config.integer("metadata.max.age.ms") / 1000:
            await self.refresh([name], create=create)
            known = self._topics.get(name)
            if known is None:
                raise topic_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
        return known

    def topic_name(self, topic_id: Uuid) -> str | None:
        """Give the name that goes with a topic id, as far as this client has heard."""
        return self._names.get(topic_id)

    async def leader(self, partition: TopicPartition) -> int:
        """Give the node that leads a partition; ApiError when there is no such partition or no leader now."""
        info = (await self.topic(partition.topic)).partitions.get(partition.partition)
        if info is None:
            raise topic_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(partition))
        if info.leader < 0:
            self.forget_topic(partition.topic)
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition} has no leader")
        return info.leader

    async def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Give the partitions grouped by the node that leads them."""
        grouped: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            grouped.setdefault(await self.leader(partition), []).append(partition)
        return grouped

    def forget_topic(self, name: str) -> None:
        """Ask anew for a topic the next time it is needed."""
        self._topics.pop(name, None)

    # Coordinators.

    async def coordinator(self, kind: CoordinatorKind, key: str) -> int:
        """Give the node that coordinates a group or transactional id; ApiError when refused or not ready."""
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        channel = await self.any_channel()
        request = FindCoordinatorRequest(key_type=kind)
        version = channel.versions(request)
        if version >= 4:
            request.coordinator_keys = [key]
        else:
            request.key = key
        response: FindCoordinatorResponse = await channel.call(request, version=version)
        found: Any = response.coordinators[0] if version >= 4 else response
        if found.error_code != ErrorCode.NONE:
            raise ApiError(ErrorCode(found.error_code), found.error_message or _about_group(found.error_code, key))
        self.nodes.setdefault(found.node_id, Node(found.node_id, found.host, found.port))
        self._coordinators[kind, key] = found.node_id
        return int(found.node_id)

    def forget_coordinator(self, kind: CoordinatorKind, key: str) -> None:
        """Ask anew for a coordinator the next time it is needed."""
        self._coordinators.pop((kind, key), None)


def backoffs(config: ClientConfig) -> Iterable[float]:
    """Give how long to wait before each retry, in seconds: doubling, with a fifth of chance in it, without end."""
    wait_ms, most_ms = config.integer("retry.backoff.ms"), config.integer("retry.backoff.max.ms")
    while True:
        yield min(wait_ms, most_ms) / 1000 * random.uniform(0.8, 1.2)
        wait_ms = min(max(wait_ms, 1) * 2, max(most_ms, 1))


def topic_error(code: int, topic: str) -> ApiError:
    """Give the refusal of something about a topic, with the topic in its text."""
    error = ErrorCode(code)
    if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return ApiError(error, f"there is no topic or partition {topic!r}, or no permission to know of it")
    if error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return ApiError(error, f"not authorized on topic {topic!r}")
    return ApiError(error, f"topic {topic!r}: {error.message}")


def _about_group(code: int, key: str) -> str:
    return f"{key!r}: {ErrorCode(code).message}"


__all__ = [
    "Cluster",
    "CoordinatorKind",
    "Node",
    "PartitionInfo",
    "TopicInfo",
    "UnsupportedVersionError",
    "backoffs",
    "channel_settings",
    "topic_error",
]
