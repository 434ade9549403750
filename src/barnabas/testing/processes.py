"""Nodes as processes of their own: what can be killed, paused and restarted without the test noticing it in itself."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from barnabas.model.config import parse_properties
from barnabas.server.dev_node import SUPER_USER, DevFiles, client_texts
from barnabas.testing.network import Network
from barnabas.testing.shape import FIRST_CONTROLLER, Address, ClusterPlan, NodePlan

START_SECONDS: Final = 180.0
STOP_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.01
_LOG_LINES: Final = 40


class NodeProcessError(Exception):
    """A node did not start, or has ended by itself; the text holds the last lines of its log."""


class Software(Protocol):
    """What a node's process runs."""

    def command(self, files: DevFiles) -> Sequence[str]:
        """Give the command for the node with these files."""

    def environment(self) -> Mapping[str, str]:
        """Give the environment variables of the process."""

    def is_ready(self, files: DevFiles, log: str) -> bool:
        """Say whether the node serves. log: what it has printed since it was started."""


class Barnabas:
    """A node of ours, by its command. overrides: Kafka's keys over the file's."""

    def __init__(self, overrides: Mapping[str, str] | None = None) -> None:
        self._overrides = dict(overrides or {})

    def command(self, files: DevFiles) -> list[str]:
        """Give the command for the node with these files."""
        ready = files.directory / "ready.json"
        ready.unlink(missing_ok=True)  # of a node that was killed
        command = [sys.executable, "-m", "barnabas.cli.main", "run", str(files.properties), "--ready-file", str(ready)]
        for key, value in self._overrides.items():
            command += ["--override", f"{key}={value}"]
        return command

    def environment(self) -> dict[str, str]:
        """Give the environment variables of the process."""
        return dict(os.environ)

    def is_ready(self, files: DevFiles, log: str) -> bool:
        """Say whether the node serves."""
        return (files.directory / "ready.json").exists()


