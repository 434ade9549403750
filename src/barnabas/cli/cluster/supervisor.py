"""The process that runs a local cluster: what can be done to its nodes, from here or from another terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from barnabas.cli.cluster import saved
from barnabas.cli.cluster.control import Answer
from barnabas.cli.cluster.facts import Watch, controllers_client
from barnabas.cli.errors import CliError
from barnabas.client.admin import Admin
from barnabas.client.admin.quorum import VoterEndpoint
from barnabas.client.config import ClientConfig
from barnabas.net.client import ChannelError
from barnabas.net.dev_ca import write_private
from barnabas.server.dev_node import DevFiles
from barnabas.storage.fs import OsFileSystem
from barnabas.storage.meta_properties import read_meta_properties
from barnabas.testing.nodes import AnyNode, NodesCluster
from barnabas.testing.processes import NodeProcess, NodeProcessError, ProcessCluster
from barnabas.testing.shape import CONTROLLER
from barnabas.wire.errors import ApiError, ErrorCode

_JOIN_SECONDS: Final = 120
_LEFTOVER_SECONDS: Final = 10
_LOG_LINES: Final = 20
HELP: Final = """\
status                  the table
add broker|controller   one more node
kill NODE...            SIGKILL: nothing is flushed, nobody is told
pause NODE...           SIGSTOP: alive, and silent
resume NODE...          SIGCONT
restart NODE...         in order; a node that is down is started
stop [NODE...]          in order; everything, and leave, when no node is named
logs NODE               the last lines that a node printed"""


class Supervisor:
    """A cluster that runs. Commands are done one after another, whoever gives them."""

    def __init__(self, cluster: ProcessCluster) -> None:
        self.cluster = cluster
        self.over = threading.Event()
        self._doing = threading.Lock()
        self._watch: Watch | None = None
        self._actions: dict[str, Callable[[list[NodeProcess]], str]] = {
            "kill": lambda nodes: self._each(nodes, NodeProcess.kill, "Killed"),
            "pause": lambda nodes: self._each(nodes, NodeProcess.pause, "Paused"),
            "resume": lambda nodes: self._each(nodes, NodeProcess.resume, "Resumed"),
            "restart": lambda nodes: self._each(nodes, NodeProcess.restart, "Restarted"),
            "stop": lambda nodes: self._each(nodes, NodeProcess.stop, "Stopped"),
        }

    @property
    def client_file(self) -> Path:
        """Give the file with settings for clients."""
        return Path(DevFiles(self.cluster.plan.files.directory).client_configs()["java"])

    def start(self) -> None:
        """Start all nodes and wait until they serve; NodeProcessError when one does not, and then none is left."""
        self._end_leftovers()
        saved.save(self.cluster)
        self.cluster.start()
        self._write_clients()
        self._watch = Watch(self.cluster)

    def stop(self) -> None:
        """Stop all nodes in order; none is left."""
        if self._watch is not None:
            self._watch.close()
        self.cluster.stop()
        self.cluster.close()

    @property
    def watch(self) -> Watch:
        """Give what is known of the nodes."""
        assert self._watch is not None, "not started"
        return self._watch

    def handle(self, words: Sequence[str]) -> Answer:
        """Do what a line says."""
        if not words:
            return Answer()
        name, arguments = words[0], list(words[1:])
        if name == "status":
            return Answer(self.watch.summary(), self.watch.rows())
        with self._doing:
            try:
                return Answer(self._do(name, arguments))
            except (CliError, NodeProcessError, ApiError, ChannelError) as e:
                return Answer(error=str(e))

    def _do(self, name: str, arguments: list[str]) -> str:
        if name == "stop" and not arguments:
            self.over.set()
            return "Stopping every node."
        if name == "add":
            return self._add(arguments)
        if name == "logs":
            return self._logs(arguments)
        if name == "help":
            return HELP
        action = self._actions.get(name)
        if action is None:
            raise CliError(f"{name}: there is no such command; `help` lists them.")
        return action(self._nodes(name, arguments))

    def _logs(self, arguments: list[str]) -> str:
        nodes = self._nodes("logs", arguments)
        return "\n".join(line for node in nodes for line in node.whole_log().splitlines()[-_LOG_LINES:])

    def _nodes(self, name: str, arguments: list[str]) -> list[NodeProcess]:
        if not arguments:
            raise CliError(f"{name}: name a node; there are {', '.join(map(str, sorted(self.cluster.nodes)))}.")
        unknown = [a for a in arguments if not a.isdigit() or int(a) not in self.cluster.nodes]
        if unknown:
            there = ", ".join(map(str, sorted(self.cluster.nodes)))
            raise CliError(f"There is no node {unknown[0]}; there are {there}.")
        return [self.cluster.node(int(a)) for a in arguments]

    def _each(self, nodes: list[NodeProcess], act: Callable[[NodeProcess], object], done: str) -> str:
        for node in nodes:
            act(node)
        return f"{done} node {', '.join(str(n.node_id) for n in nodes)}."

    def _add(self, arguments: list[str]) -> str:
        if arguments not in (["broker"], ["controller"]):
            raise CliError("add: broker or controller?")
        controller = arguments == ["controller"]
        node = self.cluster.add_controller() if controller else self.cluster.add_broker()
        saved.save(self.cluster)
        node.start()
        if controller:
            asyncio.run(let_vote(self.cluster, node))
        self._write_clients()
        return f"Added {arguments[0]} {node.node_id}."

    def _write_clients(self) -> None:
        if not self.cluster.brokers:
            return
        paths = DevFiles(self.cluster.plan.files.directory).client_configs()
        for family, text in self.cluster.client_texts().items():
            write_private(Path(paths[family]), text.encode())

    def _end_leftovers(self) -> None:
        for pid in saved.leftovers(self.cluster).values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + _LEFTOVER_SECONDS
        while left := saved.leftovers(self.cluster):
            if time.monotonic() > until:
                for pid in left.values():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)


async def let_vote(cluster: NodesCluster[Any], node: AnyNode) -> None:
    """Make a controller a voter; it may first have to catch up. One that votes already is left as it is."""
    found = read_meta_properties(cluster.plan.files.node(node.node_id).data, OsFileSystem())
    at = node.plan.controller
    assert found is not None, "it was just formatted"
    assert found.directory_id is not None, "it was just formatted"
    assert at is not None, "it is a controller"
    host, _, port = at.text.rpartition(":")
    endpoint = VoterEndpoint(CONTROLLER, host, int(port))
    until = time.monotonic() + _JOIN_SECONDS
    async with Admin(ClientConfig.from_properties(controllers_client(cluster))) as admin:
        while True:
            try:
                await admin.add_raft_voter(node.node_id, found.directory_id, [endpoint])
            except (ApiError, ChannelError) as e:
                if isinstance(e, ApiError) and e.code is ErrorCode.DUPLICATE_VOTER:
                    return  # asked again, because the answer took too long
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(0.5)
            else:
                return
