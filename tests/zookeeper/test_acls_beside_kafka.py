"""Rules in ZooKeeper shared with a real broker of Apache Kafka 3.9.1: each decides by what the other has made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import confluent_kafka
import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.core.zookeeper.security import ZnodeAcls
from barnabas.core.zookeeper.znodes import acls
from barnabas.core.zookeeper.znodes.notifications import ACL_CHANGE
from barnabas.model.acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.zookeeper.acls import ZooKeeperAcls
from barnabas.server.zookeeper.reading import read_znodes
from tests.peers.eventually import eventually
from tests.peers.kafka import ADMIN, ADMIN_PASSWORD
from tests.peers.kafka_zookeeper import ZooKeeperBroker
from tests.peers.zookeeper import ZooKeeper
from tests.zookeeper.test_acls import Node, rule

pytestmark = pytest.mark.peer

CHROOT: Final = "/rules-of-kafka"
PASSWORDS: Final = {ADMIN: ADMIN_PASSWORD, "alice": "alice-pw", "bob": "bob-pw"}


@pytest.fixture(scope="module")
def broker(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperBroker]:
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    login = f'username="{ADMIN}" password="{ADMIN_PASSWORD}" {users}'
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    properties = {"listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{module} required {login};"}
    connect = f"{zookeeper.connect}{CHROOT}"
    folder = tmp_path_factory.mktemp("broker")
    with ZooKeeperBroker(folder, connect, zookeeper.client_jaas(), set_acl=True, properties=properties) as found:
        yield found


def sees(broker: ZooKeeperBroker, user: str, topic: str) -> bool:
    """Say whether the broker lets a user describe a topic."""
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": broker.bootstrap, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
        "sasl.username": user, "sasl.password": PASSWORDS[user], "group.id": "unused",
    })  # fmt: skip
    try:
        return consumer.list_topics(topic, timeout=60).topics[topic].error is None
    finally:
        consumer.close()


@pytest.mark.requirement("A-34")
async def test_rules_of_either_side_decide_on_the_other(zookeeper: ZooKeeper, broker: ZooKeeperBroker) -> None:
    async with ZooKeeperClient(zookeeper.settings(chroot=CHROOT)) as zk, Admin(broker.client_config()) as admin:
        await admin.create_topics([NewTopic("orders", 1, 1)])
        await admin.delete_acls([AclBindingFilter()])
        node = Node(zk)
        await node.start()
        try:

            async def lets(user: str, topic: str) -> bool:
                return await asyncio.to_thread(sees, broker, user, topic)

            assert not node.allows("alice")
            assert not await lets("alice", "orders")
            await admin.create_acls([rule("alice")])
            await node.until(lambda: node.allows("alice"))
            prefixed = rule("bob", ResourcePattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED))
            assert await node.acls.create([prefixed]) == [None]
            await eventually(lambda: lets("bob", "orders"), True)
            assert await lets("alice", "orders")

            # Both change the rules of one topic: neither goes by what it knew before the other did.
            assert await node.acls.create([rule("carol")]) == [None]
            await admin.create_acls([rule("dave")])
            await node.until(lambda: node.allows("dave"))
            assert node.rules == {rule("alice"), prefixed, rule("carol"), rule("dave")}
            found = await admin.describe_acls(AclBindingFilter())
            assert set(found) == node.rules

            assert await node.acls.delete([rule("alice").as_filter]) == [[rule("alice")]]
            await eventually(lambda: lets("alice", "orders"), False)
            await admin.delete_acls([AclBindingFilter()])
            await node.until(lambda: not node.rules)
            assert not node.allows("bob")
        finally:
            await node.stop()


class Shown(NamedTuple):
    """What there is of a znode for others."""

    data: bytes
    version: int
    acls: ZnodeAcls


async def shown(zk: ZooKeeperClient, before: Collection[str] = ()) -> list[tuple[str, Shown]]:
    """Give all that has to do with rules, by path. before: paths of notifications of no interest."""
    roots = (acls.LITERAL, acls.EXTENDED, acls.LITERAL_CHANGES, acls.EXTENDED_CHANGES)
    znodes = [znode for znode in await read_znodes(zk, roots) if znode.path not in before]
    found = [
        (_without_number(znode.path), Shown(_in_order(znode.data), znode.version, (await zk.acls(znode.path))[0]))
        for znode in znodes
    ]
    return sorted(found, key=lambda one: (one[0], one[1].data))  # one request's patterns come in any order


def _in_order(data: bytes) -> bytes:
    """Give the same bytes with rules in some order: Kafka's own differs from run to run."""
    start, end = data.find(b"[") + 1, data.rfind(b"]")
    return data[:start] + b"},{".join(sorted(data[start + 1 : end - 1].split(b"},{"))) + data[end:] if start else data


