"""Several nodes in a thread of this process: a cluster in a moment, for tests that kill and pause nobody.

Each node's connections come from a loopback address of its own, by which the network tells them apart.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, TypeVar, Unpack

import uvloop

from barnabas.server.config import NodeConfig
from barnabas.server.dev_node import DevFiles
from barnabas.server.node import Node
from barnabas.testing.disk import Disk
from barnabas.testing.network import Network
from barnabas.testing.nodes import NodesCluster, Shape
from barnabas.testing.shape import NodePlan

T = TypeVar("T")
QUICK: Final = {
    "offsets.topic.num.partitions": "4",
    "group.min.session.timeout.ms": "100",
    "log.initial.task.delay.ms": "500",
    "connection.failed.authentication.delay.ms": "0",
    "controller.quorum.fetch.timeout.ms": "5000",
}
"""Few partitions for groups, no waiting where a test would wait too, and patience with nodes that share one thread."""
START_SECONDS: Final = 240
_address: ContextVar[str | None] = ContextVar("address", default=None)


class LocalNode:
    """One node of a LocalCluster. disk: what it keeps everything on."""

    def __init__(self, plan: NodePlan, files: DevFiles, loop: _Thread) -> None:
        self.plan = plan
        self.files = files
        self.disk = Disk()
        self._loop = loop
        self._node: Node | None = None

    def __repr__(self) -> str:
        return f"LocalNode({self.node_id}, {self.plan.roles}, {'running' if self.running else 'down'})"

    @property
    def node_id(self) -> int:
        """Give the node's id."""
        return self.plan.node_id

    @property
    def node(self) -> Node:
        """Give the node itself; it belongs to the cluster's loop."""
        assert self._node is not None, f"node {self.node_id} is not running"
        return self._node

    @property
    def running(self) -> bool:
        """Say whether it runs."""
        return self._node is not None

    @property
    def bootstrap(self) -> str:
        """Give host:port for clients, as they are told."""
        assert self.plan.client is not None, f"node {self.node_id} is no broker"
        return self.plan.client.text

    def start(self) -> None:
        """Start it; returns once it serves."""
        self._loop.call(self.begin())

    def stop(self) -> None:
        """Let it leave in order."""
        self._loop.call(self.end(clean=True))

    def kill(self) -> None:
        """End it without a word to the others. What it has written stays, as with a killed process."""
        self._loop.call(self.end(clean=False))

    def restart(self, *, kill: bool = False) -> None:
        """Stop (or kill) it and start it again on what it has."""
        if kill:
            self.kill()
        else:
            self.stop()
        self.start()

    async def begin(self) -> None:
        """Start it, on the cluster's loop."""
        _address.set(_address_of(self.node_id))
        node = Node(NodeConfig.load(self.files.properties), self.disk)
        await node.start()
        self._node = node

    async def end(self, *, clean: bool) -> None:
        """End it, on the cluster's loop."""
        _address.set(_address_of(self.node_id))
        node, self._node = self._node, None
        if node is not None:
            await node.stop(clean=clean)


class LocalCluster(NodesCluster[LocalNode]):
    """A cluster in this process. Its loop is its own, so plain and asyncio tests alike can use it.

    with LocalCluster(tmp_path, controllers=3, brokers=3) as cluster:
        cluster.create_topic("orders", partitions=3)
    """

    def __init__(self, directory: Path, **shape: Unpack[Shape]) -> None:
        """Write and format everything; nothing runs yet. The shape is as NodesCluster has it."""
        self._thread = _Thread()
        shape["properties"] = {**QUICK, **(shape.get("properties") or {})}
        super().__init__(directory, **shape)

    def start(self) -> None:
        """Start every node that is down, and wait until all serve; none is left when one fails."""
        self._thread.start()
        self._start_network()
        try:
            self._thread.call(self._start([n for n in self if not n.running]))
        except BaseException:
            self.close()
            raise

    def stop(self) -> None:
        """Stop every node in order: brokers, that need controllers for it, first."""
        for group in ([n for n in self.brokers if n not in self.controllers], self.controllers):
            self._thread.call(_together([n.end(clean=True) for n in group]))

    def close(self) -> None:
        """End every node without ceremony, and the loop."""
        if self._thread.running:
            self._thread.call(_together([n.end(clean=False) for n in self]))
            self._thread.stop()
        if self._network is not None:
            self._network.stop()

    async def _start(self, nodes: list[LocalNode]) -> None:
        await _together([n.begin() for n in nodes])

    def _make(self, plan: NodePlan) -> LocalNode:
        return LocalNode(plan, self.plan.files.node(plan.node_id), self._thread)

    def _make_network(self) -> Network:
        return Network(dict, _Addresses())


class _Addresses(Mapping[str, int]):
    """Node ids by the addresses that they connect from."""

    def __getitem__(self, address: str) -> int:
        if not address.startswith(_PREFIX):
            raise KeyError(address)
        return int(address.removeprefix(_PREFIX))

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


_PREFIX: Final = "127.0.1."


def _address_of(node_id: int) -> str:
    return f"{_PREFIX}{node_id}"


class _Loop(uvloop.Loop):
    """Lets connections begin at the address of the node that makes them."""

    async def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        address = _address.get()
        if address is not None and _can_bind(address):
            kwargs.setdefault("local_addr", (address, 0))
        return await super().create_connection(*args, **kwargs)

    async def sock_connect(self, sock: Any, address: Any) -> Any:
        own = _address.get()
        if own is not None and sock.family == socket.AF_INET and _can_bind(own):
            sock.bind((own, 0))
        return await super().sock_connect(sock, address)


def _can_bind(address: str) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:  # not everywhere is all of 127/8 the loopback
            return False
    return True


class _Thread:
    """A thread with a loop."""

    def __init__(self) -> None:
        self._loop: _Loop | None = None
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        return self._loop is not None

    def start(self) -> None:
        if self._loop is None:
            self._loop = _Loop()
            self._thread = threading.Thread(target=self._run, name="barnabas-nodes", daemon=True)
            self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None, "the cluster is not running"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_SECONDS)

    def stop(self) -> None:
        loop, thread = self._loop, self._thread
        assert loop is not None
        assert thread is not None
        loop.call_soon_threadsafe(loop.stop)
        thread.join(START_SECONDS)
        loop.close()
        self._loop = self._thread = None

    def _run(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


async def _together(work: list[Coroutine[Any, Any, None]]) -> None:
    """Do all at once; the first failure is raised when all have come to an end."""
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
