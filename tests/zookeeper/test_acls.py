"""Rules in ZooKeeper: nodes that change them at once lose none, and all of them decide by the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from barnabas.core.authorizer.standard import StandardAuthorizer
from barnabas.core.metadata.acl_changes import FilterResult
from barnabas.core.metadata.delta import MetadataDelta
from barnabas.core.zookeeper.values import OPEN_ACLS, Operation, Result, SessionState
from barnabas.core.zookeeper.znodes import acls
from barnabas.model.acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.model.principal import KafkaPrincipal
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.zookeeper.acls import ZooKeeperAcls
from barnabas.wire.errors import ApiError, ErrorCode
from tests.net.zookeeper.gate import Gate
from tests.net.zookeeper.seen import Seen
from tests.net.zookeeper.test_recovery import end_session
from tests.peers.zookeeper import ZooKeeper
from tests.zookeeper.controllers import LIMIT_S, STRICT

pytestmark = pytest.mark.peer
ORDERS = ResourcePattern(ResourceType.TOPIC, "orders")


def rule(
    user: str = "alice", pattern: ResourcePattern = ORDERS, operation: AclOperation = AclOperation.READ
) -> AclBinding:
    return AclBinding(pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


@dataclass
class Node:
    """One node that decides by the rules in ZooKeeper."""

    zk: ZooKeeperClient
    authorizer: StandardAuthorizer = field(default_factory=lambda: StandardAuthorizer(frozenset(), False))
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    deltas: list[MetadataDelta] = field(default_factory=list)

    async def start(self) -> None:
        self.acls = ZooKeeperAcls(self.zk, STRICT, lambda: int(time.time() * 1000), self.publish)
        self.task = asyncio.create_task(self.acls.run())
        async with asyncio.timeout(LIMIT_S):
            await self.acls.caught_up()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        if not self.task.cancelled():
            self.task.result()

    def publish(self, delta: MetadataDelta) -> None:
        touched = None if delta.snapshot else [acl_id for acl_id, _ in delta.acls]
        self.authorizer = self.authorizer.following(delta.after.acls.by_id, touched)
        self.deltas.append(delta)
        self.changed.set()

    @property
    def rules(self) -> set[AclBinding]:
        return set(self.acls.image.acls.ids)

    def allows(self, user: str, name: str = "orders") -> bool:
        found = self.authorizer.authorize(
            KafkaPrincipal("User", user), "10.0.0.1", AclOperation.READ, ResourceType.TOPIC, name
        )
        return found.allowed

    async def until(self, wanted: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not wanted():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def nodes(zookeeper: ZooKeeper, chroot: str, count: int) -> AsyncIterator[list[Node]]:
    found: list[Node] = []
    try:
        for _ in range(count):
            zk = ZooKeeperClient(zookeeper.settings(chroot=chroot))
            await zk.start()
            found.append(Node(zk))
            await found[-1].start()
        yield found
    finally:
        for node in found:
            await node.stop()
            await node.zk.close()


@pytest.mark.requirement("A-34")
async def test_a_rule_decides_everywhere_and_at_once_where_it_was_made(zookeeper: ZooKeeper, chroot: str) -> None:
    async with nodes(zookeeper, chroot, 2) as [one, two]:
        assert not one.allows("alice")
        assert await one.acls.create([rule()]) == [None]
        assert one.allows("alice")
        await two.until(lambda: two.allows("alice"))
        assert await two.acls.delete([rule().as_filter]) == [[rule()]]
        assert not two.allows("alice")
        await one.until(lambda: not one.allows("alice"))
        assert await one.zk.exists(acls.path(ORDERS)) is None
        # Ids are made of rules: both nodes know a rule by the same.
        prefixed = rule(pattern=ResourcePattern(ResourceType.TOPIC, "or", PatternType.PREFIXED))
        await two.acls.create([prefixed])
        await one.until(lambda: one.allows("alice"))
        assert one.acls.image.acls == two.acls.image.acls


@pytest.mark.requirement("A-34")
async def test_who_starts_later_knows_what_was_made_before(zookeeper: ZooKeeper, chroot: str) -> None:
    async with nodes(zookeeper, chroot, 1) as [one]:
        await one.acls.create([rule(), rule("bob")])
        async with nodes(zookeeper, chroot, 1) as [two]:
            assert two.rules == one.rules == {rule(), rule("bob")}


@pytest.mark.requirement("A-34")
async def test_nodes_that_change_the_rules_of_one_topic_at_once_lose_none(zookeeper: ZooKeeper, chroot: str) -> None:
    async with nodes(zookeeper, chroot, 3) as found:
        await found[0].acls.create([rule(f"old{n}") for n in range(6)])
        for node in found:
            await node.until(lambda node=node: len(node.rules) == 6)  # type: ignore[misc]

        async def work(at: int) -> None:
            node = found[at]
            for n in range(5):
                assert await node.acls.create([rule(f"new{at}-{n}")]) == [None]
            for n in (2 * at, 2 * at + 1):
                assert await node.acls.delete([rule(f"old{n}").as_filter]) == [[rule(f"old{n}")]]

        await asyncio.gather(*(work(at) for at in range(3)))
        wanted = {rule(f"new{at}-{n}") for at in range(3) for n in range(5)}
        for node in found:
            await node.until(lambda node=node: node.rules == wanted)  # type: ignore[misc]
        data, stat = await found[0].zk.get(acls.path(ORDERS))
        assert data.count(b"User:new") == 15
        assert stat.version == 3 * 7  # each change was made once, after the first


@pytest.mark.requirement("A-34")
async def test_answers_say_of_each_rule_why_not(zookeeper: ZooKeeper, chroot: str) -> None:
    async with nodes(zookeeper, chroot, 1) as [node]:
        slash = rule(pattern=ResourcePattern(ResourceType.GROUP, "a/b"))
        any_type = rule(pattern=ResourcePattern(ResourceType.ANY, "x"))
        created = await node.acls.create([rule(), slash, any_type, rule()])
        assert [None if one is None else one.code for one in created] == [
            None, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, None,
        ]  # fmt: skip
        assert node.rules == {rule()}
        bad = replace(rule().as_filter, operation=AclOperation.UNKNOWN)
        await node.acls.create([rule("bob"), rule("bob", ResourcePattern(ResourceType.GROUP, "g"))])
        bobs = AclBindingFilter(principal="User:bob")
        deleted = await node.acls.delete([bad, rule("bob").as_filter, bobs, AclBindingFilter(), slash.as_filter])
        assert _shown(deleted) == [
            "INVALID_REQUEST", [rule("bob")], [rule("bob", ResourcePattern(ResourceType.GROUP, "g"))], [rule()], [],
        ]  # fmt: skip
        assert node.rules == set()


def _shown(results: list[FilterResult]) -> list[object]:
    return [ErrorCode(one.code).name if isinstance(one, ApiError) else one for one in results]


@pytest.mark.requirement("A-34")
async def test_a_rule_that_nobody_has_told_of_is_deleted_by_its_name(zookeeper: ZooKeeper, chroot: str) -> None:
    async with nodes(zookeeper, chroot, 1) as [node]:
        await node.zk.create(acls.path(ORDERS), acls.rules([rule(), rule("bob")]), OPEN_ACLS)
        assert node.rules == set()
        assert await node.acls.delete([rule().as_filter]) == [[rule()]]
        assert node.rules == {rule("bob")}


@pytest.mark.requirement("A-34")
async def test_rules_that_cannot_be_read_are_left_as_they_are(zookeeper: ZooKeeper, chroot: str) -> None:
    async with nodes(zookeeper, chroot, 1) as [node]:
        await node.zk.create(acls.path(ORDERS), b"{", OPEN_ACLS)
        (refused,) = await node.acls.create([rule()])
        assert refused is not None
        assert (refused.code, "/kafka-acl/Topic/orders: not JSON" in str(refused.message)) == (
            ErrorCode.UNKNOWN_SERVER_ERROR, True,
        )  # fmt: skip
        (answer,) = await node.acls.delete([rule().as_filter])
        assert isinstance(answer, ApiError)
        assert (await node.zk.get(acls.path(ORDERS)))[0] == b"{"


@pytest.mark.requirement("A-34")
async def test_whoever_is_beaten_each_time_says_so(
    zookeeper: ZooKeeper, chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.server.zookeeper.acl_writer.PAUSE_S", 0.0)
    async with nodes(zookeeper, chroot, 1) as [node]:
        await node.acls.create([rule()])
        multi, tries = node.zk.multi, 0

        async def beaten(operations: Sequence[Operation]) -> list[Result]:
            nonlocal tries
            tries += 1
            await node.zk.set(acls.path(ORDERS), acls.rules([rule(f"faster{tries}")]))
            return await multi(operations)

        monkeypatch.setattr(node.zk, "multi", beaten)
        (refused,) = await node.acls.create([rule("bob")])
        assert refused is not None
        assert "in 11 tries" in str(refused.message)
        assert tries == 11
        monkeypatch.undo()
        assert await node.acls.create([rule("bob")]) == [None]
        assert node.rules == {rule("faster11"), rule("bob")}


@pytest.mark.requirement("A-34")
async def test_another_session_reads_everything_again(zookeeper: ZooKeeper, chroot: str) -> None:
    async with Gate(zookeeper.ports[0]) as gate, nodes(zookeeper, chroot, 1) as [other]:
        settings = zookeeper.settings(chroot=chroot, servers=(("127.0.0.1", gate.port),))
        async with ZooKeeperClient(settings) as zk:
            node, seen = Node(zk), Seen(zk)
            await node.start()
            await other.acls.create([rule(), rule("bob")])
            await node.until(lambda: node.allows("bob"))
            await gate.shut()
            await seen.until(SessionState.SUSPENDED)
            assert node.allows("bob")  # what it knew goes on
            await other.acls.delete([rule("bob").as_filter])
            await other.acls.create([rule("carol")])
            await end_session(zookeeper, zk)
            await gate.open()
            await node.until(lambda: node.allows("carol"))
            assert node.rules == {rule(), rule("carol")}
            assert SessionState.EXPIRED in seen.states
            await other.acls.create([rule("dave")])
            await node.until(lambda: node.allows("dave"))
            assert await node.acls.create([rule("erin")]) == [None]
            await node.stop()


@pytest.mark.requirement("A-34")
async def test_a_lost_answer_is_looked_into_and_tells_what_was_deleted(
    zookeeper: ZooKeeper, chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Gate(zookeeper.ports[0]) as gate:
        settings = zookeeper.settings(chroot=chroot, servers=(("127.0.0.1", gate.port),))
        async with ZooKeeperClient(settings) as zk, nodes(zookeeper, chroot, 1) as [other]:
            node = Node(zk)
            await node.start()
            await node.acls.create([rule(), rule("bob")])
            await other.until(lambda: other.allows("bob"))

            async def cut_once_it_is_done() -> None:
                await other.until(lambda: not other.allows("bob"))
                await gate.cut()

            wait = asyncio.create_task(cut_once_it_is_done())
            multi = zk.multi

            async def unanswered(operations: Sequence[Operation]) -> list[Result]:
                monkeypatch.undo()
                gate.keep_answers()
                return await multi(operations)

            monkeypatch.setattr(zk, "multi", unanswered)
            assert await node.acls.delete([rule("bob").as_filter]) == [[rule("bob")]]
            await wait
            assert node.rules == {rule()}
            await node.stop()


@pytest.mark.requirement("A-34")
async def test_what_was_told_long_ago_is_taken_away(zookeeper: ZooKeeper, chroot: str) -> None:
    async with nodes(zookeeper, chroot, 1) as [node]:
        await node.acls.create([rule()])
        (told,) = await node.zk.children(acls.LITERAL_CHANGES)
        gone = asyncio.Event()
        assert await node.zk.exists(f"{acls.LITERAL_CHANGES}/{told}", lambda _: gone.set()) is not None
        tomorrow = ZooKeeperAcls(node.zk, STRICT, lambda: int((time.time() + 86_400) * 1000), lambda _: None)
        task = asyncio.create_task(tomorrow.run())
        async with asyncio.timeout(LIMIT_S):
            await gone.wait()
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.requirement("A-34")
async def test_many_rules_are_made_in_one_request(zookeeper: ZooKeeper, chroot: str) -> None:
    wanted = [rule(pattern=ResourcePattern(ResourceType.TOPIC, f"t{n}")) for n in range(300)]
    async with nodes(zookeeper, chroot, 2) as [one, two]:
        assert await one.acls.create(wanted) == [None] * 300
        await two.until(lambda: len(two.rules) == 300)
        (deleted,) = await two.acls.delete([AclBindingFilter(principal="User:alice")])
        assert not isinstance(deleted, ApiError)
        assert set(deleted) == set(wanted)
        await one.until(lambda: not one.rules)
