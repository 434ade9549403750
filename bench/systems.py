"""The two systems under test, as processes on free loopback ports: Apache Kafka as its own scripts start it, and us."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Self

from tests.peers.kafka import ADMIN, ADMIN_PASSWORD, RealKafka

from barnabas.core.sasl.exchange import AuthenticationError
from barnabas.model.config import parse_properties
from barnabas.testing.ports import free_ports
from bench.processor import processor_seconds
from bench.requests import RequestsError, ask_for_brokers

START_LIMIT_S: Final = 90
_STOP_LIMIT_S: Final = 60
KAFKAS_JVM: Final = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""What kafka-server-start.sh and kafka-run-class.sh pass."""


class StartError(Exception):
    """A system did not answer in time."""


class System(ABC):
    """One node, secured (SASL_SSL, SCRAM-SHA-512, ACLs) or plain. Use as a context manager."""

    name: str

    def __init__(self, folder: Path, *, secured: bool, properties: Mapping[str, str] | None = None) -> None:
        """properties: Kafka's keys over the node's own."""
        self.folder = folder
        self.secured = secured
        self.properties = dict(properties or {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    @abstractmethod
    def pid(self) -> int:
        """Give the process id."""

    @abstractmethod
    def prepare(self) -> None:
        """Do what is done once in the life of a node: format, make certificates."""

    @abstractmethod
    def launch(self) -> None:
        """Start the process; returns at once or later."""

    @abstractmethod
    def stop(self) -> None:
        """End the process in an orderly way."""

    @abstractmethod
    def admin(self) -> Mapping[str, str]:
        """Give the super user's client settings, in librdkafka's spelling."""

    def user(self, name: str, password: str) -> dict[str, str]:
        """Give another user's client settings; the same as the super user's on a plain node."""
        if not self.secured:
            return dict(self.admin())
        return {**self.admin(), "sasl.username": name, "sasl.password": password}

    def start(self, ask: Callable[[], bool] | None = None) -> float:
        """Start, and give the seconds until the first request was answered, login included.

        ask: asks the request and says whether it was answered well; a super user's for the brokers unless given.
        """
        answered: list[float] = []
        begin = time.perf_counter()
        prober = threading.Thread(target=self._probe, args=(ask or self._ask_for_brokers, begin, answered))
        prober.start()
        self.launch()
        prober.join()
        if not answered:
            raise StartError(f"{self.name} did not answer within {START_LIMIT_S} s")
        return answered[0]

    def rss_mb(self) -> float:
        """Give the resident memory in MB (10^6)."""
        resident_pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return resident_pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def cpu_s(self) -> float:
        """Give the processor time used so far."""
        return processor_seconds(self.pid)

    def _ask_for_brokers(self) -> bool:
        return ask_for_brokers(self.admin()) > 0

    def _probe(self, ask: Callable[[], bool], begin: float, answered: list[float]) -> None:
        while time.perf_counter() - begin < START_LIMIT_S:
            try:
                if ask():
                    answered.append(time.perf_counter() - begin)
                    return
            except (OSError, RequestsError, AuthenticationError):
                pass
            time.sleep(0.005)


class KafkaSystem(System):
    """Apache Kafka."""

    name = "Apache Kafka 4.3.1"

    def __init__(self, folder: Path, *, secured: bool, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, secured=secured, properties=properties)
        protocol = "SASL_SSL" if secured else "PLAINTEXT"
        self._kafka = RealKafka(
            folder,
            listeners=(protocol,),
            authorizer=secured,
            # Kafka's own default; the tests' node has a smaller one.
            properties={"log.cleaner.dedupe.buffer.size": "134217728", **self.properties},
            jvm=KAFKAS_JVM,
        )

    @property
    def pid(self) -> int:
        return self._kafka.pid

    def prepare(self) -> None:
        self._kafka.format()

    def launch(self) -> None:
        self._kafka.start()

    def stop(self) -> None:
        self._kafka.stop()

    def admin(self) -> Mapping[str, str]:
        if not self.secured:
            return {"bootstrap.servers": self._kafka.bootstrap()}
        assert self._kafka.tls is not None
        return {
            "bootstrap.servers": self._kafka.bootstrap(),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": ADMIN,
            "sasl.password": ADMIN_PASSWORD,
            "ssl.ca.location": str(self._kafka.tls.ca),
        }


class BarnabasSystem(System):
    """Barnabas, by its command."""

    name = "Barnabas"

    def __init__(self, folder: Path, *, secured: bool, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, secured=secured, properties=properties)
        self._port = free_ports(1)[0]
        self._admin: Mapping[str, str] = {"bootstrap.servers": f"127.0.0.1:{self._port}"}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def prepare(self) -> None:
        """Start once: a node without a configuration file makes all it needs at its first start."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.launch()
        ready = self.folder / "ready.json"
        until = time.perf_counter() + START_LIMIT_S
        while not ready.exists():
            if time.perf_counter() > until or self._process is None or self._process.poll() is not None:
                raise StartError(f"Barnabas did not start: {self.folder / 'log'}")
            time.sleep(0.01)
        files = json.loads(ready.read_text())["client_configs"]
        self._admin = parse_properties(Path(files["librdkafka"]).read_text())
        self.stop()

    def launch(self) -> None:
        command = [str(Path(sys.executable).with_name("barnabas")), "run", "--dir", str(self.folder / "node")]
        command += ["--ready-file", str(self.folder / "ready.json")]
        if not self.secured:
            command += ["--listener", f"PLAINTEXT://127.0.0.1:{self._port}"]
        for key, value in self.properties.items():
            command += ["--override", f"{key}={value}"]
        # As pip installs it, with its byte code at hand, whatever this shell or the source tree is set up for.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = str(self.folder / "bytecode")
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def admin(self) -> Mapping[str, str]:
        return self._admin
