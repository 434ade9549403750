"""Real workers of Apache Kafka Connect, 4.3.1, 3.9.1 and 2.3.0, as processes."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from barnabas.model.config import format_properties
from barnabas.server.dev_node import DevFiles
from barnabas.testing.ports import free_ports
from barnabas.testing.processes import NodeProcess
from barnabas.testing.shape import Address, NodePlan

from .maven import KAFKA, connect_classpath, java

START_SECONDS: Final = 150.0
STOP_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 60.0
FILE_SOURCE: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"
_SMALL_JVM: Final = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_JOINED: Final = "Finished starting connectors and tasks"
_HERE: Final = Path(__file__).resolve().parent


class Answer(NamedTuple):
    """What a REST listener said. text: the body; headers: by their names as sent."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        """Give the body as JSON, None where there is none."""
        return json.loads(self.text) if self.text else None


def ask(url: str, method: str = "GET", body: object | None = None, headers: Mapping[str, str] | None = None) -> Answer:
    """Give the answer to a request, whatever its status. body: bytes as they are, anything else as JSON."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    more = {"Content-Type": "application/json"} if data is not None else {}
    request = urllib.request.Request(url, data, more | dict(headers or {}), method=method)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as response:
            return Answer(response.status, response.read().decode(), dict(response.headers))
    except urllib.error.HTTPError as refused:
        with refused:
            return Answer(refused.code, refused.read().decode(), dict(refused.headers))


@dataclass
class JvmWorker:
    """One worker. Use as a context manager, or `start()` and `stop()`; several may start at once with `wait=False`.

    folder: where its files go; bootstrap: the brokers; group: of the Connect cluster, and the beginning of its topics'
    names; version: a release; client: security settings, for the worker and for its connectors; properties: more
    settings on top.
    """

    folder: Path
    bootstrap: str
    group: str
    version: str = KAFKA
    client: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    jvm: Sequence[str] = _SMALL_JVM

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self.files = DevFiles(self.folder)
        plan = NodePlan(self.port, Address(self.port, self.port), None)
        self.process = NodeProcess(plan, self.files, self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, *, wait: bool = True) -> None:
        """Start the process with the settings of this moment; wait: until it answers (see `wait_ready`)."""
        self.files.properties.write_text(format_properties(self._worker_properties()))
        self.process.start(wait=False)
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until it is a member of its group and answers; NodeProcessError when it does not, and it is ended."""
        try:
            self.process.wait_ready(START_SECONDS)
        except BaseException:
            self.process.kill()
            raise

    def stop(self) -> None:
        """Have it leave its group and end."""
        self.process.stop(STOP_SECONDS)

    def kill(self) -> None:
        """End it by SIGKILL: its group learns by its session's end."""
        self.process.kill()

    @property
    def pid(self) -> int:
        """Give the process id; NodeProcessError when it does not run."""
        return self.process.pid

    def log(self) -> str:
        """Give all that it has printed."""
        return self.process.whole_log()

    def ask(
        self, path: str, method: str = "GET", body: object | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Give its answer to a request, whatever the status; `path` begins with a slash."""
        return ask(self.url + path, method, body, headers)

    def command(self, files: DevFiles) -> list[str]:
        """Give the command that runs it."""
        return [
            java(),
            *self.jvm,
            *self._logging(),
            "-cp",
            connect_classpath(self.version),
            "org.apache.kafka.connect.cli.ConnectDistributed",
            str(files.properties),
        ]

    def environment(self) -> dict[str, str]:
        """Give the environment variables of the process."""
        return dict(os.environ)

    def is_ready(self, files: DevFiles, log: str) -> bool:
        """Say whether it has joined its group and answers; lists of connectors are given before it has."""
        if _JOINED not in log:
            return False
        try:
            return self.ask("/connectors").status == 200
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def _logging(self) -> list[str]:
        if self.version == KAFKA:
            return [f"-Dlog4j2.configurationFile={_HERE / 'log4j2-connect.properties'}"]
        if self.version.startswith("3."):
            return [f"-Dlog4j.configuration=file:{_HERE / 'log4j-connect.properties'}"]
        simple = "-Dorg.slf4j.simpleLogger"
        return [f"{simple}.defaultLogLevel=warn", f"{simple}.log.org.apache.kafka.connect.runtime.distributed=info"]

    def _worker_properties(self) -> dict[str, str]:
        own = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "config.storage.topic": f"{self.group}-configs",
            "offset.storage.topic": f"{self.group}-offsets",
            "status.storage.topic": f"{self.group}-status",
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "offset.storage.partitions": "2",
            "status.storage.partitions": "2",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "listeners": f"http://127.0.0.1:{self.port}",
            "rest.advertised.host.name": "127.0.0.1",
            "rest.advertised.port": str(self.port),
            "heartbeat.interval.ms": "200",
            "session.timeout.ms": "60000",
            "worker.sync.timeout.ms": "60000",
            "offset.flush.interval.ms": "500",
            "scheduled.rebalance.max.delay.ms": "0",
        }
        if self.version != "2.3.0":
            own["plugin.discovery"] = "service_load"  # looking into every class of the class path takes seconds
        security = {f"{prefix}{k}": v for prefix in ("", "producer.", "consumer.") for k, v in self.client.items()}
        return own | security | dict(self.properties)
