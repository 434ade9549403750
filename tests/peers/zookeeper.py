"""Real ZooKeeper, the 3.8.4 that Kafka 3.9.1 carries: a server or an ensemble, with logins and TLS."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from barnabas.net.zookeeper.logins import DigestLogin
from barnabas.net.zookeeper.settings import ZooKeeperSettings, parse_connect
from barnabas.server.dev_node import DevFiles
from barnabas.testing.ports import HOST, free_ports
from barnabas.testing.processes import NodeProcess
from barnabas.testing.shape import Address, NodePlan

from .kafka import TlsFiles
from .maven import ZOOKEEPER_KAFKA, java, kafka_classpath

if TYPE_CHECKING:
    from tests.kerberos.kdc import Kdc

USERS: Final = {"super": "super-pw", "kafka": "kafka-pw", "client": "client-pw", "other": "other-pw"}
"""Whom a secured ensemble knows by DIGEST-MD5; for `super` no ACL counts."""
START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 60.0
SERVICE: Final = "zookeeper/localhost"
_DIGEST: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
_KRB5: Final = "com.sun.security.auth.module.Krb5LoginModule"
_JVM: Final = ("-Xmx128M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.jmx.log4j.disable=true")
_HERE: Final = Path(__file__).resolve().parent
_ANSWER_SECONDS: Final = 10.0
_KNOWN: Final = re.compile(r"Successfully authenticated client: authenticationID=(\S+);")


@dataclass(frozen=True)
class Setup:
    """How servers are set up; see the fields.

    secured: with the SASL provider and a login of their own; users: who may log in by DIGEST-MD5, unless there is a
    kdc; quorum_login: of an ensemble's servers at each other, `offered`, `sent`, `required` (a roll
    takes one step after the other), empty for none; short_names:
    Kerberos names without host and realm; tls: a second port that wants certificates from clients; flags: Java
    properties, as `zookeeper.allowSaslFailedClients=true`.
    """

    secured: bool = True
    users: Mapping[str, str] = field(default_factory=lambda: dict(USERS))
    kdc: Kdc | None = None
    quorum_login: str = ""
    short_names: bool = True
    tls: TlsFiles | None = None
    flags: Sequence[str] = ()


@dataclass
class ZooKeeper:
    """One server, or three with a quorum of their own. Use as a context manager, or `start()` and `stop()`."""

    folder: Path
    servers: int = 1
    setup: Setup = field(default_factory=Setup)

    def __post_init__(self) -> None:
        self.host = "localhost" if self.setup.kdc is not None else HOST
        ports = free_ports(4 * self.servers)
        self.ports, self._quorum, self._election, self.tls_ports = (
            ports[at :: 4] for at in range(4)
        )  # fmt: skip
        self.nodes = [self._node(number) for number in range(self.servers)]

    @property
    def connect(self) -> str:
        """Give what stands in `zookeeper.connect`, without a chroot."""
        return ",".join(f"{self.host}:{port}" for port in self.ports)

    @property
    def tls_connect(self) -> str:
        """Give the same for TLS."""
        return ",".join(f"{self.host}:{port}" for port in self.tls_ports)

    def settings(self, user: str | None = "kafka", chroot: str = "", **more: object) -> ZooKeeperSettings:
        """Give the settings of a client of ours: of a user of `USERS`, or of nobody."""
        servers, _ = parse_connect(self.connect)
        login = None if user is None else DigestLogin(user, USERS[user])
        return replace(ZooKeeperSettings(servers, chroot, 30_000, 60_000, login), **more)  # type: ignore[arg-type]

    def client_jaas(self, user: str = "kafka", section: str = "Client") -> Path:
        """Give a JAAS file of a client, ours or Java's."""
        path = self.folder / f"client-{section}-{user}.jaas"
        path.write_text(f'{section} {{ {_DIGEST} required username="{user}" password="{USERS[user]}"; }};\n')
        return path

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start all and wait until they serve; none is left when one does not."""
        try:
            for number in range(self.servers):
                self.start_server(number, wait=False)
            for node in self.nodes:
                node.wait_ready(START_SECONDS)
        except BaseException:
            for node in self.nodes:
                node.kill()
            raise

    def stop(self) -> None:
        """End all."""
        for node in self.nodes:
            node.resume()
            node.ask_to_stop()
        for node in self.nodes:
            node.stop(STOP_SECONDS)

    def start_server(self, number: int, setup: Setup | None = None, *, wait: bool = True) -> None:
        """Start one that is down. setup: another one than that of all."""
        self._write(number, setup or self.setup)
        self.nodes[number].start(wait=False)
        if wait:
            self.nodes[number].wait_ready(START_SECONDS)

    def roll(self, setup: Setup) -> None:
        """Stop and start one after the other, with another setup; each serves again before the next one goes."""
        self.setup = setup
        for number, node in enumerate(self.nodes):
            node.stop(STOP_SECONDS)
            self.start_server(number)

    def logins(self) -> list[str]:
        """Give who has logged in by SASL, by the servers' logs, in the order of each server's."""
        return [who for node in self.nodes for who in _KNOWN.findall(node.whole_log())]

    def log(self) -> str:
        """Give all that the servers have printed."""
        return "\n".join(node.whole_log() for node in self.nodes)

    def _node(self, number: int) -> NodeProcess:
        folder = self.folder / f"server-{number + 1}"
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "myid").write_text(str(number + 1))
        port = self.ports[number]
        return NodeProcess(NodePlan(port, Address(port, port), None), DevFiles(folder), _Software(port, self.setup))

    def _write(self, number: int, setup: Setup) -> None:
        files = self.nodes[number].files
        self.nodes[number].software = _Software(self.ports[number], setup)
        rows = {
            "tickTime": "1000",
            "initLimit": "60",
            "syncLimit": "30",
            "minSessionTimeout": "500",
            "maxSessionTimeout": "120000",
            "maxClientCnxns": "0",
            "dataDir": str(files.data),
            "clientPort": str(self.ports[number]),
            "clientPortAddress": HOST,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
        }
        if self.servers > 1:
            for other in range(self.servers):
                rows[f"server.{other + 1}"] = f"{HOST}:{self._quorum[other]}:{self._election[other]}"
        if setup.secured:
            rows |= {"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
            rows |= {"jaasLoginRenew": "3600000"}
        if setup.quorum_login:
            rows |= {"quorum.auth.enableSasl": "true", "quorum.cnxn.threads.size": "20"}
            rows |= {"quorum.auth.learnerRequireSasl": str(setup.quorum_login != "offered").lower()}
            rows |= {"quorum.auth.serverRequireSasl": str(setup.quorum_login == "required").lower()}
        if setup.tls is not None:
            rows |= self._tls(number, setup.tls)
        files.properties.write_text("".join(f"{key}={value}\n" for key, value in rows.items()))
        (files.directory / "jaas").write_text(_server_jaas(setup) if setup.secured else "")

    def _tls(self, number: int, tls: TlsFiles) -> dict[str, str]:
        return {
            "secureClientPort": str(self.tls_ports[number]),
            "secureClientPortAddress": HOST,
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": str(tls.server_store),
            "ssl.trustStore.location": str(tls.ca),
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.type": "PEM",
            "ssl.clientAuth": "need",
        }


@dataclass(frozen=True)
class _Software:
    port: int
    setup: Setup

    def command(self, files: DevFiles) -> list[str]:
        flags = [f"-D{flag}" for flag in self.setup.flags]
        if self.setup.secured:
            flags.append(f"-Djava.security.auth.login.config={files.directory / 'jaas'}")
        if self.setup.kdc is not None:
            flags.append(f"-Djava.security.krb5.conf={self.setup.kdc.krb5_conf}")
            if self.setup.short_names:
                flags += [f"-Dzookeeper.kerberos.remove{what}FromPrincipal=true" for what in ("Host", "Realm")]
        return [
            java(), *_JVM, *flags, f"-Dlog4j.configuration=file:{_HERE / 'log4j-zookeeper.properties'}",
            "-cp", kafka_classpath(ZOOKEEPER_KAFKA),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(files.properties),
        ]  # fmt: skip

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def is_ready(self, files: DevFiles, log: str) -> bool:
        # The port is open before anything is served.
        return "Mode:" in four_letters(self.port, "srvr")


def four_letters(port: int, word: str) -> str:
    """Give what a server answers to a command of four letters, empty when nobody does."""
    try:
        with socket.create_connection((HOST, port), timeout=_ANSWER_SECONDS) as connection:
            connection.sendall(word.encode())
            said = b""
            while chunk := connection.recv(65536):
                said += chunk
        return said.decode()
    except OSError:
        return ""


_QUORUM_JAAS: Final = f"""\
QuorumServer {{ {_DIGEST} required user_quorum="quorum-pw"; }};
QuorumLearner {{ {_DIGEST} required username="quorum" password="quorum-pw"; }};
"""


def _server_jaas(setup: Setup) -> str:
    if setup.kdc is not None:
        table = setup.kdc.folder / "zookeeper%2Flocalhost.keytab"
        if not table.exists():
            setup.kdc.principal(SERVICE)
        options = f'useKeyTab=true storeKey=true useTicketCache=false keyTab="{table}" principal="{SERVICE}"'
        return f"Server {{ {_KRB5} required {options}; }};\n{_QUORUM_JAAS}"
    options = " ".join(f'user_{user}="{password}"' for user, password in setup.users.items())
    return f"Server {{ {_DIGEST} required {options}; }};\n{_QUORUM_JAAS}"
