"""Brokers in ZooKeeper mode, of Apache Kafka 3.9.1 or ours on the same files; and that release's own migration tool."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from barnabas.client.admin import Admin
from barnabas.client.config import ClientConfig
from barnabas.net.client import ChannelError
from barnabas.server.dev_node import DevFiles
from barnabas.testing.ports import HOST, free_ports
from barnabas.testing.processes import Barnabas, NodeProcess, NodeProcessError
from barnabas.testing.shape import Address, NodePlan
from barnabas.wire.errors import ApiError

from .apache import SMALL_JVM, START_TIMEOUT_S, STOP_TIMEOUT_S
from .kafka import ADMIN, ADMIN_PASSWORD, KafkaError
from .maven import ZOOKEEPER_KAFKA, java, kafka_classpath

NOBODY: Final = "alice"
"""Who may log in, and has no rights."""
NOBODY_PASSWORD: Final = "alice-secret"
MIGRATOR: Final = "kafka.admin.ZkSecurityMigrator"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
_HERE: Final = Path(__file__).resolve().parent
_TOOL_TIMEOUT_S: Final = 300


@dataclass
class ZooKeeperBroker:
    """One broker. Use as a context manager, or start and stop it.

    Clients log in by PLAIN as `admin`, its super user, or as `NOBODY`.

    zookeeper: `zookeeper.connect`, chroot included; jaas: the login file towards ZooKeeper, None for nobody; set_acl:
    `zookeeper.set.acl`; properties: more of server.properties, over what stands here; jvm: options for Kafka's; ours:
    Barnabas instead of Apache Kafka. All of it may be changed while it is down.
    """

    folder: Path
    zookeeper: str
    jaas: Path | None = None
    set_acl: bool = False
    broker_id: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    jvm: Sequence[str] = ()
    ours: bool = False

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.files = DevFiles(self.folder)
        (self.port,) = free_ports(1)
        address = Address(self.port, self.port)
        self.process = NodeProcess(NodePlan(self.broker_id, address, None), self.files, self)
        self._barnabas = Barnabas()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """Give host and port for clients."""
        return f"{HOST}:{self.port}"

    def librdkafka(self, *others: ZooKeeperBroker) -> dict[str, Any]:
        """Give the same settings as `client_config` in librdkafka's spelling."""
        return {
            "bootstrap.servers": ",".join(one.bootstrap for one in (self, *others)),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": ADMIN,
            "sasl.password": ADMIN_PASSWORD,
        }

    def client_config(self, *others: ZooKeeperBroker) -> ClientConfig:
        """Give the settings of a client that is `admin`. others: more brokers to begin at."""
        return ClientConfig.from_properties(self.client_properties(*others))

    def client_properties(self, *others: ZooKeeperBroker) -> dict[str, str]:
        """Give the same in Java's spelling."""
        return {
            "bootstrap.servers": ",".join(one.bootstrap for one in (self, *others)),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{_PLAIN} required username="{ADMIN}" password="{ADMIN_PASSWORD}";',
        }

    def start(self, *, wait: bool = True) -> None:
        """Start it; KafkaError when it does not come up."""
        rows = self._server_properties() | dict(self.properties)
        self.files.properties.write_text("".join(f"{key}={value}\n" for key, value in rows.items()))
        self.process.start(wait=False)
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until it serves; KafkaError when it does not come up."""
        try:
            self.process.wait_ready(START_TIMEOUT_S)
        except NodeProcessError as e:
            self.process.kill()
            name = "Barnabas" if self.ours else f"Apache Kafka {ZOOKEEPER_KAFKA}"
            raise KafkaError(f"{name} did not come up:\n{e}") from None

    def stop(self, *, kill: bool = False) -> None:
        """End it: an orderly shutdown, or kill -9."""
        if kill:
            self.process.kill()
        else:
            self.process.stop(STOP_TIMEOUT_S)

    # What a process of its kind needs: see `barnabas.testing.processes.Software`.

    def command(self, files: DevFiles) -> list[str]:
        """Give the command that runs it."""
        if self.ours:
            return self._barnabas.command(files)
        options = [*SMALL_JVM, *self.jvm, *_options(self.jaas, "log4j-zookeeper.properties")]
        return [java(), *options, "kafka.Kafka", str(files.properties)]

    def environment(self) -> dict[str, str]:
        """Give the environment variables of the process."""
        if self.ours and self.jaas is not None:
            return os.environ | {"KAFKA_OPTS": f"-Djava.security.auth.login.config={self.jaas}"}
        return dict(os.environ)

    def is_ready(self, files: DevFiles, log: str) -> bool:
        """Say whether it has announced itself and knows of itself from the controller: before, it makes no topic."""
        if not self._has_announced_itself(files, log):
            return False
        with ThreadPoolExecutor(1) as thread:  # the caller may be a coroutine of another loop
            return thread.submit(asyncio.run, self._knows_itself()).result()

    def _has_announced_itself(self, files: DevFiles, log: str) -> bool:
        if self.ours:
            return self._barnabas.is_ready(files, log)
        return f"[KafkaServer id={self.broker_id}] started" in log

    async def _knows_itself(self) -> bool:
        try:
            async with Admin(self.client_config()) as admin:
                return any(one.broker_id == self.broker_id for one in (await admin.describe_cluster()).brokers)
        except (ApiError, ChannelError):
            return False

    def _server_properties(self) -> dict[str, str]:
        users = f'username="{ADMIN}" password="{ADMIN_PASSWORD}" user_{ADMIN}="{ADMIN_PASSWORD}"'
        users += f' user_{NOBODY}="{NOBODY_PASSWORD}"'
        return {
            "broker.id": str(self.broker_id),
            "zookeeper.connect": self.zookeeper,
            "zookeeper.set.acl": "true" if self.set_acl else "false",
            "zookeeper.session.timeout.ms": "60000",
            "zookeeper.connection.timeout.ms": "60000",
            "log.dirs": str(self.files.data),
            "listeners": f"SASL_PLAINTEXT://{HOST}:{self.port}",
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{_PLAIN} required {users};",
            "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{_SCRAM} required;",
            "authorizer.class.name": _AUTHORIZER,
            "super.users": f"User:{ADMIN}",
            "delegation.token.secret.key": "of-the-tests",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            "log.cleaner.enable": "false",
        }


def kafkas_migration(mode: str, connect: str, jaas: Path | None, *more: str) -> subprocess.CompletedProcess[str]:
    """Run the tool of Kafka 3.9.1 to its end. mode: `secure` or `unsecure`; more: further options."""
    words = [MIGRATOR, f"--zookeeper.acl={mode}", f"--zookeeper.connect={connect}", *more]
    command = [java(), *SMALL_JVM, *_options(jaas, "log4j-migrator.properties"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_TIMEOUT_S, check=False)


def _options(jaas: Path | None, logging: str) -> list[str]:
    login = [] if jaas is None else [f"-Djava.security.auth.login.config={jaas}"]
    return [*login, f"-Dlog4j.configuration=file:{_HERE / logging}", "-cp", kafka_classpath(ZOOKEEPER_KAFKA)]
