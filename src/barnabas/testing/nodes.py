"""What clusters of several nodes have in common, whether those are processes or run in the test's own."""

from __future__ import annotations

import asyncio
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypedDict, TypeVar

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.client.admin.users import ScramUpsertion
from barnabas.client.config import ClientConfig
from barnabas.model.acl import AclBinding, AclBindingFilter
from barnabas.model.config import Password, parse_properties
from barnabas.server.dev_node import MECHANISM, SUPER_USER, client_texts
from barnabas.testing.network import Network
from barnabas.testing.shape import FIRST_CONTROLLER, Address, ClusterPlan, NodePlan
from barnabas.testing.users import User

SETTLE_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 0.02
T = TypeVar("T")


class AnyNode(Protocol):
    """A node of a cluster, of whatever kind."""

    @property
    def plan(self) -> NodePlan:
        """Give what the node was made as."""
        ...

    @property
    def node_id(self) -> int:
        """Give its id."""
        ...

    @property
    def running(self) -> bool:
        """Say whether it runs."""
        ...

    @property
    def bootstrap(self) -> str:
        """Give host:port for clients."""
        ...

    def kill(self) -> None:
        """End it without telling anybody."""


N = TypeVar("N", bound=AnyNode)


class Shape(TypedDict, total=False):
    """What kind of cluster to make: see NodesCluster."""

    controllers: int
    brokers: int
    combined: int
    plaintext: bool
    dynamic: bool
    racks: Sequence[str]
    properties: Mapping[str, str] | None
    features: Mapping[str, int] | None
    proxied: bool
    first_port: int


