"""The files of a cluster of any shape: each node's `server.properties`, certificates, and formatted directories.

Nothing here runs anything. Brokers are numbered from 1, controllers from 101, nodes that are both from 1. The files are
Kafka's, so that an Apache Kafka node runs with them as well as one of ours.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from barnabas.core.raft.voters import VoterSet, parse_dynamic_voters
from barnabas.model.config import format_properties
from barnabas.net.dev_ca import DevCa, write_private
from barnabas.server.config import AUTHORIZERS
from barnabas.server.dev_node import MECHANISM, SUPER_USER, DevFiles
from barnabas.server.format import FormatRequest, format_directories, random_uuid
from barnabas.testing.ports import HOST, free_ports

FIRST_CONTROLLER: Final = 101
CONTROLLER: Final = "CONTROLLER"
BROKER_USER: Final = "broker"
CONTROLLER_USER: Final = "controller"
PATIENT: Final = {"controller.quorum.request.timeout.ms": "5000", "initial.broker.registration.timeout.ms": "240000"}
"""A machine that runs many nodes may be slow to start them; neither setting makes anything quicker or slower else."""
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a listener is bound, and the port that others are told: another one when a proxy stands before it."""

    bound: int
    told: int

    @classmethod
    def free(cls, *, proxied: bool = False, wanted: int = 0) -> Address:
        """Give one on free ports; proxied: others are told another one. wanted: what they are told, 0 for any."""
        told = wanted or free_ports(1)[0]
        return cls(free_ports(1)[0] if proxied else told, told)

    @property
    def text(self) -> str:
        """Give host:port as others are told."""
        return f"{HOST}:{self.told}"


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node. client, controller: its addresses for clients and for the quorum, None where it has no such role."""

    node_id: int
    client: Address | None
    controller: Address | None
    rack: str | None = None
    directory_id: str = field(default_factory=lambda: str(random_uuid()))

    @property
    def roles(self) -> str:
        """Give `process.roles`."""
        return ",".join(
            role for role, has in (("broker", self.client), ("controller", self.controller)) if has is not None
        )


@dataclass(frozen=True, slots=True)
class ClusterFiles:
    """Where things lie in a cluster's directory."""

    directory: Path

    @property
    def ca(self) -> Path:
        """Give the certificate that clients trust."""
        return self.directory / "ca.pem"

    @property
    def store(self) -> Path:
        """Give the key store that all nodes share."""
        return self.directory / "server.pem"

    @property
    def password(self) -> Path:
        """Give the file with the super user's password."""
        return self.directory / "admin.password"

    def node(self, node_id: int) -> DevFiles:
        """Give the files of one node."""
        return DevFiles(self.directory / f"node-{node_id}")


@dataclass(frozen=True, slots=True)
class Secrets:
    """The passwords of the super user and of the nodes."""

    admin: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    broker: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    controller: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)


