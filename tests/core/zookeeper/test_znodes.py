"""Znodes as Kafka 3.9 writes them, and images that go through znodes and come back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from barnabas.core.metadata.acls import acl_record
from barnabas.core.metadata.configs import CLUSTER_DEFAULT, ConfigResource, ConfigResourceType, config_record
from barnabas.core.metadata.delta import difference
from barnabas.core.metadata.directories import MIGRATING
from barnabas.core.metadata.image import MetadataImage
from barnabas.core.metadata.quotas import CLIENT_ID, IP, USER, entity_of, quota_record
from barnabas.core.metadata.runs import replay
from barnabas.core.metadata.scram import ScramCredential, ScramMechanism, credential_record
from barnabas.core.metadata.tokens import DelegationToken, token_record
from barnabas.core.replicated import VersionedRecord
from barnabas.core.zookeeper.znodes import acls, brokers, clients, configs, control, notifications, tokens, topics
from barnabas.core.zookeeper.znodes.acls import RulesByPattern
from barnabas.core.zookeeper.znodes.projection import Pruned, Removed, Told, Written, ZnodeChange, changes
from barnabas.core.zookeeper.znodes.reading import Tree, records
from barnabas.core.zookeeper.znodes.updates import config_update, rules_update, token_update
from barnabas.core.zookeeper.znodes.znode import Znode, ZnodeError, desanitized, sanitized
from barnabas.model.acl import AclBinding, AclOperation, AclPermissionType, PatternType, ResourcePattern, ResourceType
from barnabas.model.principal import KafkaPrincipal
from barnabas.model.topic_partition import TopicPartition
from barnabas.model.uuid import Uuid
from barnabas.wire.records.partition_record import PartitionRecord
from barnabas.wire.records.producer_ids_record import ProducerIdsRecord
from barnabas.wire.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from barnabas.wire.records.topic_record import TopicRecord

ORDERS = Uuid(bytes(range(16)))
ALICE = KafkaPrincipal("User", "alice smith")
CREDENTIAL = ScramCredential(b"salt", b"stored", b"server", 4096)


class Backwards:
    """Passwords are those that hold the word, and stand in znodes from behind."""

    def is_password(self, key: str) -> bool:
        return "password" in key

    def encoded(self, value: str) -> str:
        return value[::-1]

    def decoded(self, text: str) -> str:
        return text[::-1]


class Znodes:
    """What changes make of no znodes at all."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[bytes, int]] = {}
        self.told: list[tuple[str, bytes]] = []

    def make(self, todo: list[ZnodeChange]) -> None:
        for change in todo:
            match change:
                case Written(path, data, _):
                    _, version = self.held.get(path, (b"", -1))
                    self.held[path] = data, version + 1
                case Removed(path):
                    self.held = {p: v for p, v in self.held.items() if p != path and not p.startswith(f"{path}/")}
                case Pruned(path):
                    if not any(p.startswith(f"{path}/") for p in self.held):
                        self.held.pop(path, None)
                case Told(path, data):
                    self.told.append((path, data))

    def tree(self) -> Tree:
        return Tree(Znode(path, data, version) for path, (data, version) in self.held.items())


def rule(name: str, pattern: PatternType = PatternType.LITERAL, host: str = "*") -> AclBinding:
    return AclBinding(
        ResourcePattern(ResourceType.TRANSACTIONAL_ID, name, pattern),
        "User:alice",
        host,
        AclOperation.DESCRIBE,
        AclPermissionType.DENY,
    )


def everything() -> list[VersionedRecord]:
    partition = PartitionRecord(
        partition_id=0, topic_id=ORDERS, replicas=[2, 1, 3], isr=[1, 2], leader=2, leader_epoch=3, partition_epoch=0,
        adding_replicas=[3], removing_replicas=[1], directories=[MIGRATING] * 3, leader_recovery_state=1,
    )  # fmt: skip
    token = DelegationToken("id-1", ALICE, KafkaPrincipal("User", "root"), (ALICE,), 1, 3, 2)
    both = entity_of({USER: "bob@x", CLIENT_ID: None})
    rules = [rule("pay"), rule("pay", host="10.0.0.1"), rule("pay", PatternType.PREFIXED)]
    return [
        VersionedRecord(TopicRecord(name="orders", topic_id=ORDERS), 0),
        VersionedRecord(partition, 1),
        config_record(ConfigResource(ConfigResourceType.TOPIC, "orders"), "retention.ms", "5"),
        config_record(CLUSTER_DEFAULT, "log.cleaner.threads", "2"),
        config_record(ConfigResource(ConfigResourceType.BROKER, "1"), "ssl.key.password", "secret"),
        quota_record(entity_of({USER: "bob@x"}), "producer_byte_rate", 1024.0),
        quota_record(entity_of({USER: None}), "request_percentage", 12.5),
        quota_record(both, "consumer_byte_rate", 7.0),
        quota_record(entity_of({IP: "10.1.2.3"}), "connection_creation_rate", 9.0),
        quota_record(entity_of({CLIENT_ID: "a/b"}), "consumer_byte_rate", 8.0),
        VersionedRecord(ProducerIdsRecord(broker_id=1, broker_epoch=-1, next_producer_id=2000), 0),
        *(acl_record(acls.rule_id(one), one) for one in rules),
        credential_record(ScramMechanism.SCRAM_SHA_256, "bob@x", CREDENTIAL),
        credential_record(ScramMechanism.SCRAM_SHA_512, "carol", CREDENTIAL),
        token_record(token),
    ]


