"""Several controllers in this process, one quorum over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.raft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.server.config import NodeConfig
from barnabas.server.format import FormatRequest, format_directories, random_uuid
from barnabas.server.node import Node
from barnabas.testing.ports import free_ports
from barnabas.wire.batch_header import iter_headers
from barnabas.wire.records.config_record import ConfigRecord
from tests.server.controllers import CLUSTER_ID

WAIT_S = 60
LOG = Path("__cluster_metadata-0") / "00000000000000000000.log"
QUICK = {
    "metadata.max.idle.interval.ms": "0",
    "controller.quorum.fetch.timeout.ms": "10000",
}
"""Nothing is written that tests do not write; and a leader stays one while the machine stands still."""


@dataclass
class Quorum:
    """Controllers by node id; those of `voters` are the first ones, others may join.

    static: by `controller.quorum.voters`; settings: further keys of every node; own: of single ones.
    """

    directory: Path
    voters: tuple[int, ...] = (1, 2, 3)
    others: tuple[int, ...] = ()
    static: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    own: dict[int, dict[str, str]] = field(default_factory=dict)
    nodes: dict[int, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ids = (*self.voters, *self.others)
        self.ports = dict(zip(ids, free_ports(len(ids)), strict=True))
        self.keys = {i: ReplicaKey(i, random_uuid()) for i in ids}

    def directory_of(self, node_id: int) -> Path:
        """Give the directory of a node's metadata log."""
        return self.directory / str(node_id)

    def voter(self, node_id: int) -> Voter:
        """Give what a node is as a voter."""
        return Voter(self.keys[node_id], (("CONTROLLER", Endpoint("localhost", self.ports[node_id])),))

    def properties(self, node_id: int) -> dict[str, str]:
        """Give the server.properties of a node."""
        addresses = [f"localhost:{port}" for port in self.ports.values()]
        found = {
            "process.roles": "controller",
            "node.id": str(node_id),
            "log.dirs": str(self.directory_of(node_id)),
            "listeners": f"CONTROLLER://localhost:{self.ports[node_id]}",
            "controller.listener.names": "CONTROLLER",
            **QUICK,
            **self.settings,
            **self.own.get(node_id, {}),
        }
        if self.static:
            names = [f"{i}@localhost:{self.ports[i]}" for i in self.voters]
            found["controller.quorum.voters"] = ",".join(names)
        else:
            found["controller.quorum.bootstrap.servers"] = ",".join(addresses)
        return found

    def format(self, node_id: int) -> None:
        """Format a node's directory, as one of the first voters or as one that joins later."""
        directory = self.directory_of(node_id)
        first = node_id in self.voters and not self.static
        voters = VoterSet.of(self.voter(i) for i in self.voters) if first else None
        format_directories(
            FormatRequest(CLUSTER_ID, node_id, [directory], directory, voters=voters, dynamic=not self.static)
        )

    async def start(self, *node_ids: int) -> None:
        """Start nodes together, formatted if they are not yet."""
        starting = []
        for node_id in node_ids:
            if not self.directory_of(node_id).exists():
                self.format(node_id)
            self.nodes[node_id] = node = Node(NodeConfig.parse(self.properties(node_id)))
            starting.append(node.start())
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*starting)

    async def stop(self, *node_ids: int) -> None:
        """Stop nodes one after the other, each properly."""
        for node_id in node_ids:
            await self.nodes.pop(node_id).stop()

    async def leader(self) -> Node:
        """Wait until one of the running nodes is the active controller, and give it."""
        await self.until(lambda: any(n.controller.is_active for n in self.nodes.values()))
        return next(n for n in self.nodes.values() if n.controller.is_active)

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait until something holds that the metadata or a leader's change brings about."""
        async with asyncio.timeout(WAIT_S):
            while not done():
                waits = [w for n in self.nodes.values() for w in (n.next_image(), n.replica.leader_changed())]
                tasks = [asyncio.ensure_future(w) for w in waits]
                await asyncio.wait(tasks, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()

    async def agree(self) -> int:
        """Wait until every running node has applied the leader's log to its end; give that."""
        leader = await self.leader()
        end = leader.replica.node.log_end_offset
        await self.until(lambda: all(n.replica.applied_offset >= end for n in self.nodes.values()))
        return end

    async def logs(self) -> set[bytes]:
        """Give the different contents of the running nodes' first segments, as far as all have them: one, when equal.

        They reach as far as `agree` says, at least. Beyond it stands what a leader wrote since and may never be
        committed, as when it hands over at its stop.
        """
        end = await self.agree()
        logs = [(self.directory_of(i) / LOG).read_bytes() for i in self.nodes]
        shortest = min(logs, key=len)
        assert max(header.next_offset for _, header in iter_headers(shortest)) >= end
        return {log[: len(shortest)] for log in logs}


@contextlib.asynccontextmanager
async def running(quorum: Quorum, *node_ids: int) -> AsyncIterator[Quorum]:
    """Run nodes, all of the voters unless some are named, until the block ends."""
    try:
        await quorum.start(*(node_ids or quorum.voters))
        yield quorum
    finally:
        await asyncio.gather(*(node.stop() for node in quorum.nodes.values()))
        quorum.nodes.clear()


def note(topic: str, value: int) -> Callable[[MetadataImage], Decision[int]]:
    """Decide to write something that is easy to find again: a topic's retention."""
    record = ConfigRecord(resource_type=2, resource_name=topic, name="retention.ms", value=str(value))
    return lambda image: Decision((VersionedRecord(record, 0),), value)


def noted(image: MetadataImage, topics: Iterable[str]) -> dict[str, int]:
    """Give what was noted of these topics."""
    found = {t: image.configs.get(ConfigResource(ConfigResourceType.TOPIC, t)) for t in topics}
    return {topic: int(configs["retention.ms"]) for topic, configs in found.items() if configs}