class ClusterPlan:
    """A cluster that is about to be, or to grow. Every change rewrites the files of the nodes that it adds only."""

    def __init__(
        self,
        directory: Path,
        *,
        plaintext: bool = False,
        dynamic: bool = False,
        properties: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
    ) -> None:
        """directory: everything goes there. plaintext: no TLS, no login, no ACLs.

        dynamic: a quorum whose voters may change (KIP-853) in place of `controller.quorum.voters`. properties: Kafka's
        keys over the generated ones, on every node. features: feature levels to format with.
        """
        self.files = ClusterFiles(directory.absolute())
        self.plaintext = plaintext
        self.dynamic = dynamic
        self.cluster_id = str(random_uuid())
        self.secrets = Secrets()
        self.nodes: dict[int, NodePlan] = {}
        self.voters: tuple[int, ...] = ()
        self._properties = dict(properties or {})
        self._features = dict(features or {})
        self._make_security()

    @property
    def protocol(self) -> str:
        """Give what clients speak, which is their listener's name too."""
        return "PLAINTEXT" if self.plaintext else "SASL_SSL"

    def add(self, nodes: Sequence[NodePlan], *, voters: bool) -> None:
        """Take in nodes. voters: their controllers make up the first quorum; else they join the one there is."""
        self.nodes.update((n.node_id, n) for n in nodes)
        if voters:
            self.voters = tuple(n.node_id for n in nodes if n.controller is not None)

    def write(self, node: NodePlan, extra: Mapping[str, str] | None = None) -> Path:
        """Write a node's `server.properties` (extra: Kafka's keys over all others) and give its path."""
        files = self.files.node(node.node_id)
        files.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        properties = {**self._of(node), **self._properties, **(extra or {})}
        write_private(files.properties, format_properties(properties).encode())
        return files.properties

    def format(self, node: NodePlan) -> None:
        """Format a node's directory, with the super user and the brokers' one inside."""
        data = self.files.node(node.node_id).data
        format_directories(
            FormatRequest(
                cluster_id=self.cluster_id,
                node_id=node.node_id,
                log_dirs=[data],
                metadata_dir=data,
                voters=self._first_voters(node),
                dynamic=self.dynamic,
                features=self._features,
                scram=self.scram(),
            )
        )

    def scram(self) -> list[str]:
        """Give the users that a directory is formatted with, as `--add-scram` takes them."""
        users = () if self.plaintext else ((SUPER_USER, self.secrets.admin), (BROKER_USER, self.secrets.broker))
        return [f"{MECHANISM}=[name={name},password={password}]" for name, password in users]

    def initial_controllers(self) -> str:
        """Give the first voters of a dynamic quorum, as `--initial-controllers` takes them."""
        voters = [(self.nodes[i], self.nodes[i].controller) for i in self.voters]
        return ",".join(f"{n.node_id}@{at.text}:{n.directory_id}" for n, at in voters if at is not None)

    def bootstrap(self) -> str:
        """Give every broker's host:port for clients."""
        return ",".join(n.client.text for n in self.nodes.values() if n.client is not None)

    def _first_voters(self, node: NodePlan) -> VoterSet | None:
        if not self.dynamic or node.node_id not in self.voters:
            return None
        return parse_dynamic_voters(self.initial_controllers(), CONTROLLER)

    def _make_security(self) -> None:
        self.files.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.plaintext:
            return
        authority = DevCa.create()
        authority.save(self.files.directory / "ca.key.pem", self.files.ca)
        write_private(self.files.store, authority.issue_server().store)
        write_private(self.files.password, self.secrets.admin.encode())

    def _of(self, node: NodePlan) -> dict[str, str]:
        copies = str(min(3, sum(n.client is not None for n in self.nodes.values())) or 1)
        found = {
            "process.roles": node.roles,
            "node.id": str(node.node_id),
            "log.dirs": str(self.files.node(node.node_id).data),
            "controller.listener.names": CONTROLLER,
            **self._quorum(),
            **self._listeners(node),
            **({"broker.rack": node.rack} if node.rack else {}),
            "default.replication.factor": copies,
            "min.insync.replicas": "2" if copies == "3" else "1",
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": "2" if copies == "3" else "1",
            "group.initial.rebalance.delay.ms": "0",
            **PATIENT,
        }
        return found if self.plaintext else {**found, **self._security(node)}

    def _quorum(self) -> dict[str, str]:
        at = {i: address for i in self.voters if (address := self.nodes[i].controller) is not None}
        if self.dynamic:
            return {"controller.quorum.bootstrap.servers": ",".join(a.text for a in at.values())}
        return {"controller.quorum.voters": ",".join(f"{i}@{a.text}" for i, a in at.items())}

    def _listeners(self, node: NodePlan) -> dict[str, str]:
        at = {self.protocol: node.client, CONTROLLER: node.controller}
        bound = [f"{name}://{HOST}:{a.bound}" for name, a in at.items() if a is not None]
        told = [f"{name}://{a.text}" for name, a in at.items() if a is not None]
        protocol = self.protocol
        return {
            "listeners": ",".join(bound),
            "advertised.listeners": ",".join(told),
            "listener.security.protocol.map": f"{CONTROLLER}:{protocol},{protocol}:{protocol}",
            **({"inter.broker.listener.name": protocol} if node.client is not None else {}),
        }

    def _security(self, node: NodePlan) -> dict[str, str]:
        user = CONTROLLER_USER if node.client is None else BROKER_USER
        passwords = {CONTROLLER_USER: self.secrets.controller, BROKER_USER: self.secrets.broker}
        accepted = " ".join(f'user_{name}="{password}"' for name, password in passwords.items())
        own = f'username="{user}" password="{passwords[user]}"'
        broker = f'username="{BROKER_USER}" password="{self.secrets.broker}"'
        return {
            "sasl.mechanism.controller.protocol": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": f"{_PLAIN} required {own} {accepted};",
            "listener.name.sasl_ssl.sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": f"{_SCRAM} required {broker};",
            "authorizer.class.name": AUTHORIZERS[1],
            "super.users": f"User:{SUPER_USER};User:{BROKER_USER};User:{CONTROLLER_USER}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.files.store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.files.ca),
        }
