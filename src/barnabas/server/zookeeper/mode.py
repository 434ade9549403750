"""A node of a cluster in ZooKeeper mode: a broker that may be elected the controller (design D11, KIP-38)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from barnabas.core.zookeeper.security import acls_for
from barnabas.model.config import ConfigType
from barnabas.model.features import METADATA_VERSION
from barnabas.model.protocol_version import IMAGE_LEVEL
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.net.zookeeper.config import zookeeper_settings
from barnabas.server.cluster_changes import ClusterChanges
from barnabas.server.config import TABLE
from barnabas.server.delegation_tokens import token_rules
from barnabas.server.format import random_uuid
from barnabas.server.handlers import ZOOKEEPER, ZOOKEEPER_CONTROLLER
from barnabas.server.peer_channels import peer_settings
from barnabas.server.router import Router
from barnabas.server.zookeeper.access import check_access, warn_of_open_znodes
from barnabas.server.zookeeper.acl_writer import AclWriter
from barnabas.server.zookeeper.broker_channels import BrokerChannels
from barnabas.server.zookeeper.channel import ZooKeeperChannel
from barnabas.server.zookeeper.controller import Surroundings
from barnabas.server.zookeeper.layout import cluster_id, layout, make_features, make_layout
from barnabas.server.zookeeper.lifecycle import ZooKeeperLifecycle
from barnabas.server.zookeeper.metadata import ZooKeeperMetadata
from barnabas.server.zookeeper.metrics import SessionMetrics, ZooKeeperControllerMetrics
from barnabas.server.zookeeper.password_renewal import renew_passwords
from barnabas.server.zookeeper.passwords import DEFAULT_KEY_FACTORY, PasswordEncoder
from barnabas.storage.meta_properties import MetaVersion

if TYPE_CHECKING:
    from barnabas.core.metadata.acl_changes import FilterResult
    from barnabas.core.metadata.acls import AclsImage
    from barnabas.core.metadata.delta import MetadataDelta
    from barnabas.core.zookeeper.control_requests import ControlRequest
    from barnabas.model.acl import AclBinding, AclBindingFilter
    from barnabas.net.client import ChannelSettings
    from barnabas.server.broker import Broker
    from barnabas.server.config import NodeConfig
    from barnabas.server.context import SupportedFeature
    from barnabas.server.forwarding.channel import ForwardingChannel
    from barnabas.server.forwarding.controller_channel import ControllerChannel, LocalChannel
    from barnabas.server.node import Node
    from barnabas.server.publishers import Publisher
    from barnabas.wire.declaration import Message
    from barnabas.wire.errors import ApiError

NO_CONTROLLER = -1


class ZooKeeperMode:
    """A `Mode`; see the module."""

    metadata_log = None

    def __init__(self, node: Node) -> None:
        self._node = node
        config = node.config
        self._zk = ZooKeeperClient(zookeeper_settings(config.originals))
        SessionMetrics(node.metrics.registry, self._zk)
        self._sets_acls: bool = config["zookeeper.set.acl"]
        self._acls_for = partial(acls_for, secure=self._sets_acls)
        self._holds = {"rules": config.keeps_acls_in_zookeeper, "tokens": node.token_secrets is not None}
        self._channels = BrokerChannels(self._channel_settings, config.controller_channel_listener, self._answered)
        self.changes = ClusterChanges(config, node.clock, token_rules(config, node.token_secrets))
        around = Surroundings(
            schema=self.changes.schema,
            passwords=password_encoder(config),
            acls_for=self._acls_for,
            level=int(IMAGE_LEVEL),
            listener=config.inter_broker_listener_name,
            layout=layout(**self._holds),
            new_uuid=random_uuid,
            tell=self._tell,
            publish=self._published,
            answers=True,
            deletes_topics=config["delete.topic.enable"],
        )
        self.metadata = self.controller = ZooKeeperMetadata(
            self._zk,
            config.node_id,
            around,
            node.clock.now_ms,
            resigned=self._channels.close,
            controller_listener=config.controller_channel_listener,
        )
        writer = AclWriter(self._zk, self._acls_for, self.metadata.read_rules)
        self.acl_store = _Rules(self.metadata, writer)
        self.entities = self.metadata.entities
        self.controller_router: Router | None = Router(ZOOKEEPER_CONTROLLER, listener="broker")

    # -- its life

    async def join(self) -> str:
        """Begin a session, make the znodes that are missing, and take the directories; give the cluster's id."""
        await self._zk.start()
        await check_access(self._zk, set_acl=self._sets_acls)
        await make_layout(self._zk, self._acls_for, **self._holds)
        await make_features(self._zk, self._acls_for)
        await renew_passwords(self._zk, self._node.config.node_id, password_encoder(self._node.config), self._acls_for)
        cluster = await cluster_id(self._zk, self._acls_for, lambda: str(random_uuid()))
        self._node.log_dirs.acquire(cluster, self._node.config.node_id, MetaVersion.ZOOKEEPER)
        return cluster

    async def opened(self) -> None:
        """Wait for nothing: the session was begun before."""

    def follow_rules(self, publisher: Publisher) -> bool:
        """Do nothing: ZooKeeper's rules are among the metadata."""
        return False

    def publishers(self) -> Sequence[Publisher]:
        """Give who counts; brokers are told by the controller as it publishes."""
        return [ZooKeeperControllerMetrics(self._node.metrics.registry, self.metadata)]

    def channel(self, forwarding: ForwardingChannel, local: LocalChannel | None) -> ControllerChannel:
        """Give the way to the controller, which may take no Envelopes."""
        assert local is not None, "every broker may be the controller"
        node = self._node
        may_forward = node.config.protocol_version.forwards
        return ZooKeeperChannel(self.metadata, forwarding, local, self._channel_settings, may_forward=may_forward)

    def begin(self) -> None:
        """Begin what a controller does all the time, and look whether znodes stand open that should not."""
        if self._sets_acls:
            self._node.watch(self._look_for_open_znodes(), "open znodes")
        self._node.watch(self.changes.run(self.controller), "cluster changes")

    async def _look_for_open_znodes(self) -> None:
        await warn_of_open_znodes(self._zk)

    async def close(self) -> None:
        """End the session, and with it the broker's znode."""
        self.changes.policies.close()
        await self._channels.close()
        await self._zk.close()

    # -- what others ask for

    def broker_router(self) -> Router:
        """Make the router of all listeners: clients, the controller and other brokers may share them."""
        return Router(ZOOKEEPER, listener="broker", forward=self._node.channel.forward, forwarded=ZOOKEEPER_CONTROLLER)

    def lifecycle(self, broker: Broker) -> ZooKeeperLifecycle:
        """Make the broker's life."""
        node = self._node
        return ZooKeeperLifecycle(
            node.config,
            node.clock,
            self._zk,
            self.metadata,
            lambda: node.channel,
            acls_for=self._acls_for,
            image=node.image,
            next_image=node.next_image,
            failed_directories=lambda: len(node.log_dirs.offline),
            stop_following=broker.replicas.stop_following,
        )

    async def hear(self, request: ControlRequest) -> None:
        """Take up what the controller tells; ApiError when it has been replaced."""
        await self.metadata.hear(request)

    def connection_ended(self, connection: str) -> None:
        """Note nothing: ZooKeeper says who lives."""

    def shown_controller(self) -> int:
        """Give the controller itself: brokers of Apache Kafka do not forward what only it does."""
        controller = self.metadata.active_controller()
        return NO_CONTROLLER if controller is None else controller.node_id

    def supported_features(self) -> list[SupportedFeature]:
        """Give none, as Kafka's brokers do in ZooKeeper mode."""
        return []

    def finalized_features(self) -> Mapping[str, int]:
        """Give the finalized levels; that of the image is nobody's business."""
        levels = self._node.image().features.finalized
        return {name: level for name, level in levels.items() if name != METADATA_VERSION}

    # -- as the controller

    def _published(self, delta: MetadataDelta) -> None:
        if self.metadata.is_active:
            self._channels.follow(delta.after)

    def _tell(self, asked: Mapping[int, Sequence[ControlRequest]]) -> None:
        own_id = self._node.config.node_id  # which knows already: it has published the change
        self._channels.tell({broker_id: requests for broker_id, requests in asked.items() if broker_id != own_id})

    def _answered(self, broker: int, request: ControlRequest, answer: Message) -> None:
        self.metadata.answered(broker, request, answer)

    def _channel_settings(self) -> ChannelSettings:
        config = self._node.config
        made = peer_settings(config, config.controller_channel_listener, str(config.node_id))
        return replace(made, request_timeout_ms=config["controller.socket.timeout.ms"])


