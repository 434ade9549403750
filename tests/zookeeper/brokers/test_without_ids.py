"""A broker of Apache Kafka 3.9.1 and one of ours that have no ids and delete no topics: each leads for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.core.zookeeper.security import acls_for
from barnabas.core.zookeeper.znodes.topics import DELETIONS, TOPICS, deletion_path
from barnabas.model.config import parse_properties
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.zookeeper.layout import SEQUENCE
from barnabas.storage.meta_properties import FILE_NAME
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from tests.peers.eventually import eventually
from tests.peers.kafka import ADMIN, ADMIN_PASSWORD
from tests.peers.kafka_zookeeper import NOBODY, NOBODY_PASSWORD, ZooKeeperBroker
from tests.peers.zookeeper import ZooKeeper
from tests.server.frames import FramePeer
from tests.server.requests import build

from .test_starting import file_of, refusal

pytestmark = [pytest.mark.peer, pytest.mark.cluster]

T = TypeVar("T")
CHROOT: Final = "/without-ids"
WITHOUT: Final = {"broker.id": "-1", "delete.topic.enable": "false"}
WAIT_S: Final = 60
ORDERS: Final = "orders"
UP, SAFE, UNSAFE, UNKNOWN = 1, 2, 3, 9


@dataclass
class Seen:
    """What was seen of the two. answers: of the controller, by who it was; ids: those that were registered, in turn;
    kept: what meta.properties says of both; given: how many ids ZooKeeper gave; refused: a start as another broker."""

    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    stayed: dict[str, list[str]] = field(default_factory=dict)
    ids: list[list[str]] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    given: int = 0
    refused: str = ""


@dataclass
class Pair:
    """The two brokers, and their ZooKeeper."""

    zookeeper: ZooKeeper
    theirs: ZooKeeperBroker
    ours: ZooKeeperBroker

    def ask(self, work: Callable[[ZooKeeperClient], Awaitable[T]]) -> T:
        """Do something at ZooKeeper as the brokers do."""

        async def asked() -> T:
            async with ZooKeeperClient(self.zookeeper.settings("kafka", CHROOT)) as zk:
                return await work(zk)

        return asyncio.run(asked())

    def registered(self) -> list[str]:
        """Give the ids of the brokers that are there."""
        return sorted(self.ask(lambda zk: zk.children("/brokers/ids")))

    def mark(self) -> None:
        """Ask for the end of a topic, and of one that is not there, as tools of old did."""

        async def run(zk: ZooKeeperClient) -> None:
            for name in (ORDERS, "none"):
                await zk.create(deletion_path(name), None, acls_for(DELETIONS, secure=True))

        self.ask(run)

    def topics_once_unmarked(self) -> list[str]:
        """Wait until the controller has taken the marks away, and give the topics that there are."""

        async def run(zk: ZooKeeperClient) -> list[str]:
            await eventually(lambda: zk.children(DELETIONS), [], WAIT_S)
            return list(await zk.children(TOPICS))

        return self.ask(run)


@pytest.fixture(scope="module")
def seen(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """Give what was seen while each of the two was the controller, and when ours ran on the other's directory."""
    folder, jaas, connect = tmp_path_factory.mktemp("without-ids"), zookeeper.client_jaas(), zookeeper.connect + CHROOT
    theirs, ours = (
        ZooKeeperBroker(folder / str(number), connect, jaas, True, number, dict(WITHOUT), ours=number == 1002)
        for number in (1001, 1002)
    )
    pair, found = Pair(zookeeper, theirs, ours), Seen()
    try:
        theirs.start()
        asyncio.run(make_topic(theirs))
        found.answers["theirs"] = answers(theirs)
        pair.mark()
        found.stayed["theirs"] = pair.topics_once_unmarked()
        ours.start()
        found.ids.append(pair.registered())
        theirs.stop()
        asyncio.run(leads(ours))
        found.answers["ours"] = answers(ours)
        pair.mark()
        found.stayed["ours"] = pair.topics_once_unmarked()
        ours.stop()
        found.kept = [parse_properties((b.files.data / FILE_NAME).read_text())["broker.id"] for b in (theirs, ours)]
        found.refused = refusal(start_as(folder, connect, ours, "5"), jaas)
        pair.mark()
        theirs.ours = True
        theirs.start()  # it is the controller at once, with the marks there already
        found.stayed["ours at its start"] = pair.topics_once_unmarked()
        found.ids.append(pair.registered())
        asyncio.run(serves(theirs))
        found.given = asyncio.run(_version(zookeeper))
        yield found
    finally:
        for one in (theirs, ours):
            one.stop(kill=True)