def after(image: MetadataImage, *more: VersionedRecord) -> MetadataImage:
    return replay(image, more)


def projected(znodes: Znodes, rules: RulesByPattern, before: MetadataImage, now: MetadataImage) -> RulesByPattern:
    todo, rules = changes(difference(before, now), rules, 7, Backwards())
    znodes.make(todo)
    return rules


def read(znodes: Znodes) -> MetadataImage:
    return replay(MetadataImage.EMPTY, records(znodes.tree(), Backwards(), lambda name: ORDERS))


def test_an_image_comes_back_from_its_znodes() -> None:
    znodes, image = Znodes(), after(MetadataImage.EMPTY, *everything())
    projected(znodes, RulesByPattern(), MetadataImage.EMPTY, image)
    assert read(znodes) == image
    assert json.loads(znodes.held["/config/brokers/1"][0])["config"] == {"ssl.key.password": "terces"}
    assert json.loads(znodes.held["/config/users/bob%40x"][0])["config"] == {
        "producer_byte_rate": "1024",
        "SCRAM-SHA-256": "salt=c2FsdA==,stored_key=c3RvcmVk,server_key=c2VydmVy,iterations=4096",
    }
    assert set(znodes.held) == {
        "/brokers/topics/orders", "/brokers/topics/orders/partitions/0/state", "/config/topics/orders",
        "/config/brokers/<default>", "/config/brokers/1", "/config/users/bob%40x", "/config/users/<default>",
        "/config/users/bob%40x/clients/<default>", "/config/users/carol", "/config/ips/10.1.2.3",
        "/config/clients/a%2Fb", "/latest_producer_id_block", "/kafka-acl/TransactionalId/pay",
        "/kafka-acl-extended/prefixed/TransactionalId/pay", "/delegation_token/tokens/id-1",
    }  # fmt: skip


def test_taking_everything_away_leaves_no_znode_but_those_of_brokers() -> None:
    znodes, image = Znodes(), after(MetadataImage.EMPTY, *everything())
    rules = projected(znodes, RulesByPattern(), MetadataImage.EMPTY, image)
    projected(znodes, rules, image, replace(MetadataImage.EMPTY, producer_ids=image.producer_ids))
    # As Kafka leaves them: brokers' configs stay as empty ones.
    assert set(znodes.held) == {"/config/brokers/1", "/config/brokers/<default>", "/latest_producer_id_block"}
    assert read(znodes) == replace(MetadataImage.EMPTY, producer_ids=image.producer_ids)


def test_a_user_stays_while_a_client_of_theirs_has_quotas() -> None:
    znodes, image = Znodes(), after(MetadataImage.EMPTY, *everything())
    rules = projected(znodes, RulesByPattern(), MetadataImage.EMPTY, image)
    bob = entity_of({USER: "bob@x"})
    scram = replace(image.scram, by_mechanism=image.scram.by_mechanism.delete(ScramMechanism.SCRAM_SHA_256))
    without = after(replace(image, scram=scram), quota_record(bob, "producer_byte_rate", None))
    rules = projected(znodes, rules, image, without)
    assert json.loads(znodes.held["/config/users/bob%40x"][0])["config"] == {}
    assert read(znodes) == without
    gone = after(without, quota_record(entity_of({USER: "bob@x", CLIENT_ID: None}), "consumer_byte_rate", None))
    projected(znodes, rules, without, gone)
    assert not any("bob" in path for path in znodes.held)


