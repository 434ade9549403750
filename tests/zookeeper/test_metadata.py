"""Brokers of a cluster in ZooKeeper mode know the same, whoever of them is the controller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from barnabas.core.metadata.acls import acl_record
from barnabas.core.metadata.cluster import Endpoint
from barnabas.core.metadata.configs import CLUSTER_DEFAULT, ConfigResource, ConfigResourceType, config_record
from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.quotas import USER, entity_of, quota_record
from barnabas.core.metadata.scram import ScramCredential, ScramMechanism, credential_record
from barnabas.core.metadata.tokens import DelegationToken, token_record
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.core.zookeeper.control_requests import ControlRequest
from barnabas.core.zookeeper.znodes import acls, brokers, configs, notifications
from barnabas.core.zookeeper.znodes.configs import properties
from barnabas.core.zookeeper.znodes.topics import state_path
from barnabas.model.acl import AclBinding, AclOperation, AclPermissionType, ResourcePattern, ResourceType
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.uuid import Uuid
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.zookeeper.layout import make_layout
from barnabas.server.zookeeper.metadata import ZooKeeperMetadata
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.records.partition_change_record import PartitionChangeRecord
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from barnabas.wire.records.topic_record import TopicRecord
from tests.peers.zookeeper import ZooKeeper
from tests.zookeeper.controllers import LIMIT_S, STRICT, surroundings

pytestmark = pytest.mark.peer
RULE = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "orders"), "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW
)
ORDERS = ConfigResource(ConfigResourceType.TOPIC, "orders")


@dataclass
class Broker:
    """One broker; what it tells others reaches them at once."""

    id: int
    zk: ZooKeeperClient
    others: dict[int, Broker]
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    telling: list[asyncio.Task[None]] = field(default_factory=list)

    async def start(self) -> None:
        layout = await make_layout(self.zk, STRICT, rules=True, tokens=True)
        around = surroundings(layout, self.tell, self.published)
        self.metadata = ZooKeeperMetadata(self.zk, self.id, around, lambda: 1)
        self.task = asyncio.create_task(self.metadata.run())
        await self.metadata.caught_up()
        listeners = {"INTERNAL": Endpoint(f"b{self.id}", 9092, 0)}
        await self.metadata.register(lambda: brokers.registration(listeners, rack=None, features={}, timestamp_ms=1))

    async def stop(self) -> None:
        await self.metadata.stop()
        await self.zk.close()

    def published(self, delta: MetadataDelta) -> None:
        self.changed.set()

    def tell(self, asked: Mapping[int, Sequence[ControlRequest]]) -> None:
        for broker_id, requests in asked.items():
            other = self.others.get(broker_id)
            if other is not None and other is not self:
                for request in requests:
                    self.telling.append(asyncio.create_task(other.metadata.hear(request)))

    async def until(self, wanted: Callable[[MetadataImage], bool]) -> MetadataImage:
        async with asyncio.timeout(LIMIT_S):
            while not wanted(self.metadata.committed_image):
                self.changed.clear()
                await self.changed.wait()
        return self.metadata.committed_image


@asynccontextmanager
async def cluster(zookeeper: ZooKeeper, chroot: str, *ids: int) -> AsyncIterator[dict[int, Broker]]:
    async with AsyncExitStack() as stack:
        found: dict[int, Broker] = {}
        for n in ids:
            zk = ZooKeeperClient(replace(zookeeper.settings(chroot=chroot), session_timeout_ms=30_000))
            await zk.start()
            found[n] = Broker(n, zk, found)
            await found[n].start()
            stack.push_async_callback(found[n].stop)
        yield found


async def controller_of(found: Mapping[int, Broker]) -> Broker:
    async with asyncio.timeout(LIMIT_S):
        while True:
            for broker in found.values():
                if broker.metadata.is_active and set(broker.metadata.committed_image.cluster.brokers) == set(found):
                    return broker
            waits = [asyncio.create_task(b.changed.wait()) for b in found.values()]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for broker in found.values():
                broker.changed.clear()
            for wait in waits:
                wait.cancel()


def shown(image: MetadataImage) -> object:
    """Give what all brokers are to know alike: their own epochs and features come to the controller alone."""
    known = {i: (b.listeners, b.rack) for i, b in image.cluster.brokers.items()}
    return known, image.topics, image.configs, image.client_quotas, image.acls, image.scram, image.tokens


def everything(image: MetadataImage) -> Decision[None]:
    topic_id = Uuid(bytes(15) + b"\x77")
    partition = PartitionRecord(
        partition_id=0, topic_id=topic_id, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=0, partition_epoch=0,
        directories=[Uuid(bytes(16))] * 2,
    )  # fmt: skip
    alice = KafkaPrincipal("User", "alice")
    return Decision(
        (
            VersionedRecord(TopicRecord(name="orders", topic_id=topic_id), 0),
            VersionedRecord(partition, 1),
            config_record(CLUSTER_DEFAULT, "log.cleaner.threads", "2"),
            quota_record(entity_of({USER: "bob"}), "producer_byte_rate", 5.0),
            credential_record(ScramMechanism.SCRAM_SHA_256, "bob", ScramCredential(b"a", b"b", b"c", 4096)),
            acl_record(acls.rule_id(RULE), RULE),
            token_record(DelegationToken("t1", alice, alice, (), 1, 3, 2)),
        ),
        None,
    )


def test_all_brokers_know_what_the_controller_decides(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with cluster(zookeeper, chroot, 1, 2) as found:
            leader = await controller_of(found)
            (other,) = [b for b in found.values() if b is not leader]
            await leader.metadata.write(everything)
            await other.until(lambda image: shown(image) == shown(leader.metadata.committed_image))
            assert leader.metadata.committed_image.topics.by_name
            assert other.metadata.committed_image.tokens.by_id
            without = (
                config_record(CLUSTER_DEFAULT, "log.cleaner.threads", None),
                VersionedRecord(RemoveAccessControlEntryRecord(id=acls.rule_id(RULE)), 0),
                quota_record(entity_of({USER: "bob"}), "producer_byte_rate", None),
            )
            await leader.metadata.write(lambda image: Decision(without, None))
            await other.until(lambda image: shown(image) == shown(leader.metadata.committed_image))
            assert not other.metadata.committed_image.acls.by_id

    asyncio.run(run())


def test_the_other_broker_takes_over_with_the_same_metadata(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with cluster(zookeeper, chroot, 1, 2) as found:
            leader = await controller_of(found)
            await leader.metadata.write(everything)
            before = leader.metadata.committed_image
            del found[leader.id]
            await leader.stop()
            other = await controller_of(found)
            after = await other.until(lambda image: partition_leader(image) == other.id)
            assert (after.configs, after.acls, after.scram) == (before.configs, before.acls, before.scram)
            assert other.metadata.seat is not None
            assert other.metadata.seat.epoch == 2

    asyncio.run(run())


def partition_leader(image: MetadataImage) -> int | None:
    partition = image.topics.partition("orders", 0)
    return None if partition is None else partition.leader


def test_what_others_write_is_learnt_by_all(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with cluster(zookeeper, chroot, 1, 2) as found:
            leader = await controller_of(found)
            async with ZooKeeperClient(zookeeper.settings(chroot=chroot)) as tool:
                path = configs.path(ORDERS)
                await tool.create(path, properties({"retention.ms": "7"}), STRICT(path))
                told = notifications.config_change(configs.entity_path(ORDERS))
                await tool.create(notifications.CONFIG_CHANGE, told, STRICT("/config/changes"), sequential=True)
            for broker in found.values():
                await broker.until(lambda image: image.configs.get(ORDERS).get("retention.ms") == "7")
            change = config_record(ORDERS, "retention.ms", "8")
            await leader.metadata.write(lambda image: Decision((change,), None))
            for broker in found.values():
                await broker.until(lambda image: image.configs.get(ORDERS).get("retention.ms") == "8")

    asyncio.run(run())


def test_a_controller_whose_change_is_refused_begins_anew_in_another_epoch(zookeeper: ZooKeeper, chroot: str) -> None:
    async def run() -> None:
        async with cluster(zookeeper, chroot, 1) as found:
            (leader,) = [await controller_of(found)]
            await leader.metadata.write(everything)
            path = state_path("orders", 0)
            async with ZooKeeperClient(zookeeper.settings(chroot=chroot)) as tool:
                data, _ = await tool.get(path)
                await tool.set(path, data)  # nobody but the controller does: what it knows is wrong from here on
            change = PartitionChangeRecord(topic_id=Uuid(bytes(15) + b"\x77"), partition_id=0, isr=[1], leader=1)

            def shrink(image: MetadataImage) -> Decision[None]:
                return Decision((VersionedRecord(change, 1),), None)

            with pytest.raises(ApiError) as refused:
                await leader.metadata.write(shrink)
            assert refused.value.code == ErrorCode.NOT_CONTROLLER
            again = await controller_of(found)
            while again.metadata.seat is None or again.metadata.seat.epoch == 1:
                again.changed.clear()
                await asyncio.wait_for(again.changed.wait(), LIMIT_S)
                again = await controller_of(found)
            assert again.metadata.seat.epoch == 2
            await again.metadata.write(shrink)
            assert (await again.zk.get("/controller_epoch"))[0] == b"2"

    asyncio.run(run())


async def test_who_has_lost_the_role_takes_it_again(zookeeper: ZooKeeper, chroot: str) -> None:
    async with cluster(zookeeper, chroot, 1) as found:
        broker = await controller_of(found)
        for epoch in (2, 3, 4):
            await broker.zk.delete("/controller")
            async with asyncio.timeout(LIMIT_S):
                while broker.metadata.seat is None or broker.metadata.seat.epoch < epoch:
                    await broker.metadata.controller_changed()
            assert await controller_of(found) is broker
