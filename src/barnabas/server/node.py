"""A node: what its roles share, wired together, started in order and stopped in the reverse of it.

Every node follows the cluster's metadata; where they come from, and whether a controller is in this process, is the
mode's business (`mode`). One with the role `broker` serves clients (`broker`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from barnabas.core.metadata.cluster import BrokerRegistration, ClusterImage
from barnabas.core.metadata.delta import MetadataDelta, difference
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.zookeeper.errors import ZooKeeperError
from barnabas.model.config import ConfigError
from barnabas.model.metrics import Metrics
from barnabas.model.ports import Clock
from barnabas.net.clock import SystemClock
from barnabas.server.authorizers import RequestAuthorizer
from barnabas.server.broker import Broker
from barnabas.server.broker_lifecycle import RegistrationRefusedError
from barnabas.server.config import NodeConfig
from barnabas.server.context import ClientConnection, LiveBroker, SupportedFeature
from barnabas.server.delegation_tokens import token_secrets
from barnabas.server.forwarding.channel import ForwardingChannel
from barnabas.server.forwarding.controller_channel import ControllerChannel, LocalChannel
from barnabas.server.kraft_mode import KRaftMode
from barnabas.server.logins.mechanisms import Mechanisms
from barnabas.server.logins.principals import Principals
from barnabas.server.metrics import ServerMetrics
from barnabas.server.mode import mode_of, with_id
from barnabas.server.network.authentication import Authentication
from barnabas.server.network.conduct import SessionConduct
from barnabas.server.network.connection_limits import ConnectionLimits
from barnabas.server.network.listeners import ServedListener, receive_budget, tend
from barnabas.server.network.session_socket import SessionSocket
from barnabas.server.node_metrics import publish_node_metrics
from barnabas.server.own_metadata import OwnMetadata
from barnabas.server.own_principal import own_principal
from barnabas.server.publishers import Publisher
from barnabas.server.publishers.acls import AclPublisher
from barnabas.server.publishers.configs import ConfigPublisher
from barnabas.server.publishers.connection_rates import ConnectionRatePublisher
from barnabas.server.publishers.departures import Departures
from barnabas.server.quotas.throttle import Throttle
from barnabas.server.raft.quorum import ControllerError
from barnabas.server.router import Router
from barnabas.server.waiting import told_while_waiting
from barnabas.storage.fs import FileSystem
from barnabas.storage.log_dir import LogDir, LogDirLockedError
from barnabas.storage.log_dirs import LogDirs, LogDirsSettings
from barnabas.storage.meta_properties import MetaPropertiesError

if TYPE_CHECKING:
    from barnabas.core.zookeeper.control_requests import ControlRequest
    from barnabas.net.metrics_http import MetricsServer
    from barnabas.server.acl_stores import AclStore
    from barnabas.server.broker_sessions import BrokerSessions
    from barnabas.server.cluster_changes import ClusterChanges
    from barnabas.server.cluster_metadata import DecidingController, MetadataWriter
    from barnabas.server.context import RequestContext
    from barnabas.server.groups.group_coordinator import GroupCoordinator
    from barnabas.server.producer_ids import ProducerIds
    from barnabas.server.raft.driver import RaftDriver
    from barnabas.server.replication.fetch_sessions import FetchSessions
    from barnabas.server.replication.partitions import Partitions
    from barnabas.server.replication.replica_manager import ReplicaManager
    from barnabas.server.telemetry.client_metrics_manager import ClientMetricsManager
    from barnabas.server.transactions.transaction_coordinator import TransactionCoordinator
    from barnabas.wire.errors import ErrorCode

log = structlog.get_logger("kafka.server.Node")

_REASONS: Final = (
    ConfigError,
    ControllerError,
    LogDirLockedError,
    MetaPropertiesError,
    RegistrationRefusedError,
    ZooKeeperError,
    OSError,
)
"""What keeps a node from starting that an operator can do something about."""


class NodeStartError(Exception):
    """The node cannot start, or had to stop; says why and what would help."""


class Node:
    """A broker, a controller, or both in one process, over one configuration."""

    partitions: Partitions
    replicas: ReplicaManager
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    fetch_sessions: FetchSessions
    producer_ids: ProducerIds
    client_metrics: ClientMetricsManager

    def __init__(
        self, config: NodeConfig, fs: FileSystem | None = None, *, conduct: SessionConduct | None = None
    ) -> None:
        """fs: the disk, the operating system's unless another is given; conduct: of clients' sessions, for those who
        test clients. Where `config` leaves the id to ZooKeeper: see `create`."""
        assert config.has_id, "a node is made with its id"
        self.config = config
        self.conduct = conduct or SessionConduct()
        self.static_config = config
        """As the node was started; `config` also holds what was changed since (KIP-226)."""
        self.clock: Clock = SystemClock()
        self.metrics = ServerMetrics(Metrics(self.clock))
        self.principal = own_principal(config)
        self.principals = Principals.load(config)
        self.token_secrets = token_secrets(config)
        self.failure: str | None = None
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="node")
        self._image = MetadataImage.EMPTY
        self._live: tuple[ClusterImage, frozenset[int]] = (self._image.cluster, frozenset())
        self._changed: asyncio.Future[None] = self.loop.create_future()
        self._metadata_task: asyncio.Task[None] | None = None
        self.cluster_id = ""
        self.limits = ConnectionLimits(config)
        self.quotas = Throttle(config, self.clock)
        self.listeners: list[ServedListener] = []
        self.metrics_server: MetricsServer | None = None
        self.session_socket: SessionSocket | None = None
        self.log_dirs = LogDirs(
            [Path(d) for d in (config.log_dirs if config.is_broker else (config.metadata_log_dir,))],
            self.clock,
            on_offline=self._directory_failed,
            settings=LogDirsSettings(producer_expiration_ms=config["producer.id.expiration.ms"]),
            fs=fs,
        )
        self._mechanisms = Mechanisms(config, self._for_logins, self.token_secrets, self.clock)
        self.authentication = Authentication(config, self._mechanisms, self.principals, self.clock, self.conduct)
        self._own = OwnMetadata(lambda: self.metadata.own_records())
        self._acls = AclPublisher(config, self._own)
        self._configs = ConfigPublisher(config, self.log_dirs, self._reconfigured)
        self._departures = Departures(self.clock, config["broker.session.timeout.ms"])
        self.mode = mode_of(self, fs)
        self._publishers: list[Publisher] = [self._configs, self._departures]
        if not self.mode.follow_rules(self._acls):
            self._publishers.insert(0, self._acls)
        self.metadata = self.mode.metadata
        self.controller_router: Router | None = self.mode.controller_router
        local = LocalChannel(self, self.controller_router) if self.controller_router is not None else None
        self._forwarding = ForwardingChannel(
            self,
            leader=self.metadata.active_controller,
            leader_changed=self.metadata.controller_changed,
            next_image=self.next_image,
            local=local,
            serde=self.principals.serde,
        )
        self.channel: ControllerChannel = self.mode.channel(self._forwarding, local)
        self._publishers += self.mode.publishers()
        self.broker = Broker(self) if config.is_broker else None
        if self.broker is not None:
            self.partitions, self.groups = self.broker.partitions, self.broker.groups
            self.transactions = self.broker.transactions
            self.replicas = self.broker.replicas
            self.fetch_sessions, self.producer_ids = self.broker.fetch_sessions, self.broker.producer_ids
            self.client_metrics = self.broker.client_metrics
            self._publishers += self.broker.publishers
        self._publishers += [self.quotas, ConnectionRatePublisher(self.limits)]

    @classmethod
    async def create(cls, config: NodeConfig) -> Node:
        """Make a node, and find its id first where the file sets none; NodeStartError when it cannot have one."""
        try:
            return cls(await with_id(config))
        except _REASONS as e:
            raise NodeStartError(str(e)) from e

    # --- what handlers ask for

    def image(self) -> MetadataImage:
        """Give the committed metadata as this node has taken it up."""
        return self._image

    @property
    def acl_store(self) -> AclStore:
        """Give where the authorizer's rules are kept."""
        return self.mode.acl_store

    @property
    def controller(self) -> DecidingController:
        """Give the controller of this process."""
        return self.mode.controller

    @property
    def entities(self) -> MetadataWriter:
        """Give who changes configs, quotas, users and tokens here."""
        return self.mode.entities

    @property
    def changes(self) -> ClusterChanges:
        """Give what that controller has at hand when it decides."""
        return self.mode.changes

    @property
    def broker_sessions(self) -> BrokerSessions:
        """Give the brokers that the controller of a metadata quorum hears of."""
        return self.kraft.broker_sessions

    @property
    def replica(self) -> RaftDriver:
        """Give this node's replica of the metadata log."""
        return self.kraft.replica

    async def hear(self, request: ControlRequest) -> None:
        """Take up what the controller tells in ZooKeeper mode; ApiError when it has been replaced."""
        await self.mode.hear(request)

    @property
    def kraft(self) -> KRaftMode:
        """Give the mode of a node with a metadata log; only for what there is nowhere else."""
        assert isinstance(self.mode, KRaftMode), "served only where there is a metadata log"
        return self.mode

    def authorizer(self) -> RequestAuthorizer | None:
        """Give the authorizer of the moment; None when everybody may do everything."""
        return self._acls.authorizer

    def keeps_acls(self) -> bool:
        """Say whether there are ACLs to create and describe: the authorizer decides by those of the metadata log."""
        return self._acls.keeps_rules

    def acl_count(self) -> int:
        """Give what the gauge AclCount shows (A-30)."""
        return self._acls.acl_count()

    def router_of(self, listener_name: str) -> Router:
        """Give the router behind a listener."""
        controller = listener_name in self.config.controller_listener_names
        router = self.controller_router if controller or self.broker is None else self.broker.router
        assert router is not None, f"nothing is served on {listener_name}"
        return router

    def supported_features(self) -> list[SupportedFeature]:
        """Give the features that this node can run."""
        return self.mode.supported_features()

    def finalized_features(self) -> Mapping[str, int]:
        """Give the levels of the features that are finalized in the cluster."""
        return self.mode.finalized_features()

    def live_brokers(self, listener_name: str) -> list[LiveBroker]:
        """Give the brokers that serve, at their addresses on that listener, by id."""
        return _at((b for b in self._image.cluster.brokers.values() if not b.fenced), listener_name)

    def known_brokers(self, listener_name: str) -> list[LiveBroker]:
        """Give the brokers that clients are told of: those that serve, and those that did a moment ago, by id."""
        brokers = self._image.cluster.brokers
        fenced = self._departures.recent(self._image)
        return _at((*fenced, *(b for b in brokers.values() if not b.fenced)), listener_name)

    def live_broker_ids(self) -> frozenset[int]:
        """Give the ids of the brokers that serve."""
        cluster, ids = self._live
        if cluster is not self._image.cluster:  # asked for every partition of an answer
            cluster = self._image.cluster
            ids = frozenset(i for i, b in cluster.brokers.items() if not b.fenced)
            self._live = cluster, ids
        return ids

    def shown_controller(self) -> int:
        """Give what clients are told is the controller, -1 when there is none."""
        return self.mode.shown_controller()

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
        assert self.broker is not None
        return await self.broker.topic_creation.for_client(names, ctx)

    async def ensure_internal_topic(self, name: str) -> None:
        """Create one of the cluster's own topics unless it is there."""
        if name not in self._image.topics.by_name:
            assert self.broker is not None
            await self.broker.topic_creation.internal(name)

    def bootstrap(self) -> str:
        """Give the address for clients: host:port of the first listener that is theirs; a controller's own else."""
        if self.broker is not None:
            return self.broker.bootstrap()
        first = self.listeners[0]
        return f"{first.endpoint.host or 'localhost'}:{first.port}"

    # --- starting

    async def start(self) -> None:
        """Start everything, in order; NodeStartError, with all that was begun undone, when something cannot.

        A node of a quorum of several is up once the quorum has a leader and this node knows the metadata.
        """
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
        self.cluster_id = await self.mode.join()
        await self._mechanisms.start()
        self.watch(self._mechanisms.run(), "keys of logins")
        self._open_listeners()
        self._metadata_task = self.watch(self.metadata.run(), "metadata")
        await self.mode.opened()
        publish_node_metrics(self)
        for listener in self.listeners:
            if listener.early:
                listener.start()  # the quorum cannot elect before its voters hear each other
        await self._follow_metadata()
        if self.broker is not None:
            await self.broker.join()
        for listener in self.listeners:
            if not listener.early:
                listener.start()
        if self.broker is not None:
            await self.broker.lifecycle.settle()
        if self.config["barnabas.metrics.listener"]:
            from barnabas.net.metrics_http import MetricsServer  # an HTTP server is much to load for nothing

            self.metrics_server = MetricsServer(self.config["barnabas.metrics.listener"], self.metrics.registry)
            await self.metrics_server.start()
        if self.config["barnabas.sessions.socket"]:
            self.session_socket = SessionSocket(self.config["barnabas.sessions.socket"], self.listeners)
            await self.session_socket.start()
        if self.broker is not None:
            self.broker.start()
        self.watch(tend(self.listeners), "connections")
        log.info("node started", node=self.config.node_id, cluster=self.cluster_id, clients=self.bootstrap())

    async def _follow_metadata(self) -> None:
        """Take up the metadata that there is, then open the logs it speaks of, then follow what comes."""
        image = await told_while_waiting(self.metadata.caught_up(), self.metadata.progress)
        self.mode.begin()
        first = difference(MetadataImage.EMPTY, image)
        self._configs.publish(first, image)
        if self.broker is not None:
            await self.loop.run_in_executor(self._threads, self.broker.load, image)
        self.publish(first)
        self.metadata.follow(self.publish)

    def _for_logins(self) -> MetadataImage:
        return self._own.image() if self._image is MetadataImage.EMPTY else self._image

    def publish(self, delta: MetadataDelta) -> None:
        """Take up a stretch of the committed metadata."""
        self._image = delta.after
        for publisher in self._publishers:
            publisher.publish(delta, delta.after)
        changed, self._changed = self._changed, self.loop.create_future()
        changed.set_result(None)

    async def next_image(self) -> MetadataImage:
        """Wait until the metadata changes once more, and give it."""
        await asyncio.shield(self._changed)
        return self._image

    def _open_listeners(self) -> None:
        budget = receive_budget(self.config)
        served = self.config.listeners if self.config.is_broker else self.config.controller_listeners
        for endpoint in served:
            privileged = endpoint.listener_name in self.config.controller_listener_names
            early = endpoint.listener_name in self.config.early_listener_names
            router = self.router_of(endpoint.listener_name)
            self.listeners.append(
                ServedListener(self, endpoint, router, self.limits, budget, privileged=privileged, early=early)
            )

    # --- running and stopping

    async def failed_or(self, stop: asyncio.Event) -> None:
        """Wait until `stop` is set or the node has failed (`failure` says why)."""
        waits = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(self._stop.wait())]
        _, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in pending:
            one.cancel()

    async def stop(self, *, clean: bool = True) -> None:
        """Leave the cluster, finish what is under way, and close everything; clean: mark the logs as whole."""
        clean = clean and self.failure is None
        if clean and self.broker is not None:
            await self.broker.leave()
        await self._close_listeners(privileged=False)
        if self.metrics_server is not None:
            await self.metrics_server.stop()
        if self.session_socket is not None:
            await self.session_socket.stop()
        if self.broker is not None:
            await self.broker.close()
        for task in reversed(self._tasks):
            if task is not self._metadata_task:
                await _cancelled(task)
        await self._forwarding.close()
        if self._metadata_task is not None:
            await self.metadata.stop(hand_over=clean)
            await _cancelled(self._metadata_task)
        await self._close_listeners(privileged=True)  # last: who ceases to lead says so to the others
        await self.mode.close()
        self._acls.close()
        epoch = self.broker.lifecycle.epoch if self.broker is not None else -1
        clean = clean and self.failure is None
        await self.loop.run_in_executor(self._threads, lambda: self.log_dirs.close(clean=clean, broker_epoch=epoch))
        self._threads.shutdown(wait=True)
        log.info("node stopped", node=self.config.node_id, clean=clean)

    async def _close_listeners(self, *, privileged: bool) -> None:
        for listener in self.listeners:
            if listener.privileged is privileged:
                await listener.stop()

    def watch(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a task of the node's; when it fails, the node does."""
        task = self.loop.create_task(work, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)
        return task

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
        if self.broker is not None:
            self.broker.reconfigure(config)
        for listener in self.listeners:
            listener.reconfigure(config)
        self.close_excess_connections()

    def connection_ended(self, client: ClientConnection) -> None:
        """Take note that somebody's connection to this node is gone."""
        if client.privileged:
            self.mode.connection_ended(client.id)
        if self.broker is not None:
            self.client_metrics.connection_ended(client.id)

    def close_excess_connections(self) -> None:
        """Close connections of clients where those between brokers need the room."""
        for listener in self.listeners:
            listener.close_excess()

    def _directory_failed(self, directory: LogDir) -> None:
        """A log directory went offline, noticed on any thread: tell the controller, or stop when there is no going on.

        Without the metadata log a node knows nothing of the cluster any more, and stops at once, as Kafka's.
        """
        has_metadata = directory.path == Path(self.config.metadata_log_dir)
        if has_metadata and not self.config.is_zookeeper_mode:
            self.failure = f"the directory of the metadata log has failed: {directory.path}: {directory.offline}"
            self.loop.call_soon_threadsafe(self._stop.set)
        elif not self.log_dirs.online:
            self.failure = "every log directory has failed"
            self.loop.call_soon_threadsafe(self._stop.set)
        elif self.broker is not None:
            self.broker.directory_failed()


def _at(brokers: Iterable[BrokerRegistration], listener_name: str) -> list[LiveBroker]:
    """Give brokers at their addresses on a listener, those that have one, by id."""
    found = []
    for broker in sorted(brokers, key=lambda b: b.id):
        endpoint = broker.listeners.get(listener_name)
        if endpoint is not None:
            found.append(LiveBroker(broker.id, endpoint.host, endpoint.port, broker.rack))
    return found


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