def test_one_rule_of_many_is_taken_away() -> None:
    znodes, image = Znodes(), after(MetadataImage.EMPTY, *everything())
    rules = projected(znodes, RulesByPattern(), MetadataImage.EMPTY, image)
    znodes.told.clear()
    gone = acls.rule_id(rule("pay"))
    left = replace(image.acls, by_id=image.acls.by_id.delete(gone), ids=image.acls.ids.delete(rule("pay")))
    rules = projected(znodes, rules, image, replace(image, acls=left))
    assert [r["host"] for r in json.loads(znodes.held["/kafka-acl/TransactionalId/pay"][0])["acls"]] == ["10.0.0.1"]
    assert znodes.told == [("/kafka-acl-changes/acl_changes_", b"TRANSACTIONAL_ID:pay")]
    assert rules.of(rule("pay").pattern) == [rule("pay", host="10.0.0.1")]


def test_a_state_replaces_the_one_that_was_decided_on() -> None:
    image = after(MetadataImage.EMPTY, *everything())
    moved = image.topics.by_name["orders"]
    partition = replace(moved.partitions[0], leader=1, leader_epoch=4, partition_epoch=6)
    before = replace(
        image, topics=image.topics.with_partition(moved, 0, replace(partition, leader=2, partition_epoch=5))
    )
    now = replace(image, topics=image.topics.with_partition(moved, 0, partition))
    todo, _ = changes(difference(before, now), RulesByPattern(), 8, Backwards())
    assert todo == [Written("/brokers/topics/orders/partitions/0/state", topics.state(partition, 8), 5)]


def test_a_follower_that_reads_what_was_told_has_the_controllers_image() -> None:
    """Whatever changes: everything that is told is read, and nothing else."""
    image = after(MetadataImage.EMPTY, *everything())
    fewer = after(
        replace(image, tokens=MetadataImage.EMPTY.tokens, scram=MetadataImage.EMPTY.scram),
        config_record(ConfigResource(ConfigResourceType.TOPIC, "orders"), "retention.ms", None),
        config_record(CLUSTER_DEFAULT, "log.cleaner.threads", "3"),
        quota_record(entity_of({USER: "bob@x"}), "producer_byte_rate", None),
        quota_record(entity_of({USER: "bob@x"}), "request_percentage", 3.0),
        VersionedRecord(RemoveAccessControlEntryRecord(id=acls.rule_id(rule("pay"))), 0),
        acl_record(acls.rule_id(rule("new")), rule("new")),
        acl_record(acls.rule_id(rule("new", PatternType.PREFIXED)), rule("new", PatternType.PREFIXED)),
    )
    for before, now in ((MetadataImage.EMPTY, image), (image, fewer), (fewer, image), (image, MetadataImage.EMPTY)):
        znodes = Znodes()
        rules = projected(znodes, RulesByPattern(), MetadataImage.EMPTY, before)
        known = replace(before, topics=now.topics, producer_ids=now.producer_ids)  # these are not told this way
        if before.topics == MetadataImage.EMPTY.topics:
            known = after(known, config_record(ConfigResource(ConfigResourceType.TOPIC, "orders"), "retention.ms", "5"))
        znodes.told.clear()
        projected(znodes, rules, before, now)
        for place, data in znodes.told:
            known = after(known, *read_again(znodes, known, rules, Znode(f"{place}0000000001", data)))
        if now.topics == MetadataImage.EMPTY.topics:
            known = after(
                known, config_record(ConfigResource(ConfigResourceType.TOPIC, "orders"), "retention.ms", None)
            )
        assert known == now


def read_again(znodes: Znodes, known: MetadataImage, rules: RulesByPattern, told: Znode) -> list[VersionedRecord]:
    if told.path.startswith(notifications.CONFIG_CHANGE):
        path = notifications.changed_configs(told)
        return list(config_update(known, path, znodes.tree().at(f"/config/{path}"), Backwards()))
    if told.path.startswith(notifications.TOKEN_CHANGE):
        token_id = told.data.decode()
        return list(token_update(known, token_id, znodes.tree().at(tokens.path(token_id))))
    pattern = acls.notified(told)
    return list(rules_update(rules, pattern, znodes.tree().at(acls.path(pattern))))


def test_what_was_told_is_understood() -> None:
    told = partial(Znode, "/config/changes/config_change_0000000001")
    assert notifications.changed_configs(told(notifications.config_change("users/a/clients/b"))) == "users/a/clients/b"
    assert notifications.changed_configs(told(b'{"version":1,"entity_type":"topics","entity_name":"t"}')) == "topics/t"
    partitions = [TopicPartition("t", 1), TopicPartition("u", 0)]
    assert notifications.changed_isrs(told(notifications.isr_change(partitions))) == partitions
    assert notifications.failed_broker(told(notifications.log_dir_failed(4))) == 4
    for pattern in (rule("a:b").pattern, rule("a:b", PatternType.PREFIXED).pattern):
        root, data = acls.notification(pattern)
        assert acls.notified(Znode(f"{root}/acl_changes_0000000000", data)) == pattern