async def make_topic(broker: ZooKeeperBroker) -> None:
    async with Admin(broker.client_config()) as admin:
        assert await admin.create_topics([NewTopic(ORDERS, assignments={0: [broker.broker_id]})]) == {ORDERS: None}


async def leads(broker: ZooKeeperBroker) -> None:
    """Wait until the broker is the controller: nobody else answers this, and our client asks until somebody does."""
    async with Admin(broker.client_config()) as admin:
        await admin.list_partition_reassignments()


async def serves(broker: ZooKeeperBroker) -> None:
    """Wait until the topic that was to go has its leader."""
    async with Admin(broker.client_config()) as admin:

        async def leader() -> int:
            admin.cluster.forget_topic(ORDERS)
            return (await admin.cluster.topic(ORDERS)).partitions[0].leader

        await eventually(leader, broker.broker_id, WAIT_S)


def start_as(folder: Path, connect: str, broker: ZooKeeperBroker, number: str) -> Path:
    data = str(broker.files.data)
    return file_of(folder, connect, broker_id=number, log_dirs=data, zookeeper_set_acl="true")


async def _version(zookeeper: ZooKeeper) -> int:
    async with ZooKeeperClient(zookeeper.settings("kafka", CHROOT)) as zk:
        return (await zk.get(SEQUENCE))[1].version


def answers(broker: ZooKeeperBroker) -> dict[str, Any]:
    """Give what a controller answers to those who would delete topics or change features; texts are its own."""
    found: dict[str, Any] = {}
    for user, password in ((ADMIN, ADMIN_PASSWORD), (NOBODY, NOBODY_PASSWORD)):
        with FramePeer(broker.port) as peer:
            assert peer.login(user, password).error_code == ErrorCode.NONE
            for version in range(1, 7):
                names = [ORDERS, "none"]
                asked: dict[str, Any] = (
                    {"topics": [{"name": n} for n in names]} if version == 6 else {"topic_names": names}
                )
                answer = peer.call(build(ApiKey.DELETE_TOPICS, timeout_ms=10_000, **asked), version)
                found[f"delete {version} by {user}"] = sorted((r.name, r.error_code) for r in answer.responses)
            for version, what, update in updates():
                answer = peer.call(build(ApiKey.UPDATE_FEATURES, feature_updates=update), version)
                results = sorted((r.feature, r.error_code) for r in answer.results)
                found[f"features {version} by {user}: {what}"] = (answer.error_code, results)
    return found


def updates() -> Iterator[tuple[int, str, list[dict[str, Any]]]]:
    """Give what is asked of UpdateFeatures, with the version of the request."""
    yield 0, "none", []
    for version in (0, 1):
        for level in (-1, 0, 1):
            for kind in (UP, SAFE) if version == 0 else (UP, SAFE, UNSAFE, UNKNOWN):
                how = {"upgrade_type": kind} if version else {"allow_downgrade": kind == SAFE}
                yield version, f"{level} by {kind}", [{"feature": "f", "max_version_level": level, **how}]
    many = [{"feature": name, "max_version_level": 1} for name in ("metadata.version", "group.version", "", "f", "f")]
    yield 1, "many", many


def test_each_gets_an_id_of_its_own_and_keeps_it(seen: Seen) -> None:
    assert seen.kept == ["1001", "1002"]
    assert seen.ids == [["1001", "1002"], ["1001"]]  # the last one ours, on what Kafka's has left
    assert seen.given == 2


def test_another_id_than_that_of_the_directories_is_refused(seen: Seen) -> None:
    assert "belongs to node 1002 of cluster" in seen.refused
    assert "not to node 5" in seen.refused
    assert "give the node its old id, or another directory" in seen.refused


def test_topics_stay_whoever_asks_for_their_end(seen: Seen) -> None:
    assert seen.stayed == {when: [ORDERS] for when in ("theirs", "ours", "ours at its start")}


def test_clients_are_told_the_same(seen: Seen) -> None:
    theirs, ours = seen.answers["theirs"], seen.answers["ours"]
    assert {what: (theirs[what], ours[what]) for what in theirs if theirs[what] != ours[what]} == {}
    disabled = ErrorCode.TOPIC_DELETION_DISABLED
    assert ours[f"delete 6 by {NOBODY}"] == [("none", disabled), (ORDERS, disabled)]
    assert ours[f"features 1 by {ADMIN}: 1 by {UP}"] == (ErrorCode.NONE, [("f", ErrorCode.INVALID_REQUEST)])
    assert ours[f"features 1 by {NOBODY}: 1 by {UP}"] == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
