"""A controller that keeps its cluster in a real ZooKeeper, and the next one that takes over."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType, config_record
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.core.zookeeper.paths import ROOT
from barnabas.core.zookeeper.values import Create, Delete, SetData
from barnabas.core.zookeeper.znodes.control import CONTROLLER
from barnabas.model.uuid import Uuid
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.zookeeper.reading import read_znodes
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.topic_record import TopicRecord
from tests.peers.zookeeper import ZooKeeper
from tests.zookeeper.controllers import LIMIT_S, STRICT, nodes

pytestmark = pytest.mark.peer
ORDERS = Uuid(bytes(15) + b"\x77")


def leaders(image: MetadataImage) -> dict[tuple[str, int], tuple[int, tuple[int, ...], int]]:
    return {
        (name, number): (p.leader, p.isr, p.leader_epoch)
        for name, topic in image.topics.by_name.items()
        for number, p in topic.partitions.items()
    }


def orders(image: MetadataImage) -> Decision[str]:
    """Make a topic, unless it is there."""
    if "orders" in image.topics.by_name:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS)
    partition = PartitionRecord(
        partition_id=0, topic_id=ORDERS, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=0, partition_epoch=0,
        directories=[Uuid(bytes(16))] * 2,
    )  # fmt: skip
    resource = ConfigResource(ConfigResourceType.TOPIC, "orders")
    made = (
        VersionedRecord(TopicRecord(name="orders", topic_id=ORDERS), 0), VersionedRecord(partition, 1),
        config_record(resource, "retention.ms", "5"),
    )  # fmt: skip
    return Decision(made, "made")


def test_the_next_controller_goes_on_where_the_last_one_was_cut_off(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with nodes(zookeeper, chroot, 1, 2) as [one, two], asyncio.TaskGroup() as group:
            await one.register()
            await two.register()
            first = group.create_task(one.lead())
            await one.until(lambda image: set(image.cluster.brokers) == {1, 2})
            assert one.controller is not None
            assert await one.controller.write(orders) == "made"
            with pytest.raises(ApiError, match="TOPIC_ALREADY_EXISTS"):
                await one.controller.write(orders)
            assert [type(r).__name__ for r in one.told[2][-2:]] == ["LeaderAndIsrRequest", "UpdateMetadataRequest"]
            before = one.image
            await one.zk.close()  # as by kill -9, but that its session ends at once
            await first
            assert not one.controller.is_active
            second = group.create_task(two.lead())
            await two.until(lambda image: bool(leaders(image)) and leaders(image) != leaders(before))
            assert leaders(two.image) == {("orders", 0): (2, (2,), 1)}
            assert set(two.image.cluster.brokers) == {2}
            assert two.image.configs == before.configs
            second.cancel()

    asyncio.run(run())


def test_every_znode_is_strict_and_refused_to_strangers(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with nodes(zookeeper, chroot, 1, 2) as [one, _], asyncio.TaskGroup() as group:
            await one.register()
            task = group.create_task(one.lead())
            await one.until(lambda image: 1 in image.cluster.brokers)
            assert one.controller is not None
            await one.controller.write(orders)
            async with ZooKeeperClient(zookeeper.settings("super", chroot)) as root:
                for znode in await read_znodes(root, [ROOT]):
                    acls, _ = await root.acls(znode.path)
                    wanted = tuple(str(a).replace("auth:", "sasl:kafka") for a in STRICT(znode.path))
                    assert tuple(map(str, acls)) == wanted, znode.path
            task.cancel()

    asyncio.run(run())


def test_who_has_lost_the_role_writes_nothing_and_says_so(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with nodes(zookeeper, chroot, 1, 2) as [one, two], asyncio.TaskGroup() as group:
            await one.register()
            task = group.create_task(one.lead())
            await one.until(lambda image: 1 in image.cluster.brokers)
            assert one.controller is not None
            # Replaced without having heard of it yet: in one step, as ZooKeeper shows it to nobody in between.
            async with ZooKeeperClient(zookeeper.settings("super", chroot)) as root:
                epoch = SetData("/controller_epoch", b"9")
                await root.multi([Delete(CONTROLLER), Create(CONTROLLER, b"{}", STRICT(CONTROLLER)), epoch])
            with pytest.raises(ApiError) as refused:
                await one.controller.write(orders)
            assert refused.value.code == ErrorCode.NOT_CONTROLLER
            assert await two.zk.exists("/brokers/topics/orders") is None
            await asyncio.wait([task])
            assert not one.controller.is_active

    asyncio.run(run())


def test_topics_that_are_marked_go_also_when_a_controller_was_cut_off(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with nodes(zookeeper, chroot, 1, 2) as [one, two], asyncio.TaskGroup() as group:
            await one.register()
            await two.register()
            # As a controller that was cut off leaves it,
            await two.zk.create("/config/topics/half", b'{"version":1,"config":{}}', STRICT("/config"))
            await two.zk.create("/admin/delete_topics/half", None, STRICT("/admin"))
            task = group.create_task(one.lead())
            await one.until(lambda image: set(image.cluster.brokers) == {1, 2})
            assert one.controller is not None
            await one.controller.write(orders)
            # and as an older broker asks for it.
            await two.zk.create("/admin/delete_topics/orders", None, STRICT("/admin"))
            await one.until(lambda image: not image.topics.by_name)
            for path in ("/brokers/topics/orders", "/config/topics/orders", "/config/topics/half"):
                await gone(two.zk, path)
            for name in ("orders", "half"):
                await gone(two.zk, f"/admin/delete_topics/{name}")
            assert await two.zk.exists("/brokers/topics") is not None
            task.cancel()

    asyncio.run(run())


async def gone(zk: ZooKeeperClient, path: str) -> None:
    event = asyncio.Event()
    if await zk.exists(path, lambda _: event.set()) is not None:
        async with asyncio.timeout(LIMIT_S):
            await event.wait()
