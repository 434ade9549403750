"""Brokers that write configs, quotas, credentials and tokens themselves: none undoes what another has done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.topics import NewTopic
from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType, config_record
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.quotas import CLIENT_ID, USER, entity_of, quota_record
from barnabas.core.metadata.runs import replay
from barnabas.core.metadata.scram import ScramCredential, ScramMechanism, credential_record
from barnabas.core.metadata.tokens import DelegationToken, token_record
from barnabas.core.replicated import Decision, VersionedRecord
from barnabas.core.zookeeper.paths import parent
from barnabas.core.zookeeper.values import Operation, Result
from barnabas.core.zookeeper.znodes import configs, tokens
from barnabas.core.zookeeper.znodes.configs import CONFIG, Passwords
from barnabas.core.zookeeper.znodes.direct import NOTIFIED, update
from barnabas.core.zookeeper.znodes.notifications import CONFIG_CHANGES, changed_configs
from barnabas.core.zookeeper.znodes.znode import Znode
from barnabas.model.principal import KafkaPrincipal
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.zookeeper.direct_writes import DirectWrites
from barnabas.server.zookeeper.layout import make_layout
from barnabas.server.zookeeper.reading import read_znodes
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.wire.records.topic_record import TopicRecord
from tests.net.zookeeper.gate import Gate
from tests.peers.kafka_zookeeper import ZooKeeperBroker
from tests.peers.zookeeper import ZooKeeper
from tests.zookeeper.controllers import LIMIT_S, STRICT
from tests.zookeeper.test_metadata import Broker, cluster, controller_of, shown
from tests.zookeeper.test_znodes import ENCODER, STEPS, held

pytestmark = pytest.mark.peer

ORDERS: Final = ConfigResource(ConfigResourceType.TOPIC, "orders")
BOB: Final = entity_of({USER: "bob"})
BOBS_APP: Final = entity_of({USER: "bob", CLIENT_ID: "app"})
ALICE: Final = KafkaPrincipal("User", "alice")
Decide = Callable[[MetadataImage], Decision[None]]


def direct(broker: Broker) -> DirectWrites:
    return broker.metadata.entities


def one_more(image: MetadataImage) -> Decision[int]:
    count = int(image.configs.get(ORDERS).get("retention.ms", "0")) + 1
    return Decision((config_record(ORDERS, "retention.ms", str(count)),), count)


def quota(value: float | None, entity: Any = BOB) -> Decide:
    return lambda image: Decision((quota_record(entity, "producer_byte_rate", value),), None)


@pytest.mark.requirement("F-42")
async def test_brokers_that_change_one_entity_at_once_lose_nothing(zookeeper: ZooKeeper, chroot: str) -> None:
    async with cluster(zookeeper, chroot, 1, 2, 3) as found:
        await controller_of(found)
        writers = [direct(broker) for broker in found.values()]

        async def count(writer: DirectWrites) -> list[int]:
            return [await writer.write(one_more) for _ in range(5)]

        counts = await asyncio.gather(*map(count, writers))
        assert sorted(number for some in counts for number in some) == list(range(1, 16))
        for broker in found.values():
            await broker.until(lambda image: image.configs.get(ORDERS).get("retention.ms") == "15")
        names = await found[1].zk.children(CONFIG_CHANGES)
        assert len(names) == 15


@pytest.mark.requirement("F-42")
async def test_the_next_broker_goes_by_what_the_one_before_has_done(zookeeper: ZooKeeper, chroot: str) -> None:
    async with cluster(zookeeper, chroot, 1, 2) as found:
        leader = await controller_of(found)
        one, two = (direct(broker) for broker in found.values())
        for number in range(1, 8, 2):
            assert await one.write(one_more) == number
            assert await two.write(lambda image: Decision((), image.configs.get(ORDERS)["retention.ms"])) == str(number)
            assert await two.write(one_more) == number + 1
        # The controller has learnt of it, and goes on where they stopped.
        await leader.until(lambda image: image.configs.get(ORDERS).get("retention.ms") == "8")
        assert await leader.metadata.write(one_more) == 9
        assert await one.write(one_more) == 10


@pytest.mark.requirement("F-42")
async def test_all_kinds_reach_every_broker_and_its_own_before_the_answer(zookeeper: ZooKeeper, chroot: str) -> None:
    token = DelegationToken("t1", ALICE, ALICE, (), 1, 3, 2)
    credential = ScramCredential(b"a", b"b", b"c", 4096)
    made: Sequence[VersionedRecord] = (
        config_record(ORDERS, "retention.ms", "5"),
        config_record(ConfigResource(ConfigResourceType.BROKER, "1"), "listener.name.a.ssl.key.password", "hush"),
        quota_record(BOB, "producer_byte_rate", 1.0),
        quota_record(BOBS_APP, "consumer_byte_rate", 2.0),
        credential_record(ScramMechanism.SCRAM_SHA_256, "bob", credential),
        token_record(token),
    )
    async with cluster(zookeeper, chroot, 1, 2) as found:
        leader = await controller_of(found)
        (other,) = [broker for broker in found.values() if broker is not leader]
        await direct(other).write(lambda image: Decision(tuple(made), None))
        image = other.metadata.image
        assert dict(image.tokens.by_id) == {"t1": token}
        assert image.scram.get(ScramMechanism.SCRAM_SHA_256, "bob") == credential
        assert dict(image.client_quotas.get(BOBS_APP)) == {"consumer_byte_rate": 2.0}
        await leader.until(lambda image: shown(image) == shown(other.metadata.image))
        gone = (
            VersionedRecord(RemoveDelegationTokenRecord(token_id="t1"), 0),
            quota_record(BOBS_APP, "consumer_byte_rate", None),
        )
        await direct(leader).write(lambda image: Decision(gone, None))
        await other.until(lambda image: not image.tokens.by_id and not image.client_quotas.get(BOBS_APP))
        assert await other.zk.exists("/config/users/bob/clients") is None
        assert b"SCRAM-SHA-256" in (await other.zk.get("/config/users/bob"))[0]


@pytest.mark.requirement("F-42")
async def test_what_was_read_is_read_again_when_it_changes_before_the_write(
    zookeeper: ZooKeeper, chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(zookeeper, chroot, 1, 2) as found:
        await controller_of(found)
        one, two = found.values()
        await direct(one).write(quota(1.0, BOBS_APP))
        multi = one.zk.multi

        async def just_after(operations: Sequence[Operation]) -> list[Result]:
            monkeypatch.undo()
            await direct(two).write(quota(7.0))  # bob has something of his own now: his znode is to stay
            return await multi(operations)

        monkeypatch.setattr(one.zk, "multi", just_after)
        await direct(one).write(quota(None, BOBS_APP))
        assert (await one.zk.get("/config/users/bob"))[0] == b'{"version":1,"config":{"producer_byte_rate":"7"}}'
        assert await one.zk.exists("/config/users/bob/clients") is None


@pytest.mark.requirement("F-42")
async def test_a_write_whose_answer_is_lost_is_looked_into(
    zookeeper: ZooKeeper, chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Gate(zookeeper.ports[0]) as gate:
        settings = zookeeper.settings(chroot=chroot, servers=(("127.0.0.1", gate.port),))
        async with ZooKeeperClient(settings) as zk, ZooKeeperClient(zookeeper.settings(chroot=chroot)) as other:
            await make_layout(zk, STRICT, rules=True, tokens=True)
            known = Known(zk, ENCODER)
            writer = DirectWrites(zk, STRICT, ENCODER, lambda: known.image, known.heard)
            made, multi = asyncio.Event(), zk.multi
            assert await other.exists("/config/users/bob", lambda _: made.set()) is None

            async def unanswered(operations: Sequence[Operation]) -> list[Result]:
                monkeypatch.undo()
                gate.keep_answers()
                return await multi(operations)

            monkeypatch.setattr(zk, "multi", unanswered)
            writing = asyncio.create_task(writer.write(quota(5.0)))
            async with asyncio.timeout(LIMIT_S):
                await made.wait()
            await gate.cut()
            await writing
            assert dict(known.image.client_quotas.get(BOB)) == {"producer_byte_rate": 5.0}
            data, _ = await other.get("/config/users/bob")
            assert data == b'{"version":1,"config":{"producer_byte_rate":"5"}}'


@pytest.mark.requirement("F-42")
async def test_what_is_the_controllers_is_refused(zookeeper: ZooKeeper, chroot: str) -> None:
    async with cluster(zookeeper, chroot, 1) as found:
        writer = direct(found[1])
        topic = VersionedRecord(TopicRecord(name="orders"), 0)
        group = config_record(ConfigResource(ConfigResourceType.GROUP, "g"), "consumer.session.timeout.ms", "1")
        for record, code in ((topic, ErrorCode.NOT_CONTROLLER), (group, ErrorCode.INVALID_REQUEST)):
            with pytest.raises(ApiError) as refused:
                await writer.write(lambda image, record=record: Decision((record,), None))  # type: ignore[misc]
            assert refused.value.code == code
        assert await found[1].zk.children(CONFIG_CHANGES) == []


@dataclass
class Known:
    """What a broker that does nothing else knows."""

    zk: ZooKeeperClient
    passwords: Passwords
    image: MetadataImage = MetadataImage.EMPTY

    async def heard(self, told: Znode) -> None:
        path = told_path(told)
        found = await read_znodes(self.zk, [path])
        znode = next((one for one in found if one.path == path), None)
        self.image = replay(self.image, list(update(self.image, path, znode, self.passwords)))


def told_path(told: Znode) -> str:
    if parent(told.path) == CONFIG_CHANGES:
        return f"{CONFIG}/{changed_configs(told)}"
    return tokens.path(told.data.decode())


@pytest.fixture(scope="module")
def old_broker(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperBroker]:
    properties = {"password.encoder.secret": "of-the-znodes", "inter.broker.protocol.version": "2.7"}
    connect = f"{zookeeper.connect}/writes-of-kafka"
    folder = tmp_path_factory.mktemp("broker")
    with ZooKeeperBroker(folder, connect, zookeeper.client_jaas(), set_acl=True, properties=properties) as found:
        yield found


async def _renewed(admin: Admin) -> None:
    (token,) = await admin.describe_tokens()
    await admin.renew_token(token.hmac, 60_000)


async def _token(admin: Admin) -> None:
    await admin.create_token(renewers=[KafkaPrincipal("User", "a b")])


KINDS: Final = (
    "configs of a topic", "no configs of it any more", "configs of a broker", "a password", "users", "quotas of a user",
    "quotas of all users", "quotas of a user's client", "quotas of a client", "quotas of an address", "one user less",
    "a user without quotas", "a user's client without quotas",
)  # fmt: skip
ALL_STEPS: Final[dict[str, Callable[[Admin], Awaitable[object]]]] = {
    **{name: STEPS[name] for name in KINDS}, "a token": _token, "the token renewed": _renewed,
    "no token": STEPS["no token"],
}  # fmt: skip


async def tree(zk: ZooKeeperClient) -> dict[str, Znode]:
    return {znode.path: znode for znode in await read_znodes(zk, [CONFIG, "/delegation_token"])}


def notifications(znodes: dict[str, Znode]) -> list[Znode]:
    return sorted(znode for path, znode in znodes.items() if parent(path) in NOTIFIED)


@pytest.mark.requirement("F-42")
async def test_znodes_are_those_of_a_real_broker_that_writes_itself(
    zookeeper: ZooKeeper, old_broker: ZooKeeperBroker, chroot: str
) -> None:
    theirs, mine = zookeeper.settings(chroot="/writes-of-kafka"), zookeeper.settings(chroot=chroot)
    async with (
        ZooKeeperClient(theirs) as at_kafka,
        ZooKeeperClient(mine) as at_ours,
        Admin(old_broker.client_config()) as admin,
    ):
        await make_layout(at_ours, STRICT, rules=True, tokens=True)
        path = configs.path(ORDERS)
        await at_ours.create(path, configs.overrides({}, ENCODER), STRICT(path))
        await admin.create_topics([NewTopic("orders", 1, 1)])
        known = Known(at_ours, ENCODER)
        writer = DirectWrites(at_ours, STRICT, ENCODER, lambda: known.image, known.heard)
        before = await tree(at_kafka)
        for name, step in ALL_STEPS.items():
            await step(admin)
            after = await tree(at_kafka)
            told = notifications(after)[len(notifications(before)) :]
            assert told, name

            def the_same(image: MetadataImage) -> Decision[None]:
                made: list[VersionedRecord] = []
                for path in dict.fromkeys(map(told_path, told)):  # noqa: B023
                    made += update(image, path, after.get(path), ENCODER)  # noqa: B023
                return Decision(tuple(made), None)

            await writer.write(the_same)
            ours = await tree(at_ours)
            _compare(name, ours, after)
            for znode in ours:
                assert (await at_ours.acls(znode))[0] == (await at_kafka.acls(znode))[0], (name, znode)
            before = after


def _compare(name: str, ours: dict[str, Znode], theirs: dict[str, Znode]) -> None:
    def content(znodes: dict[str, Znode]) -> dict[str, object]:
        return {path: (held(one), one.version) for path, one in znodes.items() if parent(path) not in NOTIFIED}

    assert content(ours) == content(theirs), name
    assert sorted((parent(z.path), z.data) for z in notifications(ours)) == sorted(
        (parent(z.path), z.data) for z in notifications(theirs)
    ), name
