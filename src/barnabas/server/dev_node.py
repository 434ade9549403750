"""A node without a configuration file: secured, on loopback, ready in a moment (design: secure by default).

Everything lies in one directory, readable by its owner only: the generated `server.properties`, authority and
certificates, the data, and client configurations in the spelling of each family of clients.
"""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.model.config import ConfigError, format_properties, parse_properties
from barnabas.net.dev_ca import DevCa, write_private
from barnabas.server.config import AUTHORIZERS, NodeConfig
from barnabas.server.format import FormatRequest, format_directories, random_uuid, standalone_voters

CLIENT_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
SUPER_USER: Final = "admin"
MECHANISM: Final = "SCRAM-SHA-512"
SINGLE_NODE: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


@dataclass(frozen=True, slots=True)
class DevFiles:
    """Where things lie in a development node's directory."""

    directory: Path

    @property
    def properties(self) -> Path:
        """Give the node's own configuration."""
        return self.directory / "server.properties"

    @property
    def ca(self) -> Path:
        """Give the certificate that clients trust."""
        return self.directory / "ca.pem"

    @property
    def data(self) -> Path:
        """Give the log directory."""
        return self.directory / "data"

    @property
    def password(self) -> Path:
        """Give the file with the super user's password."""
        return self.directory / "admin.password"

    def client_configs(self) -> dict[str, str]:
        """Give the path of each family's client configuration, by name."""
        return {
            "java": str(self.directory / "client.properties"),
            "librdkafka": str(self.directory / "client.librdkafka.properties"),
            "python": str(self.directory / "client.python.json"),
        }


def prepare_secured(
    directory: Path, ports: tuple[int, int] = (CLIENT_PORT, CONTROLLER_PORT), extra: Mapping[str, str] | None = None
) -> NodeConfig:
    """Give the configuration of the secured node in `directory`, made and formatted there unless it is already.

    ports: for clients and for the quorum, where they are free; 0 is any free one. extra: settings over the generated
    ones, when they are made.
    """
    files = DevFiles(directory.absolute())
    if not files.properties.exists():
        _make_secured(files, ports, extra or {})
    config = NodeConfig.load(files.properties)
    if not (Path(config.metadata_log_dir) / "meta.properties").exists():
        password = files.password.read_text(encoding="ascii").strip()
        _format(config, scram=(f"{MECHANISM}=[name={SUPER_USER},password={password}]",))
    return config


def prepare_plain(directory: Path, listener: str) -> NodeConfig:
    """Give the configuration of an unsecured node with one listener, formatted unless it is already."""
    protocol = listener.partition("://")[0]
    if protocol != "PLAINTEXT":
        raise ConfigError(
            f"--listener {listener}: only PLAINTEXT://host:port can be asked for so; leave it out for a secured node, "
            "or write a server.properties"
        )
    files = DevFiles(directory.absolute())
    files.data.mkdir(parents=True, exist_ok=True)
    controller_port = _kept_port(files)
    properties = {
        **_shared(files, controller_port),
        "listeners": f"{listener},CONTROLLER://127.0.0.1:{controller_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
    }
    config = NodeConfig.parse(properties)
    write_private(files.properties, format_properties(properties).encode())
    if not (Path(config.metadata_log_dir) / "meta.properties").exists():
        _format(config)
    return config


def write_client_configs(files: DevFiles, bootstrap: str, *, secured: bool) -> None:
    """Write the client configurations for the address that the node really has."""
    paths = files.client_configs()
    password = files.password.read_text(encoding="ascii").strip() if secured else ""
    for family, text in client_texts(bootstrap, str(files.ca) if secured else None, SUPER_USER, password).items():
        write_private(Path(paths[family]), text.encode())


def client_texts(bootstrap: str, ca: str | None, user: str, password: str) -> dict[str, str]:
    """Give a client's configuration as Java's, librdkafka's and Python's clients spell it.

    ca: path of the trusted certificate (PEM); None for PLAINTEXT, user and password unused then.
    """
    if ca is None:
        plain = {"bootstrap.servers": bootstrap, "security.protocol": "PLAINTEXT"}
        python: Mapping[str, str] = {"bootstrap_servers": bootstrap, "security_protocol": "PLAINTEXT"}
        return {
            "java": format_properties(plain),
            "librdkafka": format_properties(plain),
            "python": json.dumps(python, indent=2) + "\n",
        }
    java = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{user}" password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": ca,
    }
    librdkafka = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.username": user,
        "sasl.password": password,
        "ssl.ca.location": ca,
    }
    python = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
        "ssl_cafile": ca,
    }
    return {
        "java": format_properties(java),
        "librdkafka": format_properties(librdkafka),
        "python": json.dumps(python, indent=2) + "\n",
    }


def _make_secured(files: DevFiles, ports: tuple[int, int], extra: Mapping[str, str]) -> None:
    files.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = DevCa.create()
    authority.save(files.directory / "ca.key.pem", files.ca)
    store = files.directory / "server.pem"
    write_private(store, authority.issue_server().store)
    write_private(files.password, secrets.token_urlsafe(24).encode())
    client_port = _free_port("127.0.0.1", ports[0])
    controller_port = _free_port("127.0.0.1", ports[1])
    properties = {
        **_shared(files, controller_port),
        "listeners": f"SASL_SSL://127.0.0.1:{client_port},CONTROLLER://127.0.0.1:{controller_port}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": MECHANISM,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "sasl.mechanism.controller.protocol": MECHANISM,
        "authorizer.class.name": AUTHORIZERS[1],
        "super.users": f"User:{SUPER_USER}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.ca),
        **extra,
    }
    write_private(files.properties, format_properties(properties).encode())


def _shared(files: DevFiles, controller_port: int) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "log.dirs": str(files.data),
        **SINGLE_NODE,
    }


def _format(config: NodeConfig, scram: tuple[str, ...] = ()) -> None:
    dirs = [Path(d) for d in config.log_dirs]
    for directory in dirs:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    format_directories(
        FormatRequest(
            cluster_id=str(random_uuid()),
            node_id=config.node_id,
            log_dirs=dirs,
            metadata_dir=Path(config.metadata_log_dir),
            voters=standalone_voters(config),
            scram=scram,
        )
    )


def _kept_port(files: DevFiles) -> int:
    """Give the controller port of an unsecured node: the same at every start."""
    if not files.properties.exists():
        return _free_port("127.0.0.1", 0)
    kept = parse_properties(files.properties.read_text(encoding="utf-8"))["controller.quorum.bootstrap.servers"]
    return int(kept.rpartition(":")[2])


def _free_port(host: str, wanted: int) -> int:
    """Give `wanted` when it is free, else any free port."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ConfigError(f"no free port on {host}")
