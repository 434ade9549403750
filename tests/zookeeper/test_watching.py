"""What a controller notices at a real ZooKeeper that others have written: topics, ISRs, and what tools ask for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

import pytest

from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.partition import PartitionRegistration
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.core.zookeeper.control_requests import ControlRequest
from barnabas.core.zookeeper.membership import complete_reassignments
from barnabas.core.zookeeper.znodes import configs, control, notifications, topics
from barnabas.core.zookeeper.znodes.admin import ELECTIONS, REASSIGNMENTS
from barnabas.core.zookeeper.znodes.brokers import path as broker_path
from barnabas.core.zookeeper.znodes.control import CONTROLLER
from barnabas.core.zookeeper.znodes.znode import Znode
from barnabas.model.topic_partition import TopicPartition
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from barnabas.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest
from barnabas.wire.records.partition_change_record import PartitionChangeRecord
from barnabas.wire.records.remove_topic_record import RemoveTopicRecord
from tests.core.metadata.clusters import SCHEMA
from tests.peers.zookeeper import ZooKeeper
from tests.zookeeper.controllers import LIMIT_S, STORED, STRICT, Node, nodes

pytestmark = pytest.mark.peer
ORDERS = TopicPartition("orders", 0)
Before = Callable[[Node], Awaitable[None]]


@asynccontextmanager
async def leading(
    zookeeper: ZooKeeper, chroot: str, before: Before | None = None, *, answers: bool = False
) -> AsyncIterator[tuple[Node, Node, Node]]:
    """Give three brokers that are there, of which the first one leads. before: done when it does not lead yet."""
    async with nodes(zookeeper, chroot, 1, 2, 3) as [one, two, three]:
        for node in (one, two, three):
            node.answers = answers
            await node.register()
        if before is not None:
            await before(two)
        task = asyncio.create_task(one.lead())
        await one.until(lambda image: set(image.cluster.brokers) == {1, 2, 3})
        yield one, two, three
        if control.controller_id(Znode(CONTROLLER, (await two.zk.get(CONTROLLER))[0])) == one.id:
            assert not task.done(), "it has given up its role"
        task.cancel()
        await asyncio.wait([task])


async def made(node: Node, partitions: Mapping[int, Sequence[int]], name: str = "orders") -> None:
    """Make a topic by its znode alone, as tools and brokers of before 2.8 do."""
    data = {"version": 1, "partitions": {str(number): list(replicas) for number, replicas in partitions.items()}}
    path = topics.topic_path(name)
    await node.zk.create(path, json.dumps(data).encode(), STRICT(path))


async def asked(node: Node, path: str, *rows: Mapping[str, object]) -> None:
    await node.zk.create(path, json.dumps({"version": 1, "partitions": list(rows)}).encode(), STRICT(path))


async def state(node: Node, partition: TopicPartition) -> tuple[dict[str, object], int]:
    data, stat = await node.zk.get(topics.state_path(*partition))
    return json.loads(data), stat.version


def led_by(image: MetadataImage, partition: TopicPartition = ORDERS) -> int | None:
    found = image.topics.partition(*partition)
    return None if found is None or found.leader < 0 else found.leader


async def gone(node: Node, path: str) -> None:
    """Wait until a znode is not there."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            event = asyncio.Event()
            if await node.zk.exists(path, lambda _, event=event: event.set()) is None:  # type: ignore[misc]
                return
            await event.wait()


def partition_of(node: Node, partition: TopicPartition = ORDERS) -> PartitionRegistration:
    found = node.image.topics.partition(*partition)
    assert found is not None
    return found


def told(node: Node, broker: int, kind: type[ControlRequest]) -> list[tuple[str, int, int, bool]]:
    """Give what a broker has heard in requests of a kind: topic, partition, leader, and whether it is new."""
    return [
        (topic.topic_name, one.partition_index, one.leader, getattr(one, "is_new", False))
        for request in node.told.get(broker, [])
        if isinstance(request, kind) and isinstance(request, LeaderAndIsrRequest | UpdateMetadataRequest)
        for topic in request.topic_states
        for one in topic.partition_states
    ]


# -- topics


