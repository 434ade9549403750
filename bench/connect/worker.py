"""One worker of either kind: its process, and its REST API."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from tests.peers.connect import JvmWorker, ask

from barnabas.server.dev_node import DevFiles
from barnabas.testing.processes import NodeProcess
from bench.process_tree import Process, end, resident_bytes, tree

LIMIT_SECONDS: Final = 300.0
"""How long anything may take that is waited for."""
SETTINGS: Final = {
    "heartbeat.interval.ms": "3000",
    "session.timeout.ms": "10000",
    "offset.flush.interval.ms": "60000",
    "scheduled.rebalance.max.delay.ms": "0",
    "consumer.session.timeout.ms": "10000",
}
"""Kafka's defaults, but for the last two: 300,000 and 45,000 ms are what a killed worker's tasks would wait for."""
KAFKAS_JVM: Final = (
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""What connect-distributed.sh and kafka-run-class.sh pass."""
_STOP_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.01
_CREATED: Final = 201
_CONFLICT: Final = 409
_NOT_FOUND: Final = 404


class RefusedError(Exception):
    """A worker answered what keeps the measurement from going on, or a task has failed."""


class TaskAt(NamedTuple):
    """Where a task is, by the port of its worker, and its state."""

    port: int
    state: str


@dataclass
class Worker:
    """A worker that runs. started: what it has had as processes, as far as that was looked at."""

    url: str
    process: NodeProcess
    started: set[Process] = field(default_factory=set)

    @property
    def port(self) -> int:
        """Give the port that tells it from others."""
        port = urlsplit(self.url).port
        assert port is not None
        return port

    @property
    def resident_mb(self) -> float:
        """Give the resident memory in MB (10^6) of the worker and of all processes that it has started."""
        return resident_bytes(self.process.pid) / 1e6

    @contextmanager
    def connector(self, name: str, config: Mapping[str, str], tasks: int) -> Iterator[None]:
        """Make a connector; give way when all of its tasks run; delete it in the end."""
        whole = {**config, "tasks.max": str(tasks)}
        self.until(lambda: self._accepts(name, whole), f"{name} is accepted")
        try:
            self.until(lambda: self._running(name) == tasks, f"{name} runs")
            yield
        finally:
            if self.process.running:
                ask(f"{self.url}/connectors/{name}", "DELETE")
                self.until(lambda: self._status(name) is None, f"{name} is gone")

    def tasks(self, name: str) -> list[TaskAt]:
        """Give where the tasks of a connector are; RefusedError when one has failed."""
        found = []
        for task in self._status(name) or ():
            if task["state"] == "FAILED":
                raise RefusedError(f"a task of {name} has failed: {task.get('trace', '')}")
            found.append(TaskAt(int(task["worker_id"].rpartition(":")[2]), task["state"]))
        return found

    def until(self, what: Callable[[], object], named: str) -> None:
        """Wait for something; TimeoutError, or NodeProcessError when the worker has ended by itself."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while not what():
            self.process.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {LIMIT_SECONDS:g} s until {named}")
            time.sleep(_LOOK_SECONDS)

    def kill(self) -> None:
        """End the worker's process by SIGKILL; what it has started is told nothing."""
        self.started.update(tree(self.process.pid))
        self.process.kill()

    def close(self) -> None:
        """Have it leave its group and end, and see to it that nothing that it has started is left."""
        if self.process.running:
            self.started.update(tree(self.process.pid))
        self.process.stop(_STOP_SECONDS)
        end(self.started, _STOP_SECONDS)

    def _accepts(self, name: str, config: Mapping[str, str]) -> bool:
        answer = ask(f"{self.url}/connectors", "POST", {"name": name, "config": config})
        if answer.status not in (_CREATED, _CONFLICT):  # the latter during a rebalance
            raise RefusedError(f"{answer.status}: {answer.text}")
        return answer.status == _CREATED

    def _running(self, name: str) -> int:
        return sum(task.state == "RUNNING" for task in self.tasks(name))

    def _status(self, name: str) -> list[dict[str, str]] | None:
        answer = ask(f"{self.url}/connectors/{name}/status")
        if answer.status == _NOT_FOUND:
            return None
        found: list[dict[str, str]] = json.loads(answer.text).get("tasks", [])
        return found


class _OurWorker(JvmWorker):
    """The same file, run by `barnabas connect`."""

    def command(self, files: DevFiles) -> list[str]:
        """Give the command that runs it."""
        return [
            *(sys.executable, "-m", "barnabas.cli.main", "connect", str(files.properties)),
            *("--ready-file", str(self._ready(files))),
        ]

    def environment(self) -> dict[str, str]:
        """Give the environment variables of the process."""
        return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}

    def is_ready(self, files: DevFiles, log: str) -> bool:
        """Say whether it has joined its group."""
        return self._ready(files).exists()

    def _ready(self, files: DevFiles) -> Path:
        return files.directory / "ready.json"


@contextmanager
def started(kafka: bool, folder: Path, bootstrap: str, group: str) -> Iterator[Worker]:
    """Give a worker of Apache Kafka's or of ours; none of its processes is left in the end."""
    kind = JvmWorker if kafka else _OurWorker
    node = kind(folder, bootstrap, group, properties=SETTINGS, jvm=KAFKAS_JVM)
    worker = Worker(node.url, node.process)
    try:
        node.start(wait=False)
        node.process.wait_ready(LIMIT_SECONDS)
        yield worker
    finally:
        worker.close()