class NodeProcess:
    """One node: its configuration file, its log, and the process that runs it, if one does."""

    def __init__(self, plan: NodePlan, files: DevFiles, software: Software | None = None) -> None:
        self.plan = plan
        self.files = files
        self.software: Software = software or Barnabas()
        self.log_file = files.directory / "log"
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False
        self._log_begin = 0

    def __repr__(self) -> str:
        return f"NodeProcess({self.node_id}, {self.plan.roles}, {self.state})"

    @property
    def node_id(self) -> int:
        """Give the node's id."""
        return self.plan.node_id

    @property
    def state(self) -> str:
        """Give `running`, `paused` or `down`."""
        if not self.running:
            return "down"
        return "paused" if self._paused else "running"

    @property
    def running(self) -> bool:
        """Say whether there is a process, paused or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Give the process id; NodeProcessError when there is none."""
        if self._process is None:
            raise NodeProcessError(f"node {self.node_id} is not running")
        return self._process.pid

    @property
    def bootstrap(self) -> str:
        """Give host:port for clients, as they are told; NodeProcessError on a node without clients."""
        if self.plan.client is None:
            raise NodeProcessError(f"node {self.node_id} is no broker")
        return self.plan.client.text

    def start(self, *, wait: bool = True) -> None:
        """Start the process; wait: until it serves (see `wait_ready`)."""
        if self.running:
            raise NodeProcessError(f"node {self.node_id} is running already")
        self._reap()
        self._log_begin = self.log_file.stat().st_size if self.log_file.exists() else 0
        command = self.software.command(self.files)
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.software.environment()
            )
        self.starts += 1
        if wait:
            self.wait_ready()

    def wait_ready(self, timeout_seconds: float = START_SECONDS) -> None:
        """Wait until the node serves; NodeProcessError when it ends before, or takes longer."""
        until = time.monotonic() + timeout_seconds
        while not self.software.is_ready(self.files, self.log()):
            if not self.running:
                raise NodeProcessError(f"node {self.node_id} ended at its start:\n{self.log_tail()}")
            if time.monotonic() > until:
                raise NodeProcessError(
                    f"node {self.node_id} does not serve after {timeout_seconds:g} s:\n{self.log_tail()}"
                )
            time.sleep(_LOOK_SECONDS)

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> int:
        """Ask it to leave in order (SIGTERM), kill it when it does not; give its exit code, 0 when it was down."""
        if self._process is None:
            return 0
        self.resume()
        self.ask_to_stop()
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
        return self._reap()

    def ask_to_stop(self) -> None:
        """Send SIGTERM and return at once."""
        if self.running:
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it by SIGKILL: nothing is flushed, nobody is told."""
        if self.running:
            os.kill(self.pid, signal.SIGKILL)
        self._reap()

    def pause(self) -> None:
        """Stop it by SIGSTOP: its connections stay, and nothing is answered until `resume`."""
        if self.running:
            os.kill(self.pid, signal.SIGSTOP)
            self._paused = True

    def resume(self) -> None:
        """Let a paused one go on."""
        if self.running and self._paused:
            os.kill(self.pid, signal.SIGCONT)
        self._paused = False

    def restart(self, *, kill: bool = False, wait: bool = True) -> None:
        """Stop (or kill) it and start it again on what it has."""
        if kill:
            self.kill()
        else:
            self.stop()
        self.start(wait=wait)

    def check(self) -> None:
        """Fail by NodeProcessError when the process has ended and nobody here ended it."""
        if self._process is not None and self._process.poll() is not None:
            raise NodeProcessError(
                f"node {self.node_id} ended by itself with code {self._process.returncode}:\n{self.log_tail()}"
            )

    def log(self) -> str:
        """Give what it has printed since it was started last."""
        if not self.log_file.exists():
            return ""
        with self.log_file.open("rb") as log:
            log.seek(self._log_begin)
            return log.read().decode("utf-8", "replace")

    def whole_log(self) -> str:
        """Give what it has ever printed."""
        return self.log_file.read_text("utf-8", "replace") if self.log_file.exists() else ""

    def log_tail(self) -> str:
        """Give the last lines of that."""
        return "\n".join(self.whole_log().splitlines()[-_LOG_LINES:])

    def rss_bytes(self) -> int:
        """Give its resident memory (Linux)."""
        resident_pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return resident_pages * os.sysconf("SC_PAGE_SIZE")

    def _reap(self) -> int:
        process, self._process = self._process, None
        self._paused = False
        return process.wait() if process is not None else 0


class ProcessCluster:
    """A cluster of processes on loopback. Use it as a context manager, or `start()` and `close()`.

    with ProcessCluster(tmp_path, controllers=3, brokers=3) as cluster:
        cluster.node(1).kill()
    """

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
        software: Callable[[int], Software] | None = None,
        proxied: bool = False,
        first_port: int = 0,
    ) -> None:
        """Write and format everything; nothing runs yet.

        directory: everything goes there, and `close` leaves it. controllers, brokers, combined: how many nodes of each
        kind. plaintext: no TLS, no login, no ACLs. dynamic: voters may change (KIP-853). racks: of the brokers, in
        turn. properties, features: see ClusterPlan. software: what the node with that id runs, ours by default.
        proxied: everybody connects through `network`, that tests make bad. first_port: clients' ports are this one and
        those after it; 0 for any.
        """
        self.plan = ClusterPlan(
            directory, plaintext=plaintext, dynamic=dynamic, properties=properties, features=features
        )
        self.nodes: dict[int, NodeProcess] = {}
        self._racks = tuple(racks)
        self._software = software or (lambda node_id: Barnabas())
        self._network = Network(self._processes) if proxied else None
        self._next_port = first_port
        plans = [self._planned(i, broker=True, controller=True) for i in range(1, combined + 1)]
        plans += [
            self._planned(i, broker=True, controller=False) for i in range(len(plans) + 1, len(plans) + brokers + 1)
        ]
        plans += [
            self._planned(i, broker=False, controller=True)
            for i in range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)
        ]
        self.plan.add(plans, voters=True)
        for plan in plans:
            self._make(plan)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[NodeProcess]:
        return iter(self.nodes.values())

    def start(self) -> None:
        """Start every node that is down, controllers first, and wait until all serve; none is left when one fails."""
        atexit.register(self.close)  # also when the test run is broken off
        if self._network is not None and not self._network.running:
            self._network.start(node.plan for node in self)
        try:
            started = [n for n in dict.fromkeys(self.controllers + self.brokers) if not n.running]
            for node in started:
                node.start(wait=False)
            for node in started:
                node.wait_ready()
        except BaseException:
            self.close()
            raise

    def stop(self) -> None:
        """Stop every node in order: brokers, that need controllers for it, first."""
        for group in ([n for n in self.brokers if n not in self.controllers], self.controllers):
            for node in group:
                node.resume()
                node.ask_to_stop()
            for node in group:
                node.stop()

    def close(self) -> None:
        """Kill what still runs."""
        atexit.unregister(self.close)
        for node in self:
            node.kill()
        if self._network is not None:
            self._network.stop()

    def delete(self) -> None:
        """Close, and delete the directory."""
        self.close()
        shutil.rmtree(self.plan.files.directory, ignore_errors=True)

    def node(self, node_id: int) -> NodeProcess:
        """Give one node."""
        return self.nodes[node_id]

    @property
    def network(self) -> Network:
        """Give the network between the nodes; ValueError when the cluster was not made with proxied=True."""
        if self._network is None:
            raise ValueError("nothing stands between the nodes of this cluster: make it with proxied=True")
        return self._network

    @property
    def brokers(self) -> list[NodeProcess]:
        """Give the nodes that serve clients."""
        return [n for n in self.nodes.values() if n.plan.client is not None]

    @property
    def controllers(self) -> list[NodeProcess]:
        """Give the nodes that vote on metadata."""
        return [n for n in self.nodes.values() if n.plan.controller is not None]

    @property
    def bootstrap(self) -> str:
        """Give every broker's host:port for clients."""
        return self.plan.bootstrap()

    def add_broker(self, *, rack: str | None = None) -> NodeProcess:
        """Add a broker with the next id; it is not started."""
        node_id = max((n.node_id for n in self.brokers), default=0) + 1
        return self._grow(self._planned(node_id, broker=True, controller=False, rack=rack))

    def add_controller(self) -> NodeProcess:
        """Add a controller to a dynamic quorum, an observer until it is made a voter; it is not started."""
        if not self.plan.dynamic:
            raise ValueError("the voters of this cluster are fixed: make it with dynamic=True")
        node_id = max([FIRST_CONTROLLER - 1, *(n.node_id for n in self.controllers)]) + 1
        return self._grow(self._planned(node_id, broker=False, controller=True))

    def client(self, user: str = SUPER_USER, password: str = "", bootstrap: str = "") -> dict[str, str]:
        """Give client settings in Java's spelling. bootstrap: other than all brokers."""
        return parse_properties(self.client_texts(user, password, bootstrap)["java"])

    def librdkafka(self, user: str = SUPER_USER, password: str = "", bootstrap: str = "") -> dict[str, Any]:
        """Give client settings in librdkafka's spelling."""
        return dict(parse_properties(self.client_texts(user, password, bootstrap)["librdkafka"]))

    def client_texts(self, user: str = SUPER_USER, password: str = "", bootstrap: str = "") -> dict[str, str]:
        """Give client settings as texts, in the spelling of each family: java, librdkafka, python."""
        ca = None if self.plan.plaintext else str(self.plan.files.ca)
        return client_texts(bootstrap or self.bootstrap, ca, user, password or self.plan.secrets.admin)

    def check(self) -> None:
        """Fail by NodeProcessError when a node has ended by itself."""
        for node in self.nodes.values():
            node.check()

    def logs(self) -> str:
        """Give the last lines of every node's log, for the message of a failed test."""
        return "\n".join(f"--- node {n.node_id} ({n.plan.roles}, {n.state})\n{n.log_tail()}" for n in self)

    def _planned(self, node_id: int, *, broker: bool, controller: bool, rack: str | None = None) -> NodePlan:
        client = None
        if broker:
            client = Address.free(proxied=self._network is not None, wanted=self._next_port)
            self._next_port += bool(self._next_port)
            if rack is None and self._racks:
                rack = self._racks[(node_id - 1) % len(self._racks)]
        return NodePlan(node_id, client, Address.free(proxied=self._network is not None) if controller else None, rack)

    def _grow(self, plan: NodePlan) -> NodeProcess:
        self.plan.add([plan], voters=False)
        return self._make(plan)

    def _make(self, plan: NodePlan) -> NodeProcess:
        self.plan.write(plan)
        self.plan.format(plan)
        node = NodeProcess(plan, self.plan.files.node(plan.node_id), self._software(plan.node_id))
        self.nodes[plan.node_id] = node
        if self._network is not None and self._network.running:
            self._network.add(plan)
        return node

    def _processes(self) -> dict[int, int]:
        return {node.pid: node.node_id for node in self if node.running}
