"""The znodes of a real broker of Apache Kafka 3.9.1, read as metadata; and what we would have written in its place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import AlterConfigOp, ConfigChange
from barnabas.client.admin.configs import ConfigResource as Resource
from barnabas.client.admin.configs import ConfigResourceType as ResourceKind
from barnabas.client.admin.topics import NewTopic
from barnabas.client.admin.users import ScramDeletion, ScramUpsertion
from barnabas.core.metadata.configs import ConfigResource, ConfigResourceType
from barnabas.core.metadata.delta import difference
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.runs import replay
from barnabas.core.metadata.scram import ScramMechanism
from barnabas.core.zookeeper.paths import ROOT
from barnabas.core.zookeeper.znodes import acls as acl_znodes
from barnabas.core.zookeeper.znodes import control
from barnabas.core.zookeeper.znodes.acls import RulesByPattern
from barnabas.core.zookeeper.znodes.notifications import CONFIG_CHANGES
from barnabas.core.zookeeper.znodes.projection import Pruned, Removed, Told, Written, changes
from barnabas.core.zookeeper.znodes.reading import ROOTS, Tree, records
from barnabas.core.zookeeper.znodes.tokens import CHANGES as TOKEN_CHANGES
from barnabas.core.zookeeper.znodes.znode import Znode
from barnabas.model.acl import AclBinding, AclOperation, AclPermissionType, PatternType, ResourcePattern, ResourceType
from barnabas.model.config import Password
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.uuid import Uuid
from barnabas.net.zookeeper.client import ZooKeeperClient
from barnabas.server.zookeeper.passwords import PasswordEncoder
from barnabas.server.zookeeper.reading import read_znodes
from tests.peers.kafka_zookeeper import ZooKeeperBroker
from tests.peers.zookeeper import ZooKeeper

pytestmark = pytest.mark.peer

NOTIFIED: Final = (CONFIG_CHANGES, acl_znodes.LITERAL_CHANGES, acl_znodes.EXTENDED_CHANGES, TOKEN_CHANGES)
ENCODER: Final = PasswordEncoder(lambda key: key.endswith("password"), Password("of-the-znodes"))
ORDERS: Final = Resource(ResourceKind.TOPIC, "orders")
BROKER: Final = Resource(ResourceKind.BROKER, "0")
ALL_BROKERS: Final = Resource(ResourceKind.BROKER, "")
Step = Callable[[Admin], Awaitable[object]]


def set_to(key: str, value: str) -> ConfigChange:
    return ConfigChange(key, AlterConfigOp.SET, value)


def rule(name: str, pattern: PatternType = PatternType.LITERAL, kind: ResourceType = ResourceType.TOPIC) -> AclBinding:
    resource = ResourcePattern(kind, name, pattern)
    return AclBinding(resource, "User:alice", "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW)


async def _token(admin: Admin) -> None:
    made = await admin.create_token(renewers=[KafkaPrincipal("User", "a b")])
    await admin.renew_token(made.hmac, 60_000)


async def _no_tokens(admin: Admin) -> None:
    for token in await admin.describe_tokens():
        await admin.expire_token(token.hmac)


STEPS: Final[dict[str, Step]] = {
    "a topic": lambda a: a.create_topics([NewTopic("orders", 2, 1), NewTopic("gone_soon", 1, 1)]),
    "a topic with configs": lambda a: a.create_topics([NewTopic("kept", 1, 1, configs={"retention.ms": "77"})]),
    "more partitions": lambda a: a.create_partitions("orders", 4),
    "configs of a topic": lambda a: a.incremental_alter_configs({ORDERS: [set_to("retention.ms", "5")]}),
    "no configs of it any more": lambda a: a.incremental_alter_configs({
        ORDERS: [ConfigChange("retention.ms", AlterConfigOp.DELETE)]
    }),
    "configs of a broker": lambda a: a.incremental_alter_configs({
        BROKER: [set_to("log.cleaner.threads", "2")],
        ALL_BROKERS: [set_to("log.retention.ms", "99")],
    }),
    "a password": lambda a: a.incremental_alter_configs({
        BROKER: [set_to("listener.name.extra.ssl.key.password", "hush")]
    }),
    "users": lambda a: a.alter_scram([
        ScramUpsertion("bob@x", "SCRAM-SHA-256", Password("pw")),
        ScramUpsertion("carol", "SCRAM-SHA-512", Password("pw")),
    ]),
    "quotas of a user": lambda a: a.alter_quotas({"user": "bob@x"}, {"producer_byte_rate": 1024.0}),
    "quotas of all users": lambda a: a.alter_quotas({"user": None}, {"request_percentage": 12.5}),
    "quotas of a user's client": lambda a: a.alter_quotas(
        {"user": "bob@x", "client-id": None}, {"consumer_byte_rate": 7.0, "controller_mutation_rate": 3.0}
    ),
    "quotas of a client": lambda a: a.alter_quotas({"client-id": "a*b"}, {"consumer_byte_rate": 8.0}),
    "quotas of an address": lambda a: a.alter_quotas({"ip": "10.1.2.3"}, {"connection_creation_rate": 9.0}),
    "one user less": lambda a: a.alter_scram((), [ScramDeletion("carol", "SCRAM-SHA-512")]),
    "a user without quotas": lambda a: a.alter_quotas({"user": "bob@x"}, {"producer_byte_rate": None}),
    "a user's client without quotas": lambda a: a.alter_quotas(
        {"user": "bob@x", "client-id": None}, {"consumer_byte_rate": None, "controller_mutation_rate": None}
    ),
    "rules": lambda a: a.create_acls([
        rule("orders"), rule("or", PatternType.PREFIXED), rule("kafka-cluster", kind=ResourceType.CLUSTER),
        rule("x:y", kind=ResourceType.TRANSACTIONAL_ID), rule("User:bob", kind=ResourceType.USER),
    ]),
    "fewer rules": lambda a: a.delete_acls([rule("orders").as_filter, rule("or", PatternType.PREFIXED).as_filter]),
    "a token": _token,
    "no token": _no_tokens,
    "a topic less": lambda a: a.delete_topics(["gone_soon"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def broker(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("broker")
    connect = f"{zookeeper.connect}/znodes-of-kafka"
    properties = {"password.encoder.secret": "of-the-znodes"}
    with ZooKeeperBroker(folder, connect, zookeeper.client_jaas(), set_acl=True, properties=properties) as found:
        yield found


async def _read(zk: ZooKeeperClient) -> dict[str, Znode]:
    return {znode.path: znode for znode in await read_znodes(zk, [ROOT])}


def image_of(znodes: dict[str, Znode]) -> MetadataImage:
    wanted = [z for path, z in znodes.items() if path.startswith(ROOTS)]

    def no_id(name: str) -> Uuid:
        raise AssertionError(f"{name} has no id")

    return replay(MetadataImage.EMPTY, records(Tree(wanted), ENCODER, no_id))


def shown(znodes: dict[str, Znode]) -> dict[str, object]:
    """Give what znodes hold, as far as it says the same whenever it was written."""
    return {path: held(znode) for path, znode in znodes.items() if not path.startswith(NOTIFIED)}


def held(znode: Znode) -> object:
    try:
        found = json.loads(znode.data)
    except ValueError:
        return znode.data
    if isinstance(found, dict) and isinstance(found.get("config"), dict):
        found["config"] = {k: ENCODER.decoded(v) if ENCODER.is_password(k) else v for k, v in found["config"].items()}
    return found


def test_what_a_real_broker_writes_is_what_we_would_write(zookeeper: ZooKeeper, broker: ZooKeeperBroker) -> None:
    settings = zookeeper.settings("super", "/znodes-of-kafka")

    async def run() -> None:
        async with ZooKeeperClient(settings) as zk, Admin(broker.client_config()) as admin:
            before = await _read(zk)
            rules, _ = RulesByPattern().after(difference(MetadataImage.EMPTY, image_of(before)))
            for name, step in STEPS.items():
                _check_answer(name, await step(admin))
                after = await _settled(zk, before)
                rules = _compare(name, before, after, rules)
                before = after
            _check_image(image_of(before))

    asyncio.run(run())


def _check_answer(name: str, answer: object) -> None:
    failed = [a for a in answer.values() if a is not None] if isinstance(answer, dict) else []
    assert not failed, f"{name}: {failed}"


async def _settled(zk: ZooKeeperClient, before: dict[str, Znode]) -> dict[str, Znode]:
    """Read until the step has changed something, and nothing changes any more: topics come and go piece by piece."""
    last = before
    async with asyncio.timeout(60):
        while True:
            now = await _read(zk)
            if now == last and now != before:
                return now
            last = now
            await asyncio.sleep(0.1)  # the next look


def _compare(name: str, before: dict[str, Znode], after: dict[str, Znode], rules: RulesByPattern) -> RulesByPattern:
    delta = difference(image_of(before), image_of(after))
    todo, rules = changes(delta, rules, control.epoch_in(after[control.CONTROLLER_EPOCH]), ENCODER)
    ours, told = dict(before), set()
    for change in todo:
        match change:
            case Written(path, data, _):
                ours[path] = Znode(path, data)
                while path := path.rpartition("/")[0]:
                    ours.setdefault(path, Znode(path, b""))
            case Removed(path):
                ours = {p: z for p, z in ours.items() if p != path and not p.startswith(f"{path}/")}
            case Pruned(path):
                if not any(p.startswith(f"{path}/") for p in ours):
                    ours.pop(path, None)
            case Told(path, data):
                told.add((path, _text(data)))
    assert shown(ours) == shown(after), name
    new = {p: z for p, z in after.items() if p.startswith(NOTIFIED) and p not in before}
    assert {(path[:-10], _text(znode.data)) for path, znode in new.items()} == told, name
    return rules


def _text(data: bytes) -> str:
    try:
        return json.dumps(json.loads(data), sort_keys=True)
    except ValueError:
        return data.decode()


def _check_image(image: MetadataImage) -> None:
    assert {name: len(t.partitions) for name, t in image.topics.by_name.items()} == {"orders": 4, "kept": 1}
    assert all(p.leader == 0 and p.isr == (0,) for t in image.topics.by_name.values() for p in t.partitions.values())
    assert (
        image.configs.get(ConfigResource(ConfigResourceType.BROKER, "0"))["listener.name.extra.ssl.key.password"]
        == "hush"
    )
    assert image.scram.get(ScramMechanism.SCRAM_SHA_256, "bob@x") is not None
    assert image.cluster.brokers[0].epoch > 0
    assert {b.pattern.name for b in image.acls.ids} == {"kafka-cluster", "x:y", "User:bob"}
