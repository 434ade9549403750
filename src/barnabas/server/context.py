"""What a handler knows of its request: who asks, from where, in which version, and the node that serves it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.model.acl import AclOperation, ResourceType
from barnabas.model.principal import KafkaPrincipal
from barnabas.server.request_metrics import RequestStats
from barnabas.wire.api_keys import ApiRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.core.metadata.image import MetadataImage
    from barnabas.core.metadata.token_secrets import TokenSecrets
    from barnabas.core.zookeeper.control_requests import ControlRequest
    from barnabas.model.ports import Clock
    from barnabas.server.acl_stores import AclStore
    from barnabas.server.authorization import Authz
    from barnabas.server.authorizers import RequestAuthorizer
    from barnabas.server.broker_sessions import BrokerSessions
    from barnabas.server.cluster_changes import ClusterChanges
    from barnabas.server.cluster_metadata import DecidingController, MetadataWriter
    from barnabas.server.config import NodeConfig
    from barnabas.server.forwarding.controller_channel import ControllerChannel
    from barnabas.server.groups.group_coordinator import GroupCoordinator
    from barnabas.server.logins.principals import Principals
    from barnabas.server.metrics import ServerMetrics
    from barnabas.server.producer_ids import ProducerIds
    from barnabas.server.quotas.throttle import Throttle
    from barnabas.server.raft.driver import RaftDriver
    from barnabas.server.replication.fetch_sessions import FetchSessions
    from barnabas.server.replication.partitions import Partitions
    from barnabas.server.replication.replica_manager import ReplicaManager
    from barnabas.server.router import Router
    from barnabas.server.telemetry.client_metrics_manager import ClientMetricsManager
    from barnabas.server.transactions.transaction_coordinator import TransactionCoordinator
    from barnabas.storage.log_dirs import LogDirs
    from barnabas.wire.errors import ErrorCode


class SupportedFeature(NamedTuple):
    """A feature, and the levels of it that this node can run."""

    name: str
    min_version: int
    max_version: int


class LiveBroker(NamedTuple):
    """A broker as a client of some listener sees it."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Services(Protocol):
    """What a node offers those who serve requests: they know this, and nothing else of it.

    config: as it is now, dynamic settings included; static_config: as the node was started. partitions, groups,
    transactions, fetch_sessions, producer_ids, client_metrics: for handlers of the broker. controller_router: what the
    controller of this process serves, None where there is none.
    """

    config: NodeConfig
    static_config: NodeConfig
    clock: Clock
    cluster_id: str
    principal: KafkaPrincipal
    principals: Principals
    token_secrets: TokenSecrets | None
    controller_router: Router | None
    log_dirs: LogDirs
    partitions: Partitions
    replicas: ReplicaManager
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    fetch_sessions: FetchSessions
    producer_ids: ProducerIds
    client_metrics: ClientMetricsManager
    metrics: ServerMetrics
    quotas: Throttle

    def image(self) -> MetadataImage:
        """Give the committed metadata as this node has taken it up."""
        ...

    @property
    def channel(self) -> ControllerChannel:
        """Give the way to the active controller."""
        ...

    @property
    def acl_store(self) -> AclStore:
        """Give where the authorizer's rules are kept."""
        ...

    @property
    def controller(self) -> DecidingController:
        """Give the controller of this process."""
        ...

    @property
    def entities(self) -> MetadataWriter:
        """Give who changes configs, quotas, users and tokens on this node."""
        ...

    @property
    def changes(self) -> ClusterChanges:
        """Give what that controller has at hand when it decides."""
        ...

    @property
    def broker_sessions(self) -> BrokerSessions:
        """Give the brokers that the controller of a metadata quorum hears of."""
        ...

    @property
    def replica(self) -> RaftDriver:
        """Give this node's replica of the metadata log."""
        ...

    async def hear(self, request: ControlRequest) -> None:
        """Take up what the controller tells in ZooKeeper mode; ApiError when it has been replaced."""
        ...

    def authorizer(self) -> RequestAuthorizer | None:
        """Give the authorizer of the moment; None when everybody may do everything."""
        ...

    def keeps_acls(self) -> bool:
        """Say whether there are ACLs to create and describe: the authorizer decides by those of the metadata log."""
        ...

    def router_of(self, listener_name: str) -> Router:
        """Give the router behind a listener."""
        ...

    def supported_features(self) -> list[SupportedFeature]:
        """Give the features that this node can run."""
        ...

    def finalized_features(self) -> Mapping[str, int]:
        """Give the levels of the features that are finalized in the cluster."""
        ...

    def live_brokers(self, listener_name: str) -> list[LiveBroker]:
        """Give the brokers that serve, at their addresses on that listener, by id."""
        ...

    def known_brokers(self, listener_name: str) -> list[LiveBroker]:
        """Give the brokers that clients are told of: those that serve, and those that did a moment ago."""
        ...

    def live_broker_ids(self) -> frozenset[int]:
        """Give the ids of the brokers that serve."""
        ...

    def shown_controller(self) -> int:
        """Give what clients are told is the controller, -1 when there is none."""
        ...

    def has_listener(self, broker_id: int, listener_name: str) -> bool:
        """Say whether a broker listens under that name."""
        ...

    def leader_and_epoch(self, topic: str, partition: int) -> tuple[int, int]:
        """Give who leads a partition and since which epoch; (-1, -1) when there is no such partition."""
        ...

    async def auto_create(self, names: Sequence[str], ctx: RequestContext) -> dict[str, ErrorCode]:
        """Create topics in the name of a client that asked for them."""
        ...

    async def ensure_internal_topic(self, name: str) -> None:
        """Create one of the cluster's own topics unless it is there."""
        ...


