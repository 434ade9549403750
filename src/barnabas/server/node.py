"""A node: everything wired together, started in order and stopped in the reverse of it."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from barnabas.core.authorizer.standard import StandardAuthorizer, parse_super_users
from barnabas.core.metadata.delta import MetadataDelta, difference
from barnabas.core.metadata.image import MetadataImage
from barnabas.model.config import ConfigError
from barnabas.model.features import SUPPORTED_FEATURES
from barnabas.model.metrics import Metrics
from barnabas.model.ports import Clock
from barnabas.model.principal import USER_TYPE, KafkaPrincipal
from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import Uuid
from barnabas.net.clock import SystemClock
from barnabas.server.authentication import Authentication
from barnabas.server.broker_lifecycle import UNREGISTERED, BrokerLifecycle, RegistrationRefusedError
from barnabas.server.cluster_changes import ClusterChanges
from barnabas.server.config import Endpoint, NodeConfig
from barnabas.server.connection_limits import ConnectionLimits
from barnabas.server.context import LiveBroker, SupportedFeature
from barnabas.server.controller import Controller, ControllerError
from barnabas.server.controller_channel import LocalChannel
from barnabas.server.fetch_sessions import FetchSessions
from barnabas.server.format import random_uuid
from barnabas.server.group_coordinator import OFFSETS_TOPIC, GroupCoordinator, group_config
from barnabas.server.group_metrics import publish_group_metrics
from barnabas.server.handlers import BROKER, CONTROLLER
from barnabas.server.listeners import ServedListener, receive_budget, tend
from barnabas.server.log_work import LogWork, passes
from barnabas.server.metrics import ServerMetrics
from barnabas.server.node_metrics import publish_node_metrics
from barnabas.server.offsets_log import PartitionLog
from barnabas.server.partitions import Partitions
from barnabas.server.producer_ids import ProducerIds
from barnabas.server.publishers import Publisher
from barnabas.server.publishers.acls import AclPublisher
from barnabas.server.publishers.configs import ConfigPublisher
from barnabas.server.publishers.connection_rates import ConnectionRatePublisher
from barnabas.server.publishers.topics import TopicPublisher
from barnabas.server.replica_reports import ReplicaReports
from barnabas.server.router import Router
from barnabas.server.throttle import Throttle
from barnabas.server.topic_creation import TopicCreation
from barnabas.storage.log_dir import LogDir, LogDirLockedError
from barnabas.storage.log_dirs import LogDirs, LogDirsSettings
from barnabas.storage.meta_properties import MetaPropertiesError
from barnabas.wire.compression import Compression
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext
    from barnabas.server.metrics_http import MetricsServer
    from barnabas.wire.errors import ErrorCode

log = structlog.get_logger("kafka.server.Node")

NO_CONTROLLER: Final = -1
LOOPBACK: Final = "127.0.0.1"


_REASONS: Final = (
    ConfigError,
    ControllerError,
    LogDirLockedError,
    MetaPropertiesError,
    RegistrationRefusedError,
    OSError,
)
"""What keeps a node from starting that an operator can do something about."""


class NodeStartError(Exception):
    """The node cannot start, or had to stop; says why and what would help."""


class Node:
    """A broker and controller in one process, over one configuration."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.static_config = config
        """As the node was started; `config` also holds what was changed since (KIP-226)."""
        self.clock: Clock = SystemClock()
        self.metrics = ServerMetrics(Metrics(self.clock))
        self.principal = KafkaPrincipal(USER_TYPE, "ANONYMOUS")
        self.failure: str | None = None
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._tasks: list[asyncio.Task[None]] = []
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="node")
        self._image = MetadataImage.EMPTY
        self._changed: asyncio.Future[None] = self._loop.create_future()
        self.limits = ConnectionLimits(config)
        self.quotas = Throttle(config, self.clock)
        self.fetch_sessions = FetchSessions(
            config["max.incremental.fetch.session.cache.slots"],
            self.clock.monotonic_ms,
            lambda: random.randrange(1, 1 << 31),
        )
        self.log_dirs = LogDirs(
            [Path(d) for d in config.log_dirs],
            self.clock,
            on_offline=self._directory_failed,
            settings=LogDirsSettings(producer_expiration_ms=config["producer.id.expiration.ms"]),
        )
        self.partitions = Partitions(config.node_id, self.log_dirs)
        self.groups = GroupCoordinator(
            group_config(config.values),
            clock=self.clock,
            new_uuid=random_uuid,
            partition_count=self._offsets_partitions,
            open_log=lambda tp: PartitionLog(self.partitions, tp),
            load_buffer_bytes=config["offsets.load.buffer.size"],
            compression=Compression(config["offsets.topic.compression.codec"]),
            linger_ms=config["group.coordinator.append.linger.ms"],
        )
        self._acls = AclPublisher(_authorizer(config))
        self._configs = ConfigPublisher(config, self.log_dirs, self._reconfigured)
        self.controller_router = Router(CONTROLLER, listener="controller")
        self.channel = LocalChannel(self, self.controller_router)
        self.reports = ReplicaReports(
            config.node_id,
            self.channel,
            directory_of=self._directory_id_of,
            broker_epoch=lambda: self.lifecycle.epoch,
        )
        self._publishers: Sequence[Publisher] = (
            self._acls,
            self._configs,
            TopicPublisher(self.partitions, self.groups, self.metrics),
            self.quotas,
            ConnectionRatePublisher(self.limits),
            self.reports,
        )
        self.broker_router = Router(BROKER, listener="broker", forward=self.channel.forward)
        self.broker_router.offer_forwarded(self.channel.keys())
        self.topic_creation = TopicCreation(config, self.channel)
        self.producer_ids = ProducerIds(self._allocate, self._producer_ids_wanted)
        self.authentication = Authentication(config, lambda: self._image.scram, self.clock)
        self.listeners: list[ServedListener] = []
        self.metrics_server: MetricsServer | None = None
        self.controller: Controller
        self.changes: ClusterChanges
        self.lifecycle: BrokerLifecycle
        self.cluster_id = ""
        publish_group_metrics(self.metrics.registry, self.groups)
        publish_node_metrics(
            self.metrics,
            self.partitions,
            self.log_dirs,
            self.fetch_sessions,
            connections=lambda: sum(len(s.connections) for s in self.listeners),
            authorizer=self.authorizer,
        )

    # --- what handlers ask for

    def image(self) -> MetadataImage:
        """Give the committed metadata as this node has taken it up."""
        return self._image

    def authorizer(self) -> StandardAuthorizer | None:
        """Give the authorizer of the moment; None when everybody may do everything."""
        return self._acls.authorizer

    def router_of(self, listener_name: str) -> Router:
        """Give the router behind a listener."""
        return self.controller_router if listener_name in self.config.controller_listener_names else self.broker_router

    def supported_features(self) -> list[SupportedFeature]:
        """Give the features that this node can run."""
        return [SupportedFeature(name, low, high) for name, (low, high) in SUPPORTED_FEATURES.items()]

    def live_brokers(self, listener_name: str) -> list[LiveBroker]:
        """Give the brokers that serve, at their addresses on that listener, by id."""
        found = []
        for broker_id, broker in sorted(self._image.cluster.brokers.items()):
            endpoint = broker.listeners.get(listener_name)
            if not broker.fenced and endpoint is not None:
                found.append(LiveBroker(broker_id, endpoint.host, endpoint.port, broker.rack))
        return found

    def live_broker_ids(self) -> frozenset[int]:
        """Give the ids of the brokers that serve."""
        return frozenset(i for i, b in self._image.cluster.brokers.items() if not b.fenced)

    def random_live_broker(self) -> int:
        """Give any live broker: what clients are told is the controller (KIP-590), -1 when there is none."""
        live = sorted(self.live_broker_ids())
        return random.choice(live) if live else NO_CONTROLLER

    def has_listener(self, broker_id: int, listener_name: str) -> bool:
        """Say whether a broker listens under that name."""
        broker = self._image.cluster.brokers.get(broker_id)
        return broker is not None and listener_name in broker.listeners

    def leader_and_epoch(self, topic: str, partition: int) -> tuple[int, int]:
        """Give who leads a partition and since which epoch; (-1, -1) when there is no such partition."""
        found = self._image.topics.partition(topic, partition)
        return (found.leader, found.leader_epoch) if found is not None else (-1, -1)

    async def auto_create(self, names: Sequence[str], ctx: RequestContext) -> dict[str, ErrorCode]:
        """Create topics in the name of a client that asked for them."""
        return await self.topic_creation.for_client(names, ctx)

    async def ensure_internal_topic(self, name: str) -> None:
        """Create one of the cluster's own topics unless it is there."""
        if name not in self._image.topics.by_name:
            await self.topic_creation.internal(name)

    def bootstrap(self) -> str:
        """Give the address for clients: host:port of the first listener that is theirs."""
        first = self._advertised()[0]
        return f"{first.host}:{first.port}"

    # --- starting

    async def start(self) -> None:
        """Start everything, in order; NodeStartError, with all that was begun undone, when something cannot."""
        for warning in self.config.warnings:
            log.warning(warning)
        for endpoint in self.config.listeners:
            if not endpoint.tls and not endpoint.sasl:
                log.warning("listener is open: no encryption and no login", listener=endpoint.listener_name)
        try:
            await self._start()
        except BaseException as e:
            await self.stop(clean=False)
            if isinstance(e, _REASONS):
                raise NodeStartError(str(e)) from e
            raise

    async def _start(self) -> None:
        self.log_dirs.acquire(node_id=self.config.node_id)
        properties = self.log_dirs.online[0].properties
        assert properties is not None
        self.cluster_id = properties.cluster_id
        self.controller = Controller(self.config, self.clock)
        self._watch(self.controller.run(), "controller")
        await self._follow_metadata()
        self._open_listeners()
        await self._join()
        for listener in self.listeners:
            listener.start()
        if self.config["barnabas.metrics.listener"]:
            from barnabas.server.metrics_http import MetricsServer  # an HTTP server is much to load for nothing

            self.metrics_server = MetricsServer(self.config["barnabas.metrics.listener"], self.metrics.registry)
            await self.metrics_server.start()
        self._watch(self.lifecycle.run(), "heartbeats")
        self._watch(self.reports.run(), "replica reports")
        self._watch(tend(self.listeners), "connections")
        work = LogWork(passes(self.config, self.log_dirs), self.config["log.initial.task.delay.ms"])
        self._watch(work.run(), "log work")
        log.info("node started", node=self.config.node_id, cluster=self.cluster_id, clients=self.bootstrap())

    async def _follow_metadata(self) -> None:
        """Take up the metadata that there is, then open the logs it speaks of, then follow what comes."""
        image = await self.controller.active()
        self.changes = ClusterChanges(self.config, self.clock, self.controller)
        self._watch(self.changes.run(), "cluster changes")
        first = difference(MetadataImage.EMPTY, image)
        self._configs.publish(first, image)
        await asyncio.get_running_loop().run_in_executor(self._threads, self.log_dirs.load, _strays(image))
        self.publish(first)
        self.controller.follow(self.publish)

    def publish(self, delta: MetadataDelta) -> None:
        """Take up a stretch of the committed metadata log."""
        self._image = delta.after
        for publisher in self._publishers:
            publisher.publish(delta, delta.after)
        changed, self._changed = self._changed, self._loop.create_future()
        changed.set_result(None)

    async def next_image(self) -> MetadataImage:
        """Wait until the metadata changes once more, and give it."""
        await asyncio.shield(self._changed)
        return self._image

    def _open_listeners(self) -> None:
        budget = receive_budget(self.config)
        for endpoint in self.config.listeners:
            privileged = endpoint.listener_name in self.config.controller_listener_names
            router = self.router_of(endpoint.listener_name)
            self.listeners.append(ServedListener(self, endpoint, router, self.limits, budget, privileged=privileged))

    async def _join(self) -> None:
        """Register this broker with the controller and wait to be let in."""
        self.lifecycle = BrokerLifecycle(
            self.channel,
            node_id=self.config.node_id,
            cluster_id=self.cluster_id,
            rack=self.config["broker.rack"],
            incarnation_id=random_uuid(),
            interval_ms=self.config["broker.heartbeat.interval.ms"],
            metadata_offset=lambda: self._image.offset_epoch.offset,
            offline_dirs=self._offline_directory_ids,
        )
        directories = [d.directory_id for d in self.log_dirs.online if d.directory_id is not None]
        epochs = {d.clean_broker_epoch for d in self.log_dirs.directories}
        previous = epochs.pop() if len(epochs) == 1 else UNREGISTERED
        await self.lifecycle.register(self._advertised(), sorted(directories), previous)
        await self.lifecycle.unfence()

    def _advertised(self) -> list[Endpoint]:
        """Give the listeners that clients use, at the addresses they are told."""
        told = {e.listener_name: e for e in self.config.advertised}
        ports = {s.endpoint.listener_name: s.port for s in self.listeners}
        found = []
        for endpoint in self.config.broker_listeners:
            shown = told.get(endpoint.listener_name, endpoint)
            host = shown.host or socket.getfqdn()
            found.append(replace(shown, host=host, port=shown.port or ports[endpoint.listener_name]))
        return found

    # --- running and stopping

    async def failed_or(self, stop: asyncio.Event) -> None:
        """Wait until `stop` is set or the node has failed (`failure` says why)."""
        waits = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(self._stop.wait())]
        _, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in pending:
            one.cancel()

    async def stop(self, *, clean: bool = True) -> None:
        """Leave the cluster, finish what is under way, and close everything; clean: mark the logs as whole."""
        if clean and self.failure is None:
            await self.lifecycle.shut_down()
        for listener in self.listeners:
            await listener.stop()
        if self.metrics_server is not None:
            await self.metrics_server.stop()
        await self.groups.close()
        for task in reversed(self._tasks):
            if task.get_name() != "controller":
                await _cancelled(task)
        if hasattr(self, "controller"):
            await self.controller.stop()
        for task in self._tasks:
            await _cancelled(task)
        epoch = self.lifecycle.epoch if hasattr(self, "lifecycle") else -1
        clean = clean and self.failure is None
        await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: self.log_dirs.close(clean=clean, broker_epoch=epoch)
        )
        self._threads.shutdown(wait=True)
        log.info("node stopped", node=self.config.node_id, clean=clean)

    def _watch(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a task of the node's; when it fails, the node does."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            return
        log.error("a part of the node failed", part=task.get_name(), exc_info=task.exception())
        self.failure = f"{task.get_name()}: {task.exception()}"
        self._stop.set()

    # --- inner ends

    def _reconfigured(self, config: NodeConfig) -> None:
        self.config = config
        self.limits.configure(config)
        for listener in self.listeners:
            listener.reconfigure(config)
        self.close_excess_connections()

    def close_excess_connections(self) -> None:
        """Close connections of clients where those between brokers need the room."""
        for listener in self.listeners:
            listener.close_excess()

    def _offsets_partitions(self) -> int:
        topic = self._image.topics.by_name.get(OFFSETS_TOPIC)
        return len(topic.partitions) if topic is not None else int(self.config["offsets.topic.num.partitions"])

    async def _allocate(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        answer: AllocateProducerIdsResponse = await self.channel.call(request, request.MAX_VERSION)
        return answer

    def _producer_ids_wanted(self) -> AllocateProducerIdsRequest:
        return AllocateProducerIdsRequest(broker_id=self.config.node_id, broker_epoch=self.lifecycle.epoch)

    def _directory_id_of(self, tp: TopicPartition) -> Uuid | None:
        directory = self.log_dirs.directory_of(tp)
        return directory.directory_id if directory is not None else None

    def _offline_directory_ids(self) -> list[Uuid]:
        return [d.directory_id for d in self.log_dirs.offline if d.directory_id is not None]

    def _directory_failed(self, directory: LogDir) -> None:
        """A log directory went offline, noticed on any thread: tell the controller, or stop when there is no going on.

        Without the metadata log a node knows nothing of the cluster any more, and stops at once, as Kafka's.
        """
        if directory.path == Path(self.config.metadata_log_dir):
            self.failure = f"the directory of the metadata log has failed: {directory.path}: {directory.offline}"
            self._loop.call_soon_threadsafe(self._stop.set)
        elif not self.log_dirs.online:
            self.failure = "every log directory has failed"
            self._loop.call_soon_threadsafe(self._stop.set)
        elif hasattr(self, "lifecycle"):
            self._loop.call_soon_threadsafe(self.lifecycle.hurry)


def _authorizer(config: NodeConfig) -> StandardAuthorizer | None:
    if not config["authorizer.class.name"]:
        return None
    return StandardAuthorizer(
        parse_super_users(config["super.users"]), allow_everyone_if_no_acl=config["allow.everyone.if.no.acl.found"]
    )


def _strays(image: MetadataImage) -> Callable[[TopicPartition, Uuid | None], bool]:
    """Give the test for logs that belong to no topic any more: deleted while this node was down."""

    def is_stray(tp: TopicPartition, topic_id: Uuid | None) -> bool:
        topic = image.topics.by_name.get(tp.topic)
        return topic is None or (topic_id is not None and topic.id != topic_id)

    return is_stray


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
