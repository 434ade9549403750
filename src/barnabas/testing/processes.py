"""Nodes as processes of their own: what can be killed, paused and restarted without the test noticing it in itself."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, Unpack

from barnabas.server.dev_node import DevFiles
from barnabas.testing.network import Network
from barnabas.testing.nodes import NodesCluster, Shape
from barnabas.testing.shape import NodePlan

START_SECONDS: Final = 180.0
STOP_SECONDS: Final = 120.0
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
        return self.running_pid is not None

    @property
    def running_pid(self) -> int | None:
        """Give the process id, None when there is none that runs."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

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


class ProcessCluster(NodesCluster[NodeProcess]):
    """A cluster of processes.

    with ProcessCluster(tmp_path, controllers=3, brokers=3) as cluster:
        cluster.node(1).kill()
    """

    def __init__(
        self, directory: Path, *, software: Callable[[int], Software] | None = None, **shape: Unpack[Shape]
    ) -> None:
        """Write and format everything; nothing runs yet. software: what the node with that id runs, ours by default.

        The rest is as NodesCluster has it.
        """
        self._software = software or (lambda node_id: Barnabas())
        super().__init__(directory, **shape)

    def start(self) -> None:
        """Start every node that is down, controllers first, and wait until all serve; none is left when one fails."""
        atexit.register(self.close)  # also when the test run is broken off
        self._start_network()
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

    def check(self) -> None:
        """Fail by NodeProcessError when a node has ended by itself."""
        for node in self:
            node.check()

    def logs(self) -> str:
        """Give the last lines of every node's log, for the message of a failed test."""
        return "\n".join(f"--- node {n.node_id} ({n.plan.roles}, {n.state})\n{n.log_tail()}" for n in self)

    def _make(self, plan: NodePlan) -> NodeProcess:
        return NodeProcess(plan, self.plan.files.node(plan.node_id), self._software(plan.node_id))

    def _make_network(self) -> Network:
        return Network(self._running)

    def _running(self) -> dict[int, int]:
        """Give the node ids by process id; any thread may ask, while another stops nodes."""
        return {pid: node.node_id for node in self if (pid := node.running_pid) is not None}
