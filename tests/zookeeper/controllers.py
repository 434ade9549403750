"""A broker's session and the controller that it may become, around a real ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from barnabas.core.metadata.cluster import Endpoint
from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.zookeeper.control_requests import ControlRequest
from barnabas.core.zookeeper.security import acls_for
from barnabas.core.zookeeper.values import ZnodeId
from barnabas.core.zookeeper.znodes import brokers
from barnabas.model.config import Password
from barnabas.model.features import MetadataVersion
from barnabas.model.uuid import Uuid
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.zookeeper.broker_channels import BrokerChannels
from barnabas.server.zookeeper.controller import Publish, Surroundings, Tell, ZooKeeperController
from barnabas.server.zookeeper.election import Election
from barnabas.server.zookeeper.layout import make_layout
from barnabas.server.zookeeper.passwords import PasswordEncoder
from tests.core.metadata.clusters import SCHEMA
from tests.peers.zookeeper import ZooKeeper

STRICT = partial(acls_for, secure=True)
STORED = STRICT("/brokers", owners=(ZnodeId("sasl", "kafka"),))
"""The same, as ZooKeeper keeps it for those whom `nodes` gives."""
LIMIT_S = 60


def surroundings(layout: Sequence[str], tell: Tell, publish: Publish, *, answers: bool = False) -> Surroundings:
    """Give what a controller of brokers of 3.9 has at hand."""
    ids = count(1)
    return Surroundings(
        schema=SCHEMA,
        passwords=PasswordEncoder(lambda key: "password" in key, Password("x")),
        acls_for=STRICT,
        level=int(MetadataVersion.IBP_3_9_IV0),
        listener="INTERNAL",
        layout=layout,
        new_uuid=lambda: Uuid(next(ids).to_bytes(16, "big")),
        tell=tell,
        publish=publish,
        answers=answers,
    )


@dataclass
class Node:
    """A broker's session and, while it has the role, its controller."""

    id: int
    zk: ZooKeeperClient
    image: MetadataImage = MetadataImage.EMPTY
    layout: list[str] = field(default_factory=list)
    told: dict[int, list[ControlRequest]] = field(default_factory=dict)
    controller: ZooKeeperController | None = None
    channels: BrokerChannels | None = None
    answers: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def publish(self, delta: MetadataDelta) -> None:
        self.image = delta.after
        if self.channels is not None:
            self.channels.follow(delta.after)
        self.changed.set()

    def tell(self, asked: Mapping[int, Sequence[ControlRequest]]) -> None:
        for broker, found in asked.items():
            self.told.setdefault(broker, []).extend(found)
        if self.channels is not None:
            self.channels.tell(asked)

    async def register(self) -> None:
        listeners = {"INTERNAL": Endpoint(f"b{self.id}", 9092, 0)}
        data = brokers.registration(listeners, rack=None, features={}, timestamp_ms=1)
        await self.zk.create(brokers.path(self.id), data, STRICT(brokers.path(self.id)), ephemeral=True)

    async def lead(self) -> None:
        lost = asyncio.Event()
        seat = await Election(self.zk, self.id, STRICT, lambda: 1).holder(lost)
        assert seat.controller_id == self.id
        around = surroundings(self.layout, self.tell, self.publish, answers=self.answers)
        self.controller = ZooKeeperController(self.zk, seat, around)
        await self.controller.lead(self.image, lost)

    async def until(self, wanted: Callable[[MetadataImage], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not wanted(self.image):
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def nodes(zookeeper: ZooKeeper, chroot: str, *ids: int) -> AsyncIterator[list[Node]]:
    async with AsyncExitStack() as stack:
        found = []
        for n in ids:
            zk = ZooKeeperClient(zookeeper.settings(chroot=chroot))
            await zk.start()
            stack.push_async_callback(zk.close)
            found.append(Node(n, zk))
        for node in found:
            node.layout = await make_layout(node.zk, STRICT, rules=True, tokens=True)
        yield found
