"""The two ways for a node to belong to a cluster: a metadata log of its own, or ZooKeeper (design D11).

All else of a node does not know the mode: images, publishers, handlers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from barnabas.model.config import ConfigError
from barnabas.storage.fs import OsFileSystem

if TYPE_CHECKING:
    from barnabas.core.zookeeper.control_requests import ControlRequest
    from barnabas.model.uuid import Uuid
    from barnabas.server.acl_stores import AclStore
    from barnabas.server.broker import Broker
    from barnabas.server.cluster_changes import ClusterChanges
    from barnabas.server.cluster_metadata import ClusterMetadata, DecidingController, MetadataWriter
    from barnabas.server.config import Endpoint, NodeConfig
    from barnabas.server.context import SupportedFeature
    from barnabas.server.forwarding.channel import ForwardingChannel
    from barnabas.server.forwarding.controller_channel import ControllerChannel, LocalChannel
    from barnabas.server.node import Node
    from barnabas.server.publishers import Publisher
    from barnabas.server.raft.metadata_log import MetadataLog
    from barnabas.server.router import Router
    from barnabas.storage.fs import FileSystem


class Lifecycle(Protocol):
    """A broker's life as the cluster sees it."""

    @property
    def epoch(self) -> int:
        """The epoch of its registration, -1 before the first."""
        ...

    async def register(
        self, cluster_id: str, endpoints: Sequence[Endpoint], directories: Sequence[Uuid], previous_epoch: int
    ) -> None:
        """Tell the cluster who we are; RegistrationRefusedError when it will not have us."""
        ...

    async def unfence(self) -> None:
        """Ask to be let in, and wait for it."""
        ...

    async def settle(self) -> None:
        """Wait until this broker knows of itself what it is to know; its listeners are open."""
        ...

    async def run(self) -> None:
        """Stay, until cancelled."""
        ...

    def hurry(self) -> None:
        """Tell at once what has changed here, for example that a log directory failed."""
        ...

    async def shut_down(self) -> None:
        """Give up leaderships and leave, as far as there is a controller to agree to it."""
        ...


class Mode(Protocol):
    """What a node has of its mode. Order of its life: `join`, `opened` once `metadata` runs, `begin`, `close`."""

    @property
    def metadata(self) -> ClusterMetadata:
        """The cluster's metadata."""
        ...

    @property
    def controller(self) -> DecidingController:
        """The controller in this process; AttributeError where none can be."""
        ...

    @property
    def changes(self) -> ClusterChanges:
        """What it has at hand when it decides; AttributeError where none can be."""
        ...

    @property
    def acl_store(self) -> AclStore:
        """Where the authorizer's rules are kept."""
        ...

    @property
    def entities(self) -> MetadataWriter:
        """Who changes configs, quotas, users and tokens here; AttributeError where nobody may."""
        ...

    @property
    def controller_router(self) -> Router | None:
        """What the controller in this process serves; None where none can be."""
        ...

    @property
    def metadata_log(self) -> MetadataLog | None:
        """The files of the metadata log; None where there is none."""
        ...

    async def join(self) -> str:
        """Take the directories, and find the cluster; give its id."""
        ...

    async def opened(self) -> None:
        """Wait until the metadata begins to come."""
        ...

    def follow_rules(self, publisher: Publisher) -> bool:
        """Have `publisher` told of the rules by itself, where they are not in the metadata; false where they are."""
        ...

    def publishers(self) -> Sequence[Publisher]:
        """Give those who follow the metadata on behalf of the mode."""
        ...

    def channel(self, forwarding: ForwardingChannel, local: LocalChannel | None) -> ControllerChannel:
        """Give the way to the active controller. local: to the one in this process, None where none can be."""
        ...

    def begin(self) -> None:
        """Begin what is done all the time, once the metadata is known."""
        ...

    async def close(self) -> None:
        """Let go of what is held; `metadata` has been stopped."""
        ...

    def broker_router(self) -> Router:
        """Make the router of the listeners that clients use."""
        ...

    def lifecycle(self, broker: Broker) -> Lifecycle:
        """Make the broker's life."""
        ...

    async def hear(self, request: ControlRequest) -> None:
        """Take up what a controller in ZooKeeper mode tells."""
        ...

    def connection_ended(self, connection: str) -> None:
        """Take note that a connection of another controller or broker to our controller is gone."""
        ...

    def shown_controller(self) -> int:
        """Give what clients are told is the controller, -1 for nobody."""
        ...

    def supported_features(self) -> list[SupportedFeature]:
        """Give the features that this node can run."""
        ...

    def finalized_features(self) -> Mapping[str, int]:
        """Give the levels of the features that are finalized in the cluster."""
        ...


def mode_of(node: Node, fs: FileSystem | None) -> Mode:
    """Give the mode that a node's configuration wants; ZooKeeper's is loaded only where it is wanted."""
    if node.config.is_zookeeper_mode:
        with _its_extra():
            from barnabas.server.zookeeper.mode import ZooKeeperMode
        return ZooKeeperMode(node)
    from barnabas.server.kraft_mode import KRaftMode

    return KRaftMode(node, fs)


async def with_id(config: NodeConfig, fs: FileSystem | None = None) -> NodeConfig:
    """Give a node's configuration with the id that ZooKeeper gave the node, or gives it now, where the file sets none.

    Errors are those of `broker_id`; ConfigError without the extra.
    """
    if config.has_id:
        return config
    with _its_extra():
        from barnabas.server.zookeeper.broker_ids import broker_id
    return replace(config, given_id=await broker_id(config, fs or OsFileSystem()))


@contextmanager
def _its_extra() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as e:
        raise ConfigError(
            f"zookeeper.connect is set, and {e.name} is not installed: pip install 'barnabas[zookeeper]'"
        ) from e