@dataclass(slots=True)
class ClientConnection:
    """What is known of the peer for as long as its connection lasts.

    host: its IP as text. listener_name, security_protocol: where it came in. software_*: what its ApiVersions said
    (KIP-511). idle requests carry "" there.
    """

    id: str
    host: str
    port: int
    listener_name: str
    security_protocol: str
    principal: KafkaPrincipal
    privileged: bool = False
    software_name: str = ""
    software_version: str = ""


@dataclass(slots=True)
class RequestContext:
    """One request under way. version may be lowered by the router when the client asked for one it does not know."""

    node: Services
    connection: ClientConnection
    row: ApiRow
    version: int
    correlation_id: int
    client_id: str | None
    authz: Authz
    forwarded_by: KafkaPrincipal | None = None
    throttle_ms: int = 0
    waited_ns: int = 0
    """How long of the time since `started_ns` nobody worked on the request."""
    queued_ns: int = 0
    """How long of that it waited for its handler to begin."""
    size: int = 0
    """The bytes of its frame."""
    stats: RequestStats = field(default_factory=RequestStats)
    """Where it is counted."""
    started_ns: int = field(default_factory=perf_counter_ns)

    @property
    def principal(self) -> KafkaPrincipal:
        """Give who asks."""
        return self.authz.principal

    @property
    def host(self) -> str:
        """Give the IP, as text, of who asks."""
        return self.authz.host

    @property
    def listener_name(self) -> str:
        """Give the name of the listener that the request came in by."""
        return self.connection.listener_name

    @property
    def privileged(self) -> bool:
        """Say whether it came in over a listener of the quorum."""
        return self.connection.privileged

    def authorize(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        audit: bool = True,
        audit_denied: bool = True,
    ) -> bool:
        """Say whether the principal may; `audit` false for checks that only list rights (A-40)."""
        return self.authz.authorize(operation, resource_type, name, audit=audit, audit_denied=audit_denied)

    def authorize_many(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Iterable[str],
        *,
        audit: bool = True,
        audit_denied: bool = True,
    ) -> set[str]:
        """Give those of `names` on which the principal may; `audit_denied` false when a listing is filtered."""
        return self.authz.authorize_many(operation, resource_type, names, audit=audit, audit_denied=audit_denied)

    def authorize_any(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Say whether there is any resource of that type on which the principal may."""
        return self.authz.authorize_any(operation, resource_type)

    def authorized_operations(self, resource_type: ResourceType, name: str) -> int:
        """Give the operations the principal may do there, as KIP-430's bit field."""
        return self.authz.authorized_operations(resource_type, name)
