"""The broker of a node: the logs, the replicas and groups that follow the metadata, and its place in the cluster."""

from __future__ import annotations

import random
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from barnabas.core.metadata.image import MetadataImage
from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import Uuid
from barnabas.server.broker_channels import BrokerChannels
from barnabas.server.broker_lifecycle import UNREGISTERED
from barnabas.server.config import Endpoint
from barnabas.server.coordinators.partition_log import PartitionLog
from barnabas.server.coordinators.runtime import LogSettings
from barnabas.server.format import random_uuid
from barnabas.server.forwarding.topic_creation import TopicCreation
from barnabas.server.groups.config import consumer_settings, group_config
from barnabas.server.groups.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from barnabas.server.groups.metrics import publish_group_metrics
from barnabas.server.groups.topics import GroupTopics
from barnabas.server.mode import Lifecycle
from barnabas.server.node_metrics import BrokerState
from barnabas.server.producer_ids import ProducerIds
from barnabas.server.publishers import Publisher
from barnabas.server.publishers.topics import TopicPublisher
from barnabas.server.replication.fetch_sessions import FetchSessions
from barnabas.server.replication.log_work import LogWork, passes
from barnabas.server.replication.metrics import publish_replica_metrics
from barnabas.server.replication.replica_manager import ReplicaManager
from barnabas.server.telemetry.client_metrics_manager import ClientMetricsManager
from barnabas.server.telemetry.exporters import load_exporters
from barnabas.server.telemetry.metrics import publish_client_metrics
from barnabas.server.transactions.adding import OwnCoordinator
from barnabas.server.transactions.marker_sender import MarkerSender
from barnabas.server.transactions.marker_writing import write_markers
from barnabas.server.transactions.metrics import publish_transaction_metrics
from barnabas.server.transactions.transaction_coordinator import (
    TRANSACTION_TOPIC,
    TransactionCoordinator,
    transaction_config,
)
from barnabas.server.transactions.verifier import TransactionVerifier
from barnabas.wire.compression import Compression
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from barnabas.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

if TYPE_CHECKING:
    from barnabas.server.config import NodeConfig
    from barnabas.server.node import Node
    from barnabas.storage.log_dir import LogDir

log = structlog.get_logger("kafka.server.Broker")