def test_single_znodes_come_back() -> None:
    assert control.controller_id(Znode("/controller", control.controller(4, 1))) == 4
    assert not control.is_of_kraft(Znode("/controller", control.controller(4, 1)))
    assert control.is_of_kraft(Znode("/controller", b'{"version":2,"brokerid":3000,"kraftControllerEpoch":0}'))
    assert control.epoch_in(Znode("/controller_epoch", control.epoch(12))) == 12
    assert control.cluster_id_in(Znode("/cluster/id", control.cluster_id("x"))) == "x"


@pytest.mark.parametrize("name", ["a b", "a+b", "a*b", "~", "ü/@", "a.b-c_d", "<x>"])
def test_names_come_back(name: str) -> None:
    assert desanitized(sanitized(name)) == name
    assert not {"/", "+", "*", "~"} & set(sanitized(name))


def test_brokers_of_older_versions_are_read() -> None:
    old = b'{"version":2,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://h:9092"]}'
    found = brokers.record(Znode("/brokers/ids/3", old, created=77)).record
    assert (found.broker_id, found.broker_epoch, found.rack, found.fenced) == (3, 77, None, False)
    assert [(e.name, e.host, e.port, e.security_protocol) for e in found.end_points] == [("PLAINTEXT", "h", 9092, 0)]


BAD: list[tuple[Callable[[Znode], object], str, bytes]] = [
    (brokers.record, "/brokers/ids/3", b"not json"),
    (brokers.record, "/brokers/ids/3", b'{"version":9,"endpoints":[]}'),
    (brokers.record, "/brokers/ids/3", b'{"version":1,"host":"h","port":1}'),
    (brokers.record, "/brokers/ids/3", b'{"version":2,"endpoints":["MAGIC://h:1"]}'),
    (brokers.record, "/brokers/ids/x", b'{"version":2,"endpoints":[]}'),
    (brokers.record, "/brokers/ids/3", b'{"version":5,"endpoints":[],"features":{"f":3}}'),
    (lambda z: list(topics.records(z, ORDERS, {})), "/brokers/topics/t", b"[]"),
    (lambda z: list(topics.records(z, ORDERS, {})), "/brokers/topics/t", b'{"version":3,"partitions":{"x":[1]}}'),
    (lambda z: list(topics.records(z, ORDERS, {})), "/brokers/topics/t", b'{"version":3,"partitions":{"0":["1"]}}'),
    (topics.topic_id, "/brokers/topics/t", b'{"version":3,"topic_id":"short"}'),
    (configs.read_properties, "/config/topics/t", b'{"version":1,"config":{"a":1}}'),
    (lambda z: list(clients.records(z)), "/config/users/u", b'{"version":1,"config":{"producer_byte_rate":"x"}}'),
    (lambda z: list(clients.records(z)), "/config/users/u", b'{"version":1,"config":{"SCRAM-SHA-256":"salt=secret"}}'),
    (lambda z: list(clients.records(z)), "/config/users/u/x/y", b"{}"),
    (lambda z: list(acls.records(z)), "/kafka-acl/Topic/t", b'{"version":1,"acls":[{"principal":"User:a"}]}'),
    (lambda z: list(acls.records(z)), "/kafka-acl/Spoon/t", b'{"version":1,"acls":[]}'),
    (lambda z: list(tokens.records(z)), "/delegation_token/tokens/t", b'{"version":3,"owner":"nobody"}'),
    (control.epoch_in, "/controller_epoch", b"x"),
    (lambda z: list(control.feature_records(z)), "/feature", b'{"version":2,"status":1,"features":{"f":{}}}'),
    (lambda z: list(control.producer_id_records(z)), "/latest_producer_id_block", b'{"version":1,"broker":1}'),
    (notifications.changed_configs, "/config/changes/config_change_0", b'{"version":2,"entity_path":"spoons/x"}'),
    (acls.notified, "/kafka-acl-changes/acl_changes_0", b"\xff"),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "path", "data"), BAD)
def test_what_kafka_does_not_write_is_refused_by_its_path(
    reader: Callable[[Znode], object], path: str, data: bytes
) -> None:
    with pytest.raises(ZnodeError) as raised:
        reader(Znode(path, data))
    assert path in str(raised.value)
    assert "secret" not in str(raised.value)
