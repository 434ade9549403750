"""What a broker tells the controller by a znode of its own."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.core.metadata.image import MetadataImage
from barnabas.core.zookeeper.paths import child
from barnabas.core.zookeeper.znodes.notifications import LOG_DIR_EVENTS, failed_broker
from barnabas.core.zookeeper.znodes.znode import Znode
from barnabas.net.clock import SystemClock
from barnabas.server.config import NodeConfig
from barnabas.server.forwarding.controller_channel import ControllerChannel
from barnabas.server.zookeeper.lifecycle import ZooKeeperLifecycle
from barnabas.server.zookeeper.metadata import ZooKeeperMetadata
from tests.peers.eventually import eventually
from tests.peers.zookeeper import ZooKeeper
from tests.zookeeper.controllers import STORED, STRICT, Node, nodes, surroundings

pytestmark = pytest.mark.peer


def lifecycle_of(node: Node) -> ZooKeeperLifecycle:
    """Give the life of a broker of which one log directory has failed."""

    def nowhere() -> ControllerChannel:
        raise AssertionError("the controller is told by a znode")

    async def never() -> MetadataImage:
        raise AssertionError("nothing is waited for")

    return ZooKeeperLifecycle(
        NodeConfig.parse({"broker.id": str(node.id), "zookeeper.connect": "127.0.0.1:1"}),
        SystemClock(),
        node.zk,
        ZooKeeperMetadata(node.zk, node.id, surroundings(node.layout, node.tell, node.publish), lambda: 1),
        nowhere,
        acls_for=STRICT,
        image=lambda: node.image,
        next_image=never,
        failed_directories=lambda: 1,
        stop_following=lambda: None,
    )


@pytest.mark.requirement("Z-05", "Z-06")
def test_a_log_directory_that_has_failed_is_told_once_and_by_nobody_else(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with nodes(zookeeper, chroot, 7) as [node]:
            lifecycle = lifecycle_of(node)
            task = asyncio.create_task(lifecycle.run())

            async def told() -> int:
                lifecycle.hurry()
                return len(await node.zk.children(LOG_DIR_EVENTS))

            await eventually(told, 1)
            assert await told() == 1
            (name,) = await node.zk.children(LOG_DIR_EVENTS)
            path = child(LOG_DIR_EVENTS, name)
            assert failed_broker(Znode(path, (await node.zk.get(path))[0])) == 7
            assert (await node.zk.acls(path))[0] == STORED
            task.cancel()

    asyncio.run(run())
