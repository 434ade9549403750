"""A real Apache Kafka 4.3.1 node, broker and controller in one process, on free loopback ports."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from barnabas.server.dev_node import DevFiles
from barnabas.testing.ports import free_ports
from barnabas.testing.processes import NodeProcess, NodeProcessError
from barnabas.testing.shape import Address, NodePlan

from .apache import SMALL_JVM, START_TIMEOUT_S, STOP_TIMEOUT_S, ApacheKafka
from .tools import STORAGE_TOOL, ToolError, run_tool

ADMIN: Final = "admin"
ADMIN_PASSWORD: Final = "admin-secret"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


class KafkaError(AssertionError):
    """The real Kafka did not start; the text holds its last lines."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """A test CA, a server identity and a client identity, as PEM files."""

    ca: Path
    server_store: Path
    client_store: Path
    client_cert: Path
    client_key: Path

    @classmethod
    def make(cls, folder: Path, client_name: str = "client.example") -> TlsFiles:
        """Make fresh ones under `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        authority = trustme.CA()
        server = authority.issue_cert("localhost", "127.0.0.1")
        client = authority.issue_cert(client_name, common_name=client_name)
        files = cls(*(folder / n for n in ("ca.pem", "server.pem", "client.pem", "client.crt", "client.key")))
        authority.cert_pem.write_to_path(str(files.ca))
        for identity, store in ((server, files.server_store), (client, files.client_store)):
            store.write_bytes(_pkcs8(identity) + b"".join(c.bytes() for c in identity.cert_chain_pems))
        files.client_cert.write_bytes(b"".join(c.bytes() for c in client.cert_chain_pems))
        files.client_key.write_bytes(_pkcs8(client))
        return files


@dataclass
class RealKafka:
    """One combined KRaft node. Use as a context manager, or `start()` and `stop()`.

    folder: where its files go; listeners: security protocols, one listener each, named as the protocol;
    scram_users: name -> password, both SCRAM mechanisms, on top of `admin`; authorizer: StandardAuthorizer
    with admin (and, so that plain listeners stay convenient, ANONYMOUS) as super users; properties: more
    server.properties; jvm: options of the Java launcher, small and quick to start unless others are given; plugins:
    folders of Java classes that the properties name.
    """

    folder: Path
    listeners: Sequence[str] = ("PLAINTEXT",)
    scram_users: Mapping[str, str] = field(default_factory=dict)
    authorizer: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    format_args: Sequence[str] = ()
    node_id: int = 1
    jvm: Sequence[str] = SMALL_JVM
    plugins: Sequence[Path] = ()

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        ports = free_ports(len(self.listeners) + 1)
        self.controller_port = ports[-1]
        self.ports = dict(zip(self.listeners, ports, strict=False))
        self.log_dir = self.folder / "data"
        self.tls: TlsFiles | None = None
        if any(protocol in ("SSL", "SASL_SSL") for protocol in self.listeners):
            self.tls = TlsFiles.make(self.folder / "tls")
        self.config_file = self.folder / "server.properties"
        self.config_file.write_text("".join(f"{k}={v}\n" for k, v in self._server_properties().items()))
        self.software = ApacheKafka(self.jvm, logins=self._logins(), plugins=self.plugins)
        address = Address(ports[0], ports[0])
        controller = Address(self.controller_port, self.controller_port)
        self.process = NodeProcess(NodePlan(self.node_id, address, controller), DevFiles(self.folder), self.software)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def bootstrap(self, protocol: str = "") -> str:
        """Give `host:port` of one listener, the first one unless `protocol` names another."""
        return f"localhost:{self.ports[protocol or self.listeners[0]]}"

    @property
    def pid(self) -> int:
        """Give the process id of the running node."""
        return self.process.pid

    def start(self) -> None:
        """Format the directory if it is not yet, start the node and wait until it is ready and lets `admin` in."""
        if not (self.log_dir / "meta.properties").exists():
            self.format()
        self.process.start(wait=False)
        try:
            self.process.wait_ready(START_TIMEOUT_S)
        except NodeProcessError as e:
            self.stop(kill=True)
            raise KafkaError(f"Apache Kafka did not come up: {self.software.refusal}\n{e}") from None

    def stop(self, *, kill: bool = False) -> None:
        """End the node: an orderly shutdown, or kill -9."""
        if kill:
            self.process.kill()
        else:
            self.process.stop(STOP_TIMEOUT_S)

    def format(self) -> None:
        """Format the directory with Kafka's StorageTool: one dynamic voter, the SCRAM users inside."""
        args = ["format", "-c", str(self.config_file), "-t", cluster_id(self.config_file)]
        args += ["--standalone", *self.format_args]
        for user, password in {ADMIN: ADMIN_PASSWORD, **self.scram_users}.items():
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                args += ["--add-scram", f"{mechanism}=[name={user},password={password}]"]
        try:
            run_tool(STORAGE_TOOL, *args)
        except ToolError as e:
            raise KafkaError(str(e)) from None

    def log(self) -> str:
        """Give what the node has printed."""
        return self.process.whole_log()

    def client_properties(
        self, protocol: str = "", user: str = ADMIN, password: str = "", mechanism: str = "SCRAM-SHA-512"
    ) -> dict[str, str]:
        """Give the settings (Java's spelling) of a client of one listener, bootstrap.servers included."""
        protocol = protocol or self.listeners[0]
        props = {"bootstrap.servers": self.bootstrap(protocol), "security.protocol": protocol}
        if protocol.startswith("SASL"):
            secret = password or {ADMIN: ADMIN_PASSWORD, **self.scram_users}[user]
            module = _PLAIN if mechanism == "PLAIN" else _SCRAM
            props["sasl.mechanism"] = mechanism
            props["sasl.jaas.config"] = f'{module} required username="{user}" password="{secret}";'
        if protocol.endswith("SSL"):
            assert self.tls is not None
            props |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.tls.ca)}
        if protocol == "SSL":
            assert self.tls is not None
            props |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.tls.client_store)}
        return props

    def client_config(self, protocol: str = "", user: str = ADMIN, mechanism: str = "SCRAM-SHA-512") -> Path:
        """Write the settings of `client_properties` into a file for `--command-config`."""
        path = self.folder / f"client-{protocol or self.listeners[0]}-{user}-{mechanism}.properties"
        props = self.client_properties(protocol, user, mechanism=mechanism)
        path.write_text("".join(f"{key}={value}\n" for key, value in props.items()))
        return path

    def _logins(self) -> list[dict[str, str]]:
        """Give what `admin` logs in with at each listener that has SASL: a node is not ready before it can."""
        return [self.client_properties(protocol) for protocol in self.listeners if protocol.startswith("SASL")]

    def _server_properties(self) -> dict[str, str]:
        listeners = [f"{p}://localhost:{port}" for p, port in self.ports.items()]
        props = {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "log.dirs": str(self.log_dir),
            "listeners": ",".join([*listeners, f"CONTROLLER://localhost:{self.controller_port}"]),
            "advertised.listeners": ",".join([*listeners, f"CONTROLLER://localhost:{self.controller_port}"]),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"localhost:{self.controller_port}",
            "listener.security.protocol.map": ",".join(["CONTROLLER:PLAINTEXT", *(f"{p}:{p}" for p in self.listeners)]),
            "inter.broker.listener.name": self.listeners[0],
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "2",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            "log.cleaner.enable": "true",
            "log.cleaner.dedupe.buffer.size": "2097152",
        }
        props |= self._sasl_properties() | self._tls_properties()
        if self.authorizer:
            props["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            props["super.users"] = f"User:{ADMIN};User:ANONYMOUS"
        return props | dict(self.properties)

    def _sasl_properties(self) -> dict[str, str]:
        protocols = [p for p in self.listeners if p.startswith("SASL")]
        if not protocols:
            return {}
        props = {
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        }
        credentials = f'username="{ADMIN}" password="{ADMIN_PASSWORD}"'
        users = {ADMIN: ADMIN_PASSWORD, **self.scram_users}
        plain = " ".join(f'user_{name}="{password}"' for name, password in users.items())
        for protocol in protocols:
            prefix = f"listener.name.{protocol.lower()}"
            for mechanism in ("scram-sha-512", "scram-sha-256"):
                props[f"{prefix}.{mechanism}.sasl.jaas.config"] = f"{_SCRAM} required {credentials};"
            props[f"{prefix}.plain.sasl.jaas.config"] = f"{_PLAIN} required {credentials} {plain};"
        return props

    def _tls_properties(self) -> dict[str, str]:
        if self.tls is None:
            return {}
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.tls.server_store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.tls.ca),
            "listener.name.ssl.ssl.client.auth": "required",
        }


def cluster_id(config_file: Path) -> str:
    """Give the id that a directory formatted for this file gets: fixed, so that nodes can share it."""
    found = re.search(r"^# cluster.id=(\S+)$", config_file.read_text(), re.MULTILINE)
    return found.group(1) if found else "QmFybmFiYXNUZXN0UGVlcg"


def _pkcs8(identity: trustme.LeafCert) -> bytes:
    key = load_pem_private_key(identity.private_key_pem.bytes(), None)  # Kafka reads PKCS #8 only
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