class _Rules:
    """An `AclStore`: rules are among the metadata, and any broker may write them."""

    def __init__(self, metadata: ZooKeeperMetadata, writer: AclWriter) -> None:
        self._metadata = metadata
        self._writer = writer

    def known(self) -> AclsImage:
        """Give the rules as this broker decides by them."""
        return self._metadata.committed_image.acls

    async def create(self, wanted: Sequence[AclBinding]) -> Sequence[ApiError | None]:
        """Add rules, as `AclWriter.create`."""
        return await self._writer.create(wanted)

    async def delete(self, filters: Sequence[AclBindingFilter]) -> Sequence[FilterResult]:
        """Remove rules, as `AclWriter.delete`."""
        return await self._writer.delete(self._metadata.image.acls, filters)


def password_encoder(config: NodeConfig) -> PasswordEncoder:
    """Give how passwords in the configs of brokers are kept in ZooKeeper."""
    return PasswordEncoder(
        _is_password,
        config["password.encoder.secret"],
        key_factory=config["password.encoder.keyfactory.algorithm"] or DEFAULT_KEY_FACTORY,
        cipher=config["password.encoder.cipher.algorithm"],
        key_bits=config["password.encoder.key.length"],
        iterations=config["password.encoder.iterations"],
        old_secret=config["password.encoder.old.secret"],
    )


def _is_password(key: str) -> bool:
    """Say whether a config of brokers is a password; one for a single listener or mechanism goes by its plain key."""
    if key.startswith("listener.name."):
        names = key.split(".")[3:]
        return any(_is_password(".".join(names[start:])) for start in range(min(2, len(names))))
    known = TABLE.get(key)
    return known is not None and known.type is ConfigType.PASSWORD
