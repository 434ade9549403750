"""A cluster of several nodes in one thread of the test's process: a real quorum and real brokers, started in a second.

Everybody logs in by PLAIN on plain text. `root`, the controllers and broker 1 are super users; broker 2 has what an ACL
gives it; `alice` and whoever else is in `USERS` have nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import uvloop

from barnabas.model.acl import AclOperation
from barnabas.server.config import AUTHORIZERS, NodeConfig
from barnabas.server.format import FormatRequest, format_directories, random_uuid
from barnabas.server.network.conduct import SessionConduct
from barnabas.server.node import Node
from barnabas.testing.ports import free_ports
from barnabas.wire.api_keys import ApiKey
from tests.peers.eventually import eventually
from tests.server.frames import FramePeer
from tests.server.requests import build

T = TypeVar("T")
USERS: Final = ("root", "broker-1", "broker-2", "controller", "alice", "bob")
CONTROLLERS: Final = (101, 102, 103)
BROKERS: Final = (1, 2)
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_LIMIT_S: Final = 240
ANSWER_LIMIT_S: Final = 90
"""Far beyond what an answer takes: many nodes share one thread here, and that one with whatever else runs."""


class InProcess:
    """See the module. `with InProcess(folder) as cluster: cluster.frames(1, "alice").call(...)`."""

    conduct: SessionConduct | None = None
    """Of sessions, when it is not to be as configured."""

    def __init__(
        self,
        folder: Path,
        *,
        controllers: Sequence[int] = CONTROLLERS,
        brokers: Sequence[int] = BROKERS,
        **settings: str,
    ) -> None:
        """settings: Kafka's keys for every node, with `__` for a dot."""
        self.controllers, self.brokers = tuple(controllers), tuple(brokers)
        ids = (*controllers, *brokers)
        self.ports = dict(zip(ids, free_ports(len(ids)), strict=True))
        self._folder = folder
        self._settings = {key.replace("__", "."): value for key, value in settings.items()}
        self._cluster_id = str(random_uuid())
        self.nodes: dict[int, Node] = {}
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nodes", daemon=True)
        for node_id in ids:
            self._format(node_id)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.do(self._start_all())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.do(self._stop_all())
        finally:
            self._end()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the nodes' loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_LIMIT_S)

    def look(self, read: Callable[[], T]) -> T:
        """Give what `read` gives on the nodes' loop."""

        async def once() -> T:
            return read()

        return self.do(once())

    def wait(self, read: Callable[[], object], wanted: object) -> None:
        """Wait until `read` gives what is wanted."""

        async def ask() -> object:
            return read()

        self.do(eventually(ask, wanted))

    def start_node(self, node_id: int, **settings: str) -> None:
        """Start a node that is down."""
        self.do(self._start(node_id, {key.replace("__", "."): value for key, value in settings.items()}))

    def stop_node(self, node_id: int, *, clean: bool = False) -> None:
        """Stop a node; unless clean, it takes leave of nobody."""
        self.do(self.nodes.pop(node_id).stop(clean=clean))

    def frames(self, node_id: int, user: str = "root") -> FramePeer:
        """Connect to a node's only listener and log in."""
        peer = FramePeer(self.ports[node_id])
        peer.socket.settimeout(ANSWER_LIMIT_S)
        assert peer.login(user).error_code == 0
        return peer

    def ask(
        self, node_id: int, key: ApiKey, version: int | None = None, /, user: str = "root", **fields: object
    ) -> Any:
        """Ask one question over a connection of its own."""
        with self.frames(node_id, user) as peer:
            return peer.call(build(key, **fields), version)

    def active(self) -> int:
        """Wait until a controller is active and every running broker knows of it; give its id."""

        def known() -> int | None:
            found = [i for i, n in self.nodes.items() if i in self.controllers and n.controller.is_active]
            heard = (n.kraft.metadata.leader for n in self.nodes.values())
            leaders = {leader.node_id for leader in heard if leader is not None}
            return found[0] if len(found) == 1 and leaders == set(found) else None

        self.wait(lambda: known() is not None, True)
        found = self.look(known)
        assert found is not None
        return found

    def standby(self) -> int:
        """Give a controller that runs and is not active."""
        active = self.active()
        return next(i for i in self.controllers if i in self.nodes and i != active)

    def metric(self, node_id: int, name: str) -> Mapping[str, float | str]:
        """Give the attributes of an MBean of a node."""
        return next((v for n, v in self.look(lambda: list(self.nodes[node_id].metrics.registry.values(name))) if v), {})

    def config(self, node_id: int) -> dict[str, str]:
        """Give a node's properties."""
        controller = node_id in self.controllers
        user = "controller" if controller else f"broker-{node_id}"
        accepted = " ".join(f'user_{name}="{name}-secret"' for name in USERS)
        jaas = f'{_PLAIN} required username="{user}" password="{user}-secret" {accepted};'
        listener = "CONTROLLER" if controller else "CLIENTS"
        return {
            "process.roles": "controller" if controller else "broker",
            "node.id": str(node_id),
            "log.dirs": str(self._folder / f"node-{node_id}"),
            "listeners": f"{listener}://127.0.0.1:{self.ports[node_id]}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
            "controller.quorum.voters": ",".join(f"{i}@127.0.0.1:{self.ports[i]}" for i in self.controllers),
            "sasl.mechanism.controller.protocol": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": jaas,
            "listener.name.clients.plain.sasl.jaas.config": jaas,
            **({} if controller else {"inter.broker.listener.name": "CLIENTS"}),
            "authorizer.class.name": AUTHORIZERS[1],
            "super.users": "User:root;User:controller;User:broker-1",
            "offsets.topic.num.partitions": "2",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "3",
            "transaction.state.log.replication.factor": "2",
            "transaction.state.log.min.isr": "1",
            "metadata.max.idle.interval.ms": "0",
            "controller.quorum.election.timeout.ms": "3000",
            "controller.quorum.fetch.timeout.ms": "6000",
            "request.timeout.ms": str(ANSWER_LIMIT_S * 1000),  # and a broker gives up a little before that
            **self._settings,
        }

    def _format(self, node_id: int) -> None:
        folder = self._folder / f"node-{node_id}"
        format_directories(FormatRequest(self._cluster_id, node_id, [folder], folder))

    async def _start_all(self) -> None:
        async with asyncio.timeout(_LIMIT_S):
            await asyncio.gather(*(self._start(i) for i in self.controllers))
            await self._let_broker_2_in()
            await asyncio.gather(*(self._start(i) for i in self.brokers))

    async def _let_broker_2_in(self) -> None:
        rule = {
            "resource_type": 4,
            "resource_name": "kafka-cluster",
            "principal": "User:broker-2",
            "host": "*",
            "operation": AclOperation.CLUSTER_ACTION,
            "permission_type": 3,
        }
        answer = await self.nodes[self.controllers[0]].channel.call(build(ApiKey.CREATE_ACLS, creations=[rule]), 3)
        assert [r.error_code for r in answer.results] == [0]

    async def _start(self, node_id: int, settings: Mapping[str, str] | None = None) -> None:
        node = Node(NodeConfig.parse({**self.config(node_id), **(settings or {})}), conduct=self.conduct)
        await node.start()
        self.nodes[node_id] = node

    async def _stop_all(self) -> None:
        async def stop(ids: Sequence[int]) -> None:
            running: list[Awaitable[None]] = [self.nodes.pop(i).stop(clean=False) for i in ids if i in self.nodes]
            await asyncio.gather(*running)

        await stop(self.brokers)
        await stop(self.controllers)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LIMIT_S)
        self._loop.close()