def _without_number(path: str) -> str:
    return path[:-10] if f"/{ACL_CHANGE}" in path else path


async def notifications(zk: ZooKeeperClient) -> list[str]:
    """Give the paths of those that there are."""
    found = await read_znodes(zk, (acls.LITERAL_CHANGES, acls.EXTENDED_CHANGES))
    return [znode.path for znode in found if ACL_CHANGE in znode.path]


@dataclass
class Sides:
    """The same steps at the real broker and at ours."""

    admin: Admin
    ours: ZooKeeperAcls

    async def create(self, *wanted: AclBinding) -> None:
        await self.admin.create_acls(list(wanted))
        assert await self.ours.create(wanted) == [None] * len(wanted)

    async def delete(self, *filters: AclBindingFilter) -> None:
        await self.admin.delete_acls(list(filters))
        await self.ours.delete(filters)


Step = Callable[[Sides], Awaitable[None]]
STAR: Final = ResourcePattern(ResourceType.TOPIC, "*")
PREFIX: Final = ResourcePattern(ResourceType.GROUP, "g-", PatternType.PREFIXED)
CLUSTER: Final = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")
STEPS: Final[Sequence[Step]] = (
    lambda sides: sides.create(rule("alice")),
    lambda sides: sides.create(rule("bob"), rule("alice", STAR), rule("User:x y", PREFIX), rule("é", PREFIX)),
    lambda sides: sides.create(rule("bob"), rule("carol", operation=AclOperation.DESCRIBE_CONFIGS)),
    lambda sides: sides.create(
        AclBinding(CLUSTER, "User:*", "10.0.0.1", AclOperation.IDEMPOTENT_WRITE, AclPermissionType.DENY)
    ),
    lambda sides: sides.create(
        *(rule("erin", ResourcePattern(kind, "a:b c"))
          for kind in (ResourceType.TRANSACTIONAL_ID, ResourceType.DELEGATION_TOKEN, ResourceType.USER))
    ),
    lambda sides: sides.create(rule("bob")),
    lambda sides: sides.delete(rule("bob").as_filter),
    lambda sides: sides.delete(rule("alice", STAR).as_filter, rule("nobody").as_filter),
    lambda sides: sides.delete(AclBindingFilter(ResourceType.GROUP, "g-1", PatternType.MATCH)),
    lambda sides: sides.create(rule("alice", STAR)),
)  # fmt: skip


@pytest.mark.requirement("A-34")
async def test_znodes_are_those_that_a_real_broker_writes_byte_for_byte(
    zookeeper: ZooKeeper, broker: ZooKeeperBroker, chroot: str
) -> None:
    theirs, mine = zookeeper.settings(chroot=CHROOT), zookeeper.settings(chroot=chroot)
    async with (
        ZooKeeperClient(theirs) as at_kafka,
        ZooKeeperClient(mine) as at_ours,
        Admin(broker.client_config()) as admin,
    ):
        node = Node(at_ours)
        await node.start()
        try:
            await admin.delete_acls([AclBindingFilter()])
            old = await notifications(at_kafka)
            sides = Sides(admin, node.acls)
            for number, step in enumerate(STEPS):
                await step(sides)
                assert await shown(at_ours) == await shown(at_kafka, old), number
        finally:
            await node.stop()
