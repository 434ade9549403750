"""A broker of the simulation: the real replicas, fetch sessions and fetchers, on a memory disk, without a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, cast

from barnabas.core.metadata.delta import difference
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.replication.in_sync import IsrProposal
from barnabas.model.metrics import Meter, Metrics
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.authorization import Authz
from barnabas.server.config import NodeConfig
from barnabas.server.context import ClientConnection, LiveBroker, RequestContext
from barnabas.server.metrics import ServerMetrics
from barnabas.server.replication.fetch_sessions import FetchSessions
from barnabas.server.replication.followed_partitions import FetcherSettings, FollowedPartitions
from barnabas.server.replication.follower_fetch import FollowerReading
from barnabas.server.replication.follower_sessions import follower_session
from barnabas.server.replication.partition import NO_LEADER, Partition
from barnabas.server.replication.replica_manager import ReplicaManager
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_dirs import LogDirs
from barnabas.storage.memory_fs import MemoryFileSystem
from barnabas.wire.api_keys import API_KEYS
from barnabas.wire.errors import ApiError
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from tests.storage.logs import ManualClock

if TYPE_CHECKING:
    from barnabas.server.forwarding.controller_channel import ControllerChannel
    from barnabas.wire.primitives import Records

DATA = Path("/data")
TP = TopicPartition("t", 0)
FETCH_VERSION = 17
LAG_MS = 600


class SimBroker:
    """What lives as long as its process: `SimDisk` outlives it. As much of a node as a fetch looks at."""

    def __init__(self, node_id: int, epoch: int, disk: MemoryFileSystem, clock: ManualClock, rng: Random) -> None:
        self.node_id = node_id
        self.epoch = epoch
        self.clock = clock
        self.config = NodeConfig.parse(
            {
                "process.roles": "broker,controller",
                "node.id": str(node_id),
                "listeners": "PLAINTEXT://:0,CONTROLLER://:0",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": f"{node_id}@localhost:1",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "log.dirs": str(DATA),
                "replica.lag.time.max.ms": str(LAG_MS),
            }
        )
        self.log_dirs = LogDirs([DATA], clock, fs=disk, rng=rng, topic_config=_topic_config)
        self._image = MetadataImage.EMPTY
        self.log_dirs.acquire("sim", node_id)
        self.log_dirs.load()
        self.replicas = ReplicaManager(
            self.config,
            clock,
            self.log_dirs,
            cast("ControllerChannel", None),
            Metrics(clock),
            image=self.image,
            broker_epoch=lambda: self.epoch,
        )
        self.partitions = self.replicas.partitions
        self.fetch_sessions = FetchSessions(10, clock.monotonic_ms, lambda: rng.randrange(1, 1 << 31))
        self.followed: dict[int, FollowedPartitions] = {}
        self.proposals: list[IsrProposal] = []
        self.follower_quota = self.replicas.follower_quota
        self.metrics = ServerMetrics(Metrics(clock))
        self.bytes_in = self.reassignment_bytes_in = self.new_meter("bytes")
        self.now_ms = clock.monotonic_ms

    # --- what a fetch looks at (barnabas.server.context.Services), and what a follower does (FollowerHost)

    def image(self) -> MetadataImage:
        return self._image

    def live_brokers(self, listener_name: str) -> list[LiveBroker]:
        return []

    def leader_and_epoch(self, topic: str, partition: int) -> tuple[int, int]:
        found = self._image.topics.partition(topic, partition)
        return (found.leader, found.leader_epoch) if found is not None else (-1, -1)

    def fetcher_settings(self) -> FetcherSettings:
        return FetcherSettings(max_bytes=300, response_max_bytes=600, backoff_ms=200)

    def new_meter(self, event: str) -> Meter:
        return Meter(self.metrics.registry.clock, event)

    def broker_epoch(self) -> int:
        return self.epoch

    # --- driving

    @property
    def replica(self) -> Partition | None:
        """Give the one replica that there may be."""
        return self.partitions.find(TP)

    def publish(self, image: MetadataImage) -> None:
        """Take up the metadata, as `ReplicaManager.publish` does."""
        delta, self._image = difference(self._image, image), image
        for partition, left in self.partitions.publish(delta, image):
            for followed in self.followed.values():
                if left or partition.is_leader or followed.leader_id != partition.leader_id:
                    followed.remove(partition)
            if not left and not partition.is_leader and partition.leader_id != NO_LEADER:
                leader = partition.leader_id
                self.followed.setdefault(leader, FollowedPartitions(leader, self)).put(partition)

    def serve(self, request: FetchRequest, from_broker: int, epoch: int) -> FollowerReading | FetchResponse:
        """Begin to serve a follower's fetch; a reading has been read once."""
        connection = ClientConnection("c", "h", 1, "PLAINTEXT", "PLAINTEXT", KafkaPrincipal("User", "b"))
        ctx = RequestContext(
            node=cast(Any, self),
            connection=connection,
            row=API_KEYS[request.API_KEY],
            version=FETCH_VERSION,
            correlation_id=0,
            client_id=None,
            authz=Authz(None, connection.principal, "h", "Fetch"),
        )
        make = follower_session(from_broker)
        try:
            plan = self.fetch_sessions.plan(request, True, make)
        except ApiError as e:
            return FetchResponse(error_code=e.code)
        return FollowerReading(request, plan, ctx, from_broker, epoch)


def on_the_wire(response: FetchResponse) -> FetchResponse:
    """Give the answer as the follower receives it: with the records in memory."""
    for topic in response.responses:
        for data in topic.partitions:
            data.records = _received(data.records)
    return response


def _received(records: Records | None) -> Records | None:
    read: Callable[[], bytes] | None = getattr(records, "read", None)
    return memoryview(bytearray(read() if read is not None else cast(bytes, records)))


def _topic_config(topic: str) -> LogConfig:
    return LogConfig.of({"min.insync.replicas": "2", "internal.segment.bytes": "2000"})


__all__ = ["DATA", "LAG_MS", "TP", "SimBroker", "on_the_wire"]