class Broker:
    """See the module. Order of its life: `load`, `join`, its tasks, `leave`, `close`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        config = node.config
        self.fetch_sessions = FetchSessions(
            config["max.incremental.fetch.session.cache.slots"],
            node.clock.monotonic_ms,
            lambda: random.randrange(1, 1 << 31),
        )
        self.replicas = ReplicaManager(
            config,
            node.clock,
            node.log_dirs,
            node.channel,
            node.metrics.registry,
            image=node.image,
            broker_epoch=lambda: self.lifecycle.epoch,
        )
        self.partitions = self.replicas.partitions
        self.groups = GroupCoordinator(
            group_config(config.values, self._group_overrides),
            clock=node.clock,
            new_uuid=random_uuid,
            partition_count=self._offsets_partitions,
            open_log=lambda tp: PartitionLog(self.partitions, tp),
            verify=self.replicas.verification.guard_of_offsets,
            topics=GroupTopics(node.image),
            settings=LogSettings(
                load_buffer_bytes=config["offsets.load.buffer.size"],
                compression=Compression(config["offsets.topic.compression.codec"]),
                linger_ms=config["group.coordinator.append.linger.ms"],
                commit_timeout_ms=config["offsets.commit.timeout.ms"],
            ),
        )
        self.producer_ids = ProducerIds(self._allocate, self._producer_ids_wanted)
        self._channels = BrokerChannels(config, self.replicas.fetchers.address)
        self.transactions = TransactionCoordinator(
            transaction_config(config.values),
            clock=node.clock,
            producer_ids=self.producer_ids,
            transaction_version=lambda: node.image().features.finalized.get("transaction.version", 0),
            partition_count=self._transaction_partitions,
            open_log=lambda tp: PartitionLog(self.partitions, tp),
            new_sender=lambda finished: MarkerSender(self._have_marked, self._leader_of, finished),
            settings=LogSettings(load_buffer_bytes=config["transaction.state.log.load.buffer.size"]),
        )
        self._verifier = TransactionVerifier(
            self._have_added, self._transaction_coordinator, node.metrics.registry, own=OwnCoordinator(node)
        )
        self.replicas.verification.verifier = self._verifier
        self.lifecycle: Lifecycle = node.mode.lifecycle(self)
        self.router = node.mode.broker_router()
        self.topic_creation = TopicCreation(config, node.channel, node.image, node.next_image)
        self.client_metrics = ClientMetricsManager(
            load_exporters(config), config["telemetry.max.bytes"], node.clock, random_uuid
        )
        self.publishers: Sequence[Publisher] = (
            TopicPublisher(self.replicas, self.groups, self.transactions, node.metrics),
            self.client_metrics,
        )
        publish_client_metrics(node.metrics.registry, self.client_metrics)
        publish_group_metrics(node.metrics.registry, self.groups)
        publish_transaction_metrics(node.metrics.registry, self.transactions)
        publish_replica_metrics(node.metrics.registry, self.replicas, config["transaction.max.timeout.ms"])
        self._serves = self._leaves = False

    @property
    def state(self) -> BrokerState:
        """Give where it is in its life."""
        if self._leaves:
            return BrokerState.PENDING_CONTROLLED_SHUTDOWN
        if self._serves:
            return BrokerState.RUNNING
        return BrokerState.STARTING if self.lifecycle.epoch == UNREGISTERED else BrokerState.RECOVERY

    def load(self, image: MetadataImage) -> None:
        """Open the logs; those of topics that are gone are set apart. Blocks, for long where there are many."""
        self._node.log_dirs.load(_strays(image, self._node.config.node_id))

    async def join(self) -> None:
        """Register with the controller and wait to be let in; RegistrationRefusedError when it will not have us."""
        directories = [d.directory_id for d in self._node.log_dirs.online if d.directory_id is not None]
        epochs = {d.clean_broker_epoch for d in self._node.log_dirs.directories}
        previous = epochs.pop() if len(epochs) == 1 else UNREGISTERED
        await self.lifecycle.register(self._node.cluster_id, self._advertised(), sorted(directories), previous)
        self._node.watch(self.replicas.run(), "replicas")
        await self.lifecycle.unfence()

    def start(self) -> None:
        """Begin what a broker does all the time."""
        node = self._node
        self._serves = True
        node.watch(self.lifecycle.run(), "heartbeats")
        node.watch(self._greet_controllers(), "controllers")
        work = LogWork(passes(node.config, node.log_dirs), node.config["log.initial.task.delay.ms"])
        node.watch(work.run(), "log work")

    async def _greet_controllers(self) -> None:
        """Let a new controller hear of this broker at once; it notices the end of those that it has heard of."""
        while True:
            await self._node.metadata.controller_changed()
            self.lifecycle.hurry()

    def reconfigure(self, config: NodeConfig) -> None:
        """Take another configuration from now on."""
        self.replicas.reconfigure(config)
        self._channels.reconfigure(config)

    async def leave(self) -> None:
        """Give up leaderships and leave the cluster, as far as there is a controller to agree to it."""
        self._leaves = True
        await self.lifecycle.shut_down()

    async def close(self) -> None:
        """Let groups and transactions finish what is under way."""
        await self.topic_creation.close()
        await self.groups.close()
        await self.transactions.close()
        await self._verifier.close()
        await self._channels.close()
        self.client_metrics.close()

    def bootstrap(self) -> str:
        """Give the address for clients: host:port of the first listener that is theirs."""
        first = self._advertised()[0]
        return f"{first.host}:{first.port}"

    def _advertised(self) -> list[Endpoint]:
        """Give the listeners that clients use, at the addresses they are told."""
        config = self._node.config
        told = {e.listener_name: e for e in config.advertised}
        ports = {s.endpoint.listener_name: s.port for s in self._node.listeners}
        found = []
        for endpoint in config.broker_listeners:
            shown = told.get(endpoint.listener_name, endpoint)
            host = shown.host or socket.getfqdn()
            found.append(replace(shown, host=host, port=shown.port or ports[endpoint.listener_name]))
        return found

    def directory_failed(self) -> None:
        """Tell the controller at once that a log directory is gone; safe on any thread."""
        self._node.loop.call_soon_threadsafe(self.lifecycle.hurry)

    def _offsets_partitions(self) -> int:
        topic = self._node.image().topics.by_name.get(OFFSETS_TOPIC)
        return len(topic.partitions) if topic is not None else int(self._node.config["offsets.topic.num.partitions"])

    def _group_overrides(self, group_id: str) -> Mapping[str, int]:
        return consumer_settings(self._node.image().configs, group_id, self._node.config.values)

    def _transaction_partitions(self) -> int:
        topic = self._node.image().topics.by_name.get(TRANSACTION_TOPIC)
        key = "transaction.state.log.num.partitions"
        return len(topic.partitions) if topic is not None else int(self._node.config[key])

    def _have_marked(
        self, broker_id: int, request: WriteTxnMarkersRequest
    ) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
        if broker_id == self._node.config.node_id:
            return write_markers(request, self._node)
        return self._channels.call(broker_id, request)

    async def _have_added(self, broker_id: int, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        response: AddPartitionsToTxnResponse = await self._channels.call(broker_id, request)
        return response

    def _transaction_coordinator(self, transactional_id: str) -> int | None:
        leader = self._leader_of(TopicPartition(TRANSACTION_TOPIC, self.transactions.partition_for(transactional_id)))
        return leader if leader is not None and leader >= 0 else None

    def _leader_of(self, tp: TopicPartition) -> int | None:
        topic = self._node.image().topics.by_name.get(tp.topic)
        found = None if topic is None else topic.partitions.get(tp.partition)
        return None if found is None else found.leader

    async def _allocate(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        answer: AllocateProducerIdsResponse = await self._node.channel.call(request, request.MAX_VERSION)
        return answer

    def _producer_ids_wanted(self) -> AllocateProducerIdsRequest:
        return AllocateProducerIdsRequest(broker_id=self._node.config.node_id, broker_epoch=self.lifecycle.epoch)

    def offline_directory_ids(self) -> list[Uuid]:
        """Give the ids of the log directories that have failed."""
        return [d.directory_id for d in self._node.log_dirs.offline if d.directory_id is not None]

    def cordoned_directory_ids(self) -> list[Uuid] | None:
        """Give the ids of those that take no new replicas; None where the cluster does not know of such."""
        if not self._node.image().levels.cordoned_directories:
            return None
        found = (d.directory_id for d in self._cordoned())
        return [directory for directory in found if directory is not None]

    def cordoned_directories(self) -> list[Path]:
        """Give the directories that take no new replicas (`cordoned.log.dirs`)."""
        return [directory.path for directory in self._cordoned()]

    def _cordoned(self) -> list[LogDir]:
        names = self._node.config["cordoned.log.dirs"]
        paths = {Path(name).absolute() for name in names}
        return [d for d in self._node.log_dirs.directories if "*" in names or d.path in paths]


def _strays(image: MetadataImage, node_id: int) -> Callable[[TopicPartition, Uuid | None], bool]:
    """Give the test for logs that are no replicas of this broker any more: deleted or moved while it was down."""

    def is_stray(tp: TopicPartition, topic_id: Uuid | None) -> bool:
        topic = image.topics.by_name.get(tp.topic)
        if topic is None or (topic_id is not None and topic.id != topic_id):
            return True
        partition = topic.partitions.get(tp.partition)
        return partition is None or node_id not in partition.replicas

    return is_stray
