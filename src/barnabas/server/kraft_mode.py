"""A node of a KRaft cluster: it follows the metadata log, and may vote in its quorum and decide (KIP-500)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.model.features import KRAFT_VERSION, SUPPORTED_FEATURES
from barnabas.server.acl_stores import MetadataAcls
from barnabas.server.broker_lifecycle import BrokerLifecycle
from barnabas.server.broker_sessions import BrokerSessions
from barnabas.server.cluster_changes import ClusterChanges
from barnabas.server.context import SupportedFeature
from barnabas.server.controller import Controller
from barnabas.server.controller_metrics import ControllerMetrics
from barnabas.server.controller_registrar import ControllerRegistrar
from barnabas.server.delegation_tokens import token_rules
from barnabas.server.format import random_uuid
from barnabas.server.handlers import BROKER, CONTROLLER, TELEMETRY
from barnabas.server.metadata_metrics import MetadataMetrics
from barnabas.server.metadata_replica import MetadataReplica
from barnabas.server.publishers import Publisher
from barnabas.server.raft.metrics import publish_raft_metrics
from barnabas.server.router import Router
from barnabas.server.rules_in_zookeeper import rules_in_zookeeper
from barnabas.server.telemetry.exporters import EXPORTERS
from barnabas.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.core.zookeeper.control_requests import ControlRequest
    from barnabas.server.acl_stores import AclStore
    from barnabas.server.broker import Broker
    from barnabas.server.forwarding.channel import ForwardingChannel
    from barnabas.server.forwarding.controller_channel import ControllerChannel, LocalChannel
    from barnabas.server.node import Node
    from barnabas.server.raft.driver import RaftDriver
    from barnabas.server.raft.metadata_log import MetadataLog
    from barnabas.storage.fs import FileSystem

NO_CONTROLLER = -1


class KRaftMode:
    """A `Mode`; see the module."""

    controller: Controller
    changes: ClusterChanges
    broker_sessions: BrokerSessions

    def __init__(self, node: Node, fs: FileSystem | None) -> None:
        self._node = node
        config = node.config
        self._rules = rules_in_zookeeper(node)
        self.acl_store: AclStore = self._rules or MetadataAcls(node)
        self.controller_router: Router | None = None
        self._registrar: ControllerRegistrar | None = None
        if not config.is_controller:
            self.metadata = MetadataReplica(config, node.clock, fs)
            return
        self.metadata = self.controller = Controller(config, node.clock, fs)
        self.changes = ClusterChanges(config, node.clock, token_rules(config, node.token_secrets))
        self.broker_sessions = BrokerSessions(config, node.clock, self.controller, self.changes.schema)
        self.controller_router = Router(CONTROLLER, listener="controller")

    # -- its life

    async def join(self) -> str:
        """Take the directories, which were formatted for this node; give the cluster's id."""
        log_dirs = self._node.log_dirs
        log_dirs.acquire(node_id=self._node.config.node_id)
        properties = log_dirs.online[0].properties
        assert properties is not None
        if self._rules is not None:
            await self._rules.start(self._node)
        return properties.cluster_id

    async def opened(self) -> None:
        """Wait until the metadata log is open, and publish what is measured there."""
        publish_raft_metrics(self._node.metrics.registry, await self.metadata.opened())

    def follow_rules(self, publisher: Publisher) -> bool:
        """Have `publisher` told of the rules that `AclAuthorizer` keeps in ZooKeeper (KIP-801)."""
        if self._rules is None:
            return False
        self._rules.publisher = publisher
        return True

    def publishers(self) -> Sequence[Publisher]:
        """Give those who follow the metadata on behalf of the mode."""
        node, registry = self._node, self._node.metrics.registry
        is_broker = node.config.is_broker
        metrics = MetadataMetrics(registry, self.metadata, lambda: self.replica.node.leader_id, is_broker=is_broker)
        if not node.config.is_controller:
            return [metrics]
        self._registrar = ControllerRegistrar(self.controller, node.channel)
        shown = ControllerMetrics(registry, self.controller, self.broker_sessions.heartbeats)
        self.controller.on_decided, self.controller.on_leader = shown.decided, shown.new_leader
        return [self._registrar, metrics, shown]

    def channel(self, forwarding: ForwardingChannel, local: LocalChannel | None) -> ControllerChannel:
        """Give the way to the active controller: every one takes Envelopes."""
        return forwarding

    def begin(self) -> None:
        """Begin what a controller does all the time, once the metadata is known."""
        if self._registrar is not None:
            self._node.watch(self._registrar.run(), "controller registration")
            self._node.watch(self.broker_sessions.run(), "brokers")
            self._node.watch(self.changes.run(self.controller), "cluster changes")

    async def close(self) -> None:
        """Let go of what the controller was given to ask, and of rules that are kept elsewhere."""
        if self._rules is not None:
            await self._rules.close()
        if self._node.config.is_controller:
            self.changes.policies.close()

    # -- what others ask for

    @property
    def entities(self) -> Controller:
        """Give who changes configs, quotas, users and tokens: the controller, as it does everything."""
        return self.controller

    @property
    def replica(self) -> RaftDriver:
        """Give this node's replica of the metadata log."""
        return self.metadata.driver

    @property
    def metadata_log(self) -> MetadataLog:
        """Give the files of the metadata log."""
        return self.replica.files

    def broker_router(self) -> Router:
        """Make the router of the listeners that clients use."""
        node = self._node
        modules = (*BROKER, *TELEMETRY) if node.config[EXPORTERS] else BROKER
        return Router(modules, listener="broker", forward=node.channel.forward)

    def lifecycle(self, broker: Broker) -> BrokerLifecycle:
        """Make the broker's life, which heartbeats keep up."""
        node, config = self._node, self._node.config
        return BrokerLifecycle(
            node.channel,
            node_id=config.node_id,
            rack=config["broker.rack"],
            incarnation_id=random_uuid(),
            interval_ms=config["broker.heartbeat.interval.ms"],
            patience_ms=config["initial.broker.registration.timeout.ms"],
            session_ms=config["broker.session.timeout.ms"],
            metadata_offset=lambda: node.image().offset_epoch.offset,
            next_metadata=node.next_image,
            offline_dirs=broker.offline_directory_ids,
            cordoned_dirs=broker.cordoned_directory_ids,
        )

    async def hear(self, request: ControlRequest) -> None:
        """Refuse: whoever follows the metadata log is told nothing."""
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "this broker follows the metadata log")

    def connection_ended(self, connection: str) -> None:
        """Take note that a connection to our controller is gone: whoever was heard by it may have ended."""
        if self.controller_router is not None:
            self.broker_sessions.ended.connection_ended(connection)

    def shown_controller(self) -> int:
        """Give any live broker: all of them forward, and controllers are not for clients to know (KIP-590)."""
        live = sorted(self._node.live_broker_ids())
        return random.choice(live) if live else NO_CONTROLLER

    def supported_features(self) -> list[SupportedFeature]:
        """Give the features that this node can run."""
        return [SupportedFeature(name, low, high) for name, (low, high) in SUPPORTED_FEATURES.items()]

    def finalized_features(self) -> Mapping[str, int]:
        """Give the finalized levels; kraft.version is the quorum's own, and not among the metadata (KIP-853)."""
        levels = self._node.image().features.finalized
        kraft_version = self.replica.kraft_version
        return {**levels, KRAFT_VERSION: kraft_version} if kraft_version else levels