def test_a_topic_that_is_made_by_its_znode_gets_an_id_and_leaders(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with leading(zookeeper, chroot) as (one, two, _):
            path = configs.path(ConfigResource(ConfigResourceType.TOPIC, "orders"))
            await two.zk.create(path, b'{"version":1,"config":{"retention.ms":"5"}}', STRICT(path))
            await made(two, {0: [2, 3], 1: [3, 1]})
            await one.until(lambda image: led_by(image, TopicPartition("orders", 1)) == 3)
            assert led_by(one.image) == 2
            resource = ConfigResource(ConfigResourceType.TOPIC, "orders")
            assert dict(one.image.configs.get(resource)) == {"retention.ms": "5"}
            written = json.loads((await two.zk.get(topics.topic_path("orders")))[0])
            assert written == {
                "version": 3, "topic_id": str(one.image.topics.by_name["orders"].id), "adding_replicas": {},
                "removing_replicas": {}, "partitions": {"0": [2, 3], "1": [3, 1]},
            }  # fmt: skip
            assert await state(two, ORDERS) == (
                {"controller_epoch": 1, "leader": 2, "version": 1, "leader_epoch": 0, "isr": [2, 3]}, 0
            )  # fmt: skip
            # Each replica hears of it once, with its leader, and that it is new.
            assert told(one, 2, LeaderAndIsrRequest) == [("orders", 0, 2, True)]
            assert told(one, 1, LeaderAndIsrRequest) == [("orders", 1, 3, True)]
            assert told(one, 1, UpdateMetadataRequest) == [("orders", 0, 2, False), ("orders", 1, 3, False)]
            # Its configs are those that were there: nobody wrote them again.
            assert (await two.zk.exists(path)).version == 0  # type: ignore[union-attr]

    asyncio.run(run())


def test_partitions_that_are_added_by_the_topics_znode_get_leaders(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with leading(zookeeper, chroot) as (one, two, _):
            await made(two, {0: [1, 2]})
            await one.until(lambda image: led_by(image) == 1)
            for more in (1, 2):  # a watch is for one time: twice
                data = json.loads((await two.zk.get(topics.topic_path("orders")))[0])
                data["partitions"][str(more)] = [3]
                await two.zk.set(topics.topic_path("orders"), json.dumps(data).encode())
                added = TopicPartition("orders", more)
                await one.until(lambda image, added=added: led_by(image, added) == 3)  # type: ignore[misc]
                assert (await state(two, added))[0]["isr"] == [3]
            assert partition_of(one).leader_epoch == 0

    asyncio.run(run())


def test_a_topic_whose_brokers_are_all_down_gets_its_leader_when_one_comes(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with leading(zookeeper, chroot) as (one, two, three):
            await three.zk.delete(broker_path(3))
            await one.until(lambda image: set(image.cluster.brokers) == {1, 2})
            await made(two, {0: [3]})
            await one.until(lambda image: "orders" in image.topics.by_name)
            assert await two.zk.exists(topics.state_path(*ORDERS)) is None
            assert told(one, 1, UpdateMetadataRequest) == []
            await three.register()
            await one.until(lambda image: led_by(image) == 3)

    asyncio.run(run())


def test_a_topic_without_an_id_keeps_the_one_that_the_first_controller_gives(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async def one_made(node: Node) -> None:
            await made(node, {0: [2]})

        async with leading(zookeeper, chroot, one_made) as (one, two, three):
            await one.until(lambda image: led_by(image) == 2)
            given = one.image.topics.by_name["orders"].id
            await two.zk.delete(CONTROLLER)
            task = asyncio.create_task(three.lead())
            await three.until(lambda image: led_by(image) == 2)
            assert three.image.topics.by_name["orders"].id == given
            task.cancel()

    asyncio.run(run())


def test_many_topics_cost_a_read_each_and_own_ones_nothing_else(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async def many(node: Node) -> None:
            await asyncio.gather(*(made(node, {0: [1 + n % 3]}, f"topic-{n}") for n in range(300)))

        async with leading(zookeeper, chroot, many) as (one, two, _):
            await one.until(lambda image: led_by(image, TopicPartition("topic-299", 0)) is not None)
            await made(two, {0: [1, 2]})
            await one.until(lambda image: led_by(image) == 1)
            assert len(one.image.topics.by_name) == 301

    asyncio.run(run())


# -- what brokers tell


def test_isrs_that_brokers_write_themselves_are_learnt_and_told(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with leading(zookeeper, chroot) as (one, two, _):
            await made(two, {0: [2, 3], 1: [3]})
            await one.until(lambda image: led_by(image) == 2)
            found, version = await state(two, ORDERS)
            await two.zk.set(topics.state_path(*ORDERS), json.dumps(found | {"isr": [2]}).encode(), version)
            one.told.clear()
            change = notifications.isr_change([ORDERS, TopicPartition("gone", 7)])
            path = await two.zk.create(notifications.ISR_CHANGE, change, STRICT("/x"), sequential=True)
            await one.until(lambda image: image.topics.partition(*ORDERS).isr == (2,))  # type: ignore[union-attr]
            assert partition_of(one).partition_epoch == 1
            await gone(two, path)
            assert told(one, 1, UpdateMetadataRequest) == [("orders", 0, 2, False)]
            # What is known of it is right: the next decision is written upon it.
            change_record = PartitionChangeRecord(
                partition_id=0, topic_id=one.image.topics.by_name["orders"].id, isr=[2, 3]
            )
            assert one.controller is not None
            await one.controller.write(lambda image: Decision((VersionedRecord(change_record, 1),), None))
            assert (await state(two, ORDERS))[1] == 2

    asyncio.run(run())


def test_a_broker_that_has_lost_a_disk_is_asked_and_loses_what_it_cannot_reach(
    zookeeper: ZooKeeper, chroot: str
) -> None:
    async def run() -> None:
        async with leading(zookeeper, chroot) as (one, two, _):
            await made(two, {0: [2, 3], 1: [2, 3]})
            await one.until(lambda image: led_by(image, TopicPartition("orders", 1)) == 2)
            one.told.clear()
            failed = notifications.log_dir_failed(2)
            path = await two.zk.create(notifications.LOG_DIR_EVENT, failed, STRICT("/x"), sequential=True)
            await gone(two, path)
            assert told(one, 2, LeaderAndIsrRequest) == [("orders", 0, 2, False), ("orders", 1, 2, False)]
            assert set(one.told) == {2}
            error = LeaderAndIsrPartitionError(partition_index=1, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
            topic_id = one.image.topics.by_name["orders"].id
            answer = LeaderAndIsrResponse(topics=[LeaderAndIsrTopicError(topic_id=topic_id, partition_errors=[error])])
            assert one.controller is not None
            one.controller.answered(2, one.told[2][0], answer)
            await one.until(lambda image: led_by(image, TopicPartition("orders", 1)) == 3)
            assert partition_of(one, TopicPartition("orders", 1)).isr == (3,)
            assert led_by(one.image) == 2

    asyncio.run(run())


# -- what tools ask for


def test_a_reassignment_that_a_tool_asks_for_is_done_and_taken_out(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with leading(zookeeper, chroot) as (one, two, _):
            await made(two, {0: [1], 1: [2]})
            await one.until(lambda image: led_by(image) == 1)
            await asked(
                two, REASSIGNMENTS,
                {"topic": "orders", "partition": 0, "replicas": [2, 3]},
                {"topic": "orders", "partition": 1, "replicas": [3]},
                {"topic": "none", "partition": 0, "replicas": [3]},
            )  # fmt: skip
            second = TopicPartition("orders", 1)
            await one.until(lambda image: image.topics.partition(*second).reassigning)  # type: ignore[union-attr]
            assert partition_of(one).adding_replicas == (2, 3)
            assert ("orders", 0, 1, True) in told(one, 3, LeaderAndIsrRequest)
            await in_sync(one, 1, [2, 3])
            assert partition_of(one, second).replicas == (3,)
            await until_asked(two, [{"topic": "orders", "partition": 0, "replicas": [2, 3]}])
            await in_sync(one, 0, [1, 2, 3])
            await gone(two, REASSIGNMENTS)
            assert (partition_of(one).replicas, partition_of(one).leader) == ((2, 3), 2)
            # and another one afterwards
            await asked(two, REASSIGNMENTS, {"topic": "orders", "partition": 1, "replicas": [1, 3]})
            await one.until(
                lambda image: image.topics.partition(*second).adding_replicas == (1,)  # type: ignore[union-attr]
            )

    asyncio.run(run())


async def in_sync(node: Node, partition: int, isr: list[int]) -> None:
    """Have the ISR grow as the leader would, and the reassignment end by it."""
    change = PartitionChangeRecord(partition_id=partition, topic_id=node.image.topics.by_name["orders"].id, isr=isr)
    assert node.controller is not None
    await node.controller.write(lambda image: Decision((VersionedRecord(change, 1),), None))
    await node.controller.write(partial(complete_reassignments, schema=SCHEMA))


async def until_asked(node: Node, rows: list[dict[str, object]]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while True:
            event = asyncio.Event()
            data, _ = await node.zk.get(REASSIGNMENTS, lambda _, event=event: event.set())  # type: ignore[misc]
            if json.loads(data) == {"version": 1, "partitions": rows}:
                return
            await event.wait()


def test_what_tools_asked_for_while_nobody_led_is_done_then(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async def before(node: Node) -> None:
            await made(node, {0: [1]})
            await asked(node, REASSIGNMENTS, {"topic": "orders", "partition": 0, "replicas": [2]})
            await asked(node, ELECTIONS, {"topic": "orders", "partition": 0})

        async with leading(zookeeper, chroot, before) as (one, two, _):
            await one.until(
                lambda image: (p := image.topics.partition(*ORDERS)) is not None and p.adding_replicas == (2,)
            )
            await gone(two, ELECTIONS)

    asyncio.run(run())


@pytest.mark.parametrize("data", [b"{", b'{"version":1,"partitions":[{"topic":"orders"}]}'])
def test_what_nobody_can_read_ends_nothing(zookeeper: ZooKeeper, chroot: str, data: bytes) -> None:
    async def run() -> None:
        async with leading(zookeeper, chroot) as (one, two, _):
            await two.zk.create(REASSIGNMENTS, data, STRICT(REASSIGNMENTS))
            await two.zk.create(ELECTIONS, data, STRICT(ELECTIONS))
            await two.zk.create(topics.topic_path("bad"), data, STRICT("/x"))
            event = await two.zk.create(notifications.ISR_CHANGE, data, STRICT("/x"), sequential=True)
            disk = await two.zk.create(notifications.LOG_DIR_EVENT, data, STRICT("/x"), sequential=True)
            for path in (ELECTIONS, event, disk):
                await gone(two, path)
            await two.zk.delete(REASSIGNMENTS)
            await made(two, {0: [1]})
            await one.until(lambda image: led_by(image) == 1)
            await asked(two, REASSIGNMENTS, {"topic": "orders", "partition": 0, "replicas": [2]})
            await one.until(lambda image: image.topics.partition(*ORDERS).adding_replicas == (2,))  # type: ignore[union-attr]

    asyncio.run(run())


def test_a_preferred_election_that_a_tool_asks_for_is_held_once(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with leading(zookeeper, chroot) as (one, two, three):
            await made(two, {0: [3, 2]})
            await one.until(lambda image: led_by(image) == 3)
            await three.zk.delete(broker_path(3))
            await one.until(lambda image: led_by(image) == 2)
            await three.register()
            await one.until(lambda image: set(image.cluster.brokers) == {1, 2, 3})
            change = PartitionChangeRecord(partition_id=0, topic_id=one.image.topics.by_name["orders"].id, isr=[2, 3])
            assert one.controller is not None
            await one.controller.write(lambda image: Decision((VersionedRecord(change, 1),), None))
            assert led_by(one.image) == 2
            await asked(two, ELECTIONS, {"topic": "orders", "partition": 0}, {"topic": "none", "partition": 0})
            await one.until(lambda image: led_by(image) == 3)
            await gone(two, ELECTIONS)

    asyncio.run(run())


# -- deletions


@pytest.mark.requirement("Z-05", "Z-06")
def test_a_topic_goes_when_its_last_replica_does_and_its_name_is_free_then(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with leading(zookeeper, chroot) as (one, two, three):
            await made(two, {0: [2, 3]})
            await one.until(lambda image: led_by(image) == 2)
            await three.zk.delete(broker_path(3))
            await one.until(lambda image: set(image.cluster.brokers) == {1, 2})
            topic = one.image.topics.by_name["orders"]
            assert one.controller is not None
            remove = Decision((VersionedRecord(RemoveTopicRecord(topic_id=topic.id), 0),), None)
            await one.controller.write(lambda image: remove)
            assert "orders" not in one.image.topics.by_name
            assert (await two.zk.acls(topics.deletion_path("orders")))[0] == STORED
            assert await two.zk.exists(topics.state_path(*ORDERS)) is not None
            again = [
                VersionedRecord(record, version)
                for record, version in topics.records(await znode_of(two), topic.id, {})
            ]
            with pytest.raises(ApiError) as refused:
                await one.controller.write(lambda image: Decision(tuple(again), None))
            assert refused.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
            # The next controller goes on with it,
            await two.zk.delete(CONTROLLER)
            task = asyncio.create_task(two.lead())
            await two.until(lambda image: set(image.cluster.brokers) == {1, 2})
            assert "orders" not in two.image.topics.by_name
            assert stopped(two, 2) == [("orders", 0)]
            # and tells who comes back.
            await three.register()
            await gone(two, topics.deletion_path("orders"))
            assert stopped(two, 3) == [("orders", 0)]
            assert await two.zk.exists(topics.topic_path("orders")) is None
            assert two.controller is not None
            await two.controller.write(lambda image: Decision(tuple(again), None))
            task.cancel()

    asyncio.run(run())


async def znode_of(node: Node) -> Znode:
    data, _ = await node.zk.get(topics.topic_path("orders"))
    return Znode(topics.topic_path("orders"), data)


def stopped(node: Node, broker: int) -> list[tuple[str, int]]:
    return [
        (topic.topic_name, one.partition_index)
        for request in node.told.get(broker, [])
        if isinstance(request, StopReplicaRequest)
        for topic in request.topic_states
        for one in topic.partition_states
        if one.delete_partition
    ]


def test_a_topic_goes_only_when_every_broker_has_answered_that_its_log_is_gone(
    zookeeper: ZooKeeper, chroot: str
) -> None:
    async def run() -> None:
        async with leading(zookeeper, chroot, answers=True) as (one, two, three):
            await made(two, {0: [2, 3], 1: [3]})
            await one.until(lambda image: led_by(image) == 2)
            topic = one.image.topics.by_name["orders"]
            remove = Decision((VersionedRecord(RemoveTopicRecord(topic_id=topic.id), 0),), None)
            assert one.controller is not None
            await one.controller.write(lambda image: remove)
            (ask_two,) = stops(one, 2)
            (ask_three,) = stops(one, 3)
            one.controller.answered(2, ask_two, StopReplicaResponse())
            failed = StopReplicaPartitionError(
                topic_name="orders", partition_index=1, error_code=ErrorCode.KAFKA_STORAGE_ERROR
            )
            one.controller.answered(3, ask_three, StopReplicaResponse(partition_errors=[failed]))
            one.controller.answered(3, ask_three, StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
            assert one.controller.is_going("orders")
            # It is told again when it comes back, with a disk that works.
            one.told.clear()
            await three.zk.delete(broker_path(3))
            await one.until(lambda image: set(image.cluster.brokers) == {1, 2})
            await three.register()
            await one.until(lambda image: set(image.cluster.brokers) == {1, 2, 3})
            assert await two.zk.exists(topics.topic_path("orders")) is not None
            (again,) = stops(one, 3)
            one.controller.answered(3, again, StopReplicaResponse())
            await gone(two, topics.deletion_path("orders"))
            assert await two.zk.exists(topics.topic_path("orders")) is None

    asyncio.run(run())


def stops(node: Node, broker: int) -> list[StopReplicaRequest]:
    return [request for request in node.told.get(broker, []) if isinstance(request, StopReplicaRequest)]