class NodesCluster(ABC, Generic[N]):
    """A cluster of any shape on loopback. Use it as a context manager, or `start()` and `close()`."""

    def __init__(
        self,
        directory: Path,
        *,
        controllers: int = 0,
        brokers: int = 0,
        combined: int = 0,
        plaintext: bool = False,
        dynamic: bool = False,
        racks: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
        proxied: bool = False,
        first_port: int = 0,
    ) -> None:
        """Write and format everything; nothing runs yet.

        directory: everything goes there, and `close` leaves it. controllers, brokers, combined: how many nodes of each
        kind. plaintext: no TLS, no login, no ACLs. dynamic: voters may change (KIP-853). racks: of the brokers, in
        turn. properties, features: see ClusterPlan. proxied: everybody connects through `network`, that tests make
        bad. first_port: clients' ports are this one and those after it; 0 for any.
        """
        self.plan = ClusterPlan(
            directory, plaintext=plaintext, dynamic=dynamic, properties=properties, features=features
        )
        self.nodes: dict[int, N] = {}
        self._racks = tuple(racks)
        self._network = self._make_network() if proxied else None
        self._next_port = first_port
        self._users: dict[str, User] = {}
        plans = [self._planned(i, broker=True, controller=True) for i in range(1, combined + 1)]
        first = len(plans) + 1
        plans += [self._planned(i, broker=True, controller=False) for i in range(first, first + brokers)]
        ids = range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)
        plans += [self._planned(i, broker=False, controller=True) for i in ids]
        self.plan.add(plans, voters=True)
        for plan in plans:
            self._add(plan)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[N]:
        return iter(self.nodes.values())

    @abstractmethod
    def start(self) -> None:
        """Start every node that is down, and wait until all serve; none is left when one fails."""

    @abstractmethod
    def stop(self) -> None:
        """Stop every node in order: brokers, that need controllers for it, first."""

    @abstractmethod
    def close(self) -> None:
        """End what still runs, at once."""

    @abstractmethod
    def _make(self, plan: NodePlan) -> N:
        """Make the node whose files are written."""

    @abstractmethod
    def _make_network(self) -> Network:
        """Make the network, not started."""

    def delete(self) -> None:
        """Close, and delete the directory."""
        self.close()
        shutil.rmtree(self.plan.files.directory, ignore_errors=True)

    # --- the nodes

    def node(self, node_id: int) -> N:
        """Give one node."""
        return self.nodes[node_id]

    @property
    def network(self) -> Network:
        """Give the network between the nodes; ValueError when the cluster was not made with proxied=True."""
        if self._network is None:
            raise ValueError("nothing stands between the nodes of this cluster: make it with proxied=True")
        return self._network

    @property
    def brokers(self) -> list[N]:
        """Give the nodes that serve clients."""
        return [n for n in self.nodes.values() if n.plan.client is not None]

    @property
    def controllers(self) -> list[N]:
        """Give the nodes that vote on metadata."""
        return [n for n in self.nodes.values() if n.plan.controller is not None]

    def add_broker(self, *, rack: str | None = None) -> N:
        """Add a broker with the next id; it is not started."""
        node_id = max((n.node_id for n in self.brokers), default=0) + 1
        return self._grow(self._planned(node_id, broker=True, controller=False, rack=rack))

    def add_controller(self) -> N:
        """Add a controller to a dynamic quorum, an observer until it is made a voter; it is not started."""
        if not self.plan.dynamic:
            raise ValueError("the voters of this cluster are fixed: make it with dynamic=True")
        node_id = max([FIRST_CONTROLLER - 1, *(n.node_id for n in self.controllers)]) + 1
        return self._grow(self._planned(node_id, broker=False, controller=True))

    def active_controller(self) -> N:
        """Give the node that leads the metadata quorum, as a broker knows it."""
        return self.nodes[self.ask(lambda admin: admin.describe_quorum()).partition.leader_id]

    def leader(self, topic: str, partition: int = 0) -> N:
        """Give the broker that leads a partition."""

        async def leader(admin: Admin) -> int:
            return (await admin.topics())[topic].partitions[partition].leader

        found = self.wait_for(
            lambda: self.ask(leader), lambda node_id: node_id >= 0, f"a leader of {topic}-{partition}"
        )
        return self.nodes[found]

    def expire_session(self, node_id: int) -> None:
        """Part a broker from the controllers until they have fenced it, then let it come back.

        It takes `broker.session.timeout.ms`. Needs proxied=True, and another broker to ask.
        """
        others = [n.node_id for n in self.controllers if n.node_id != node_id]
        witness = next(n.bootstrap for n in self.brokers if n.node_id != node_id and n.running)

        async def live(admin: Admin) -> set[int]:
            return {n.id for n in await admin.nodes()}

        self.network.partition(node_id, others)
        try:
            self.wait_for(
                lambda: self.ask(live, witness), lambda nodes: node_id not in nodes, f"node {node_id} is fenced"
            )
        finally:
            self.network.heal()

    # --- clients

    @property
    def bootstrap(self) -> str:
        """Give every broker's host:port for clients."""
        return self.plan.bootstrap()

    @property
    def ca(self) -> str | None:
        """Give the path of the certificate that clients trust; None where nothing is encrypted."""
        return None if self.plan.plaintext else str(self.plan.files.ca)

    def client_texts(self, user: str = SUPER_USER, password: str = "", bootstrap: str = "") -> dict[str, str]:
        """Give client settings as texts, in the spelling of each family: java, librdkafka, python.

        bootstrap: other than all brokers.
        """
        return client_texts(bootstrap or self.bootstrap, self.ca, user, password or self.plan.secrets.admin)

    def client(self, user: str = SUPER_USER, password: str = "", bootstrap: str = "") -> dict[str, str]:
        """Give client settings in Java's spelling."""
        return parse_properties(self.client_texts(user, password, bootstrap)["java"])

    def librdkafka(self, user: str = SUPER_USER, password: str = "", bootstrap: str = "") -> dict[str, Any]:
        """Give client settings in librdkafka's spelling."""
        return dict(parse_properties(self.client_texts(user, password, bootstrap)["librdkafka"]))

    @property
    def admin(self) -> User:
        """Give the super user."""
        return User(self, SUPER_USER, self.plan.secrets.admin)

    def as_user(self, name: str) -> User:
        """Give a user of that name, made with a password of its own when there is none; without any rights."""
        found = self._users.get(name)
        if found is None:
            found = self._users[name] = User(self, name, f"{name}-secret")
            wanted = ScramUpsertion(name, MECHANISM, Password(found.password))
            self._refused(self.ask(lambda admin: admin.alter_scram([wanted])))
            self._everywhere(lambda admin: admin.describe_scram(), lambda users: name in users, f"user {name}")
        return found

    def create_acl(self, binding: AclBinding) -> None:
        """Add one rule; every broker goes by it when this returns."""
        for error in self.ask(lambda admin: admin.create_acls([binding])):
            if error is not None:
                raise error
        everything = AclBindingFilter()
        self._everywhere(lambda admin: admin.describe_acls(everything), lambda acls: binding in acls, str(binding))

    def create_topic(self, name: str, partitions: int = 1, replication_factor: int = -1, **configs: str) -> None:
        """Make a topic; every broker knows its leaders when this returns.

        replication_factor: -1 for three copies, or as many as there are brokers. A dot in a configuration's name is
        written as two underscores.
        """
        named = {key.replace("__", "."): value for key, value in configs.items()}
        wanted = NewTopic(name, partitions, replication_factor, configs=named)
        self._refused(self.ask(lambda admin: admin.create_topics([wanted])))
        self._everywhere(
            lambda admin: admin.topics(),
            lambda topics: name in topics and all(p.leader >= 0 for p in topics[name].partitions.values()),
            f"topic {name}",
        )

    def ask(self, work: Callable[[Admin], Awaitable[T]], bootstrap: str = "") -> T:
        """Run `work(Admin)` in the super user's name and give what it gives. bootstrap: other than all brokers."""

        async def asked() -> T:
            async with Admin(ClientConfig.from_properties(self.client(bootstrap=bootstrap))) as admin:
                return await work(admin)

        with ThreadPoolExecutor(1) as thread:  # the caller may be a coroutine of another loop
            return thread.submit(asyncio.run, asked()).result()

    def wait_for(self, look: Callable[[], T], wanted: Callable[[T], bool], what: str) -> T:
        """Look until it is as wanted, and give it; AssertionError after two minutes. what: for its message."""
        until = time.monotonic() + SETTLE_SECONDS
        while not wanted(found := look()):
            if time.monotonic() > until:
                raise AssertionError(f"{what}: not so after {SETTLE_SECONDS:g} s; there is {found!r}")
            time.sleep(_LOOK_SECONDS)
        return found

    # --- inner ends

    def _everywhere(self, ask: Callable[[Admin], Awaitable[T]], wanted: Callable[[T], bool], what: str) -> None:
        for broker in self.brokers:
            if broker.running:
                at = broker.bootstrap
                self.wait_for(lambda at=at: self.ask(ask, at), wanted, f"{what} on broker {broker.node_id}")  # type: ignore[misc]

    def _refused(self, results: Mapping[str, Exception | None]) -> None:
        for error in results.values():
            if error is not None:
                raise error

    def _planned(self, node_id: int, *, broker: bool, controller: bool, rack: str | None = None) -> NodePlan:
        proxied = self._network is not None
        client = None
        if broker:
            client = Address.free(proxied=proxied, wanted=self._next_port)
            self._next_port += bool(self._next_port)
            if rack is None and self._racks:
                rack = self._racks[(node_id - 1) % len(self._racks)]
        return NodePlan(node_id, client, Address.free(proxied=proxied) if controller else None, rack)

    def _grow(self, plan: NodePlan) -> N:
        self.plan.add([plan], voters=False)
        return self._add(plan)

    def _add(self, plan: NodePlan) -> N:
        self._prepare(plan)
        node = self.nodes[plan.node_id] = self._make(plan)
        if self._network is not None and self._network.running:
            self._network.add(plan)
        return node

    def _prepare(self, plan: NodePlan) -> None:
        self.plan.write(plan)
        self.plan.format(plan)

    def _start_network(self) -> None:
        if self._network is not None and not self._network.running:
            self._network.start(node.plan for node in self)
