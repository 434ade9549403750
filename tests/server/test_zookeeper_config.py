"""The configuration of a node in ZooKeeper mode."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.core.metadata.delta import difference
from barnabas.core.metadata.image import MetadataImage, replay_one
from barnabas.model.config import ConfigError, format_properties
from barnabas.model.principal import ANONYMOUS, KafkaPrincipal
from barnabas.net.clock import SystemClock
from barnabas.net.zookeeper.config import zookeeper_settings
from barnabas.net.zookeeper.logins import DigestLogin
from barnabas.server.authorizer_names import ACL_AUTHORIZER, STANDARD_AUTHORIZER
from barnabas.server.config import NodeConfig
from barnabas.server.described_configs import DescribedConfigs, Telling
from barnabas.server.own_principal import own_principal
from barnabas.server.publishers.configs import ConfigPublisher
from barnabas.storage.log_dirs import LogDirs
from barnabas.wire.records.config_record import ConfigRecord

GENERATED = "broker.id.generation.enable"
GOOD = {
    "broker.id": "3",
    "zookeeper.connect": "127.0.0.1:2181,127.0.0.1:2182/kafka",
    "listeners": "CLIENTS://127.0.0.1:9092,BROKERS://127.0.0.1:9093,CONTROL://127.0.0.1:9094",
    "listener.security.protocol.map": "CLIENTS:SASL_SSL,BROKERS:SASL_PLAINTEXT,CONTROL:SASL_PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "authorizer.class.name": ACL_AUTHORIZER,
}
KRAFT = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CLIENTS://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
}


def without(*keys: str, **more: str) -> dict[str, str]:
    """Give good properties without some."""
    return {k: v for k, v in GOOD.items() if k not in keys} | more


def test_a_file_of_kafka_3_makes_a_broker_that_may_be_elected() -> None:
    config = NodeConfig.parse(GOOD)
    assert (config.is_zookeeper_mode, config.is_broker, config.is_controller) == (True, True, False)
    assert (config.node_id, config.voters, config.controller_listeners) == (3, (), ())
    assert [e.listener_name for e in config.broker_listeners] == ["CLIENTS", "BROKERS", "CONTROL"]
    assert config.early_listener_names == frozenset()
    assert str(config.protocol_version) == "3.9-IV0"
    assert not config.warnings
    assert not NodeConfig.parse(KRAFT).is_zookeeper_mode


def test_either_name_of_the_id_is_taken() -> None:
    assert NodeConfig.parse(without("broker.id") | {"node.id": "4"}).node_id == 4


@pytest.mark.parametrize(
    ("text", "level"), [("2.8", "2.8-IV1"), ("3.0-IV1", "3.0-IV1"), ("3.9.1", "3.9-IV0"), ("2.8.2", "2.8-IV1")]
)
def test_the_age_of_the_other_brokers(text: str, level: str) -> None:
    assert str(NodeConfig.parse({**GOOD, "inter.broker.protocol.version": text}).protocol_version) == level


def test_brokers_that_know_topics_by_name_alone_are_too_old() -> None:
    with pytest.raises(ConfigError, match=r"inter\.broker\.protocol\.version=2\.7-IV2: topics have ids"):
        NodeConfig.parse({**GOOD, "inter.broker.protocol.version": "2.7"})


def test_the_controller_is_met_where_brokers_meet_unless_it_has_a_listener() -> None:
    jaas = 'a.PlainLoginModule required username="{}" password="x";'
    logins = {f"listener.name.{n}.plain.sasl.jaas.config": jaas.format(n) for n in ("brokers", "control")}
    config = NodeConfig.parse(GOOD | logins)
    assert (config.controller_channel_listener, config.controller_channel_mechanism) == ("BROKERS", "PLAIN")
    assert own_principal(config) == KafkaPrincipal("User", "brokers")
    apart = NodeConfig.parse({**GOOD, **logins, "control.plane.listener.name": "control"})
    assert apart.controller_channel_listener == "CONTROL"
    assert own_principal(apart) == KafkaPrincipal("User", "control")
    assert own_principal(NodeConfig.parse(GOOD)) == ANONYMOUS
    of_kraft = NodeConfig.parse(KRAFT | {"sasl.mechanism.controller.protocol": "PLAIN"})
    assert (of_kraft.controller_channel_listener, of_kraft.controller_channel_mechanism) == ("CONTROLLER", "PLAIN")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(
            {"authorizer.class.name": STANDARD_AUTHORIZER},
            f"keeps its ACLs in the metadata log, and in ZooKeeper mode there is none: want {ACL_AUTHORIZER}",
            marks=pytest.mark.requirement("A-32"),
        ),
        (
            {"authorizer.class.name": "kafka.security.auth.SimpleAclAuthorizer"},
            f"not known here; want {ACL_AUTHORIZER}",
        ),
        ({"zookeeper.connect": ""}, "neither process.roles nor zookeeper.connect is set"),
        ({"zookeeper.connect": "a:b"}, "'a:b' is not host:port"),
        ({"zookeeper.session.timeout.ms": "0"}, "zookeeper.session.timeout.ms: '0' is not allowed"),
        ({"zookeeper.metadata.migration.enable": "true"}, "moving a cluster from ZooKeeper to KRaft is not offered"),
        ({"zookeeper.ssl.crl.enable": "true"}, "not checked for revocation"),
        ({"controller.listener.names": "CONTROL"}, "no listener is the controllers' in ZooKeeper mode"),
        ({"broker.id": "-1", GENERATED: "false"}, "broker.id is not set, and broker.id.generation.enable=false: set"),
        ({"broker.id": "-2"}, "node.id: '-2' is not allowed; want a number of at least -1"),
        ({"broker.id": "1001"}, "broker.id=1001 is above reserved.broker.max.id=1000, where the ids begin"),
        ({"broker.id": "6", "reserved.broker.max.id": "5"}, "If ZooKeeper gave this broker its id, take broker.id out"),
        ({"broker.id": "-1", "node.id": "4"}, "broker.id=-1 and node.id=4 must agree"),
        ({"node.id": "4"}, "broker.id=3 and node.id=4 must agree"),
        ({"inter.broker.protocol.version": "4.0"}, "want a release from 0.8.0 to 3.9"),
        ({"inter.broker.listener.name": "OTHER"}, "set inter.broker.listener.name to one of CLIENTS, BROKERS, CONTROL"),
        ({"advertised.listeners": "CLIENTS://h:1"}, "the brokers' own listener, BROKERS, is none of those"),
        ({"control.plane.listener.name": "OTHER"}, "control.plane.listener.name=OTHER: want one of the listeners"),
        ({"control.plane.listener.name": "BROKERS"}, "is the listener between brokers as well"),
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "enabled.mechanisms, SCRAM-SHA-512, PLAIN"),
        ({"password.encoder.key.length": "100"}, "want one of 128, 192, 256"),
        ({"authorizer.zookeeper.url": "elsewhere:2181"}, "in ZooKeeper mode the ACLs are where the rest"),
    ],
)
def test_a_fault_is_named_with_what_would_be_right(change: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        NodeConfig.parse({**GOOD, **change})
    assert said in str(refused.value)


def test_ids_are_set_or_left_to_zookeeper() -> None:
    for left in (without("broker.id"), {**GOOD, "broker.id": "-1"}):
        assert not NodeConfig.parse(left).has_id
    assert NodeConfig.parse({**GOOD, "broker.id": "1000"}).node_id == 1000
    assert NodeConfig.parse({**GOOD, "broker.id": "1001", "reserved.broker.max.id": "1001"}).node_id == 1001
    assert NodeConfig.parse({**GOOD, "broker.id": "1001", GENERATED: "false"}).node_id == 1001
    with pytest.raises(ConfigError, match=r"broker\.id is not set.*meta\.properties"):
        NodeConfig.parse({**without("broker.id"), GENERATED: "false"})


def test_an_id_of_zookeepers_stays_when_the_configuration_changes(tmp_path: Path) -> None:
    static = replace(NodeConfig.parse(without("broker.id")), given_id=1001)
    taken: list[NodeConfig] = []
    publisher = ConfigPublisher(static, LogDirs([tmp_path], SystemClock()), taken.append)
    change = ConfigRecord(resource_type=4, resource_name="1001", name="log.retention.ms", value="7")
    image = replay_one(MetadataImage.EMPTY, change)
    publisher.publish(difference(MetadataImage.EMPTY, image), image)
    assert [(one.node_id, one["log.retention.ms"]) for one in taken] == [(1001, 7)]
    rows = DescribedConfigs(static, taken[0], image).broker(Telling())
    assert {row.value for row in rows if row.name in ("broker.id", "node.id")} == {"-1"}  # as Kafka shows it


def test_settings_of_the_other_mode_are_told_to_have_no_effect() -> None:
    (warning,) = NodeConfig.parse(
        {
            **GOOD,
            "controller.quorum.voters": "3@h:1",
            "metadata.log.dir": "/m",
            "sasl.mechanism.controller.protocol": "X",
        }
    ).warnings
    assert "in ZooKeeper mode: controller.quorum.voters, metadata.log.dir, sasl.mechanism.controller" in warning
    (warning,) = NodeConfig.parse({**KRAFT, "zookeeper.connect": "h:1", "password.encoder.secret": "s"}).warnings
    assert f"unless the authorizer is {ACL_AUTHORIZER}: password.encoder.secret, zookeeper.connect" in warning


def test_settings_without_effect_are_told() -> None:
    (warning,) = NodeConfig.parse({**GOOD, "zookeeper.max.in.flight.requests": "5"}).warnings
    assert warning == "settings of Kafka's that have no effect here: zookeeper.max.in.flight.requests"


def test_acls_of_a_kraft_cluster_may_be_in_zookeeper_when_that_is_said() -> None:
    named = {**KRAFT, "authorizer.class.name": ACL_AUTHORIZER}
    config = NodeConfig.parse({**named, "zookeeper.connect": "h:1/kafka", "zookeeper.set.acl": "true"})
    assert (config.keeps_acls_in_zookeeper, config.is_zookeeper_mode, config.warnings) == (True, False, ())
    assert config.acl_store["zookeeper.connect"] == "h:1/kafka"
    assert not NodeConfig.parse({**KRAFT, "authorizer.class.name": STANDARD_AUTHORIZER}).keeps_acls_in_zookeeper
    with pytest.raises(ConfigError, match=r"keeps its rules in ZooKeeper, and zookeeper\.connect is not set"):
        NodeConfig.parse(named)


def test_acls_of_a_kraft_cluster_may_be_in_a_zookeeper_of_their_own() -> None:
    more = {"authorizer.zookeeper.url": "acls:1", "authorizer.zookeeper.session.timeout.ms": "7000"}
    config = NodeConfig.parse({**KRAFT, "authorizer.class.name": ACL_AUTHORIZER, "zookeeper.connect": "h:1", **more})
    settings = zookeeper_settings(config.acl_store, {})
    assert (settings.servers, settings.session_timeout_ms, config.warnings) == ((("acls", 1),), 7000, ())


def test_the_client_of_zookeeper_is_set_up_by_the_nodes_own_file(tmp_path: Path) -> None:
    jaas = tmp_path / "jaas.conf"
    jaas.write_text('Client { a.DigestLoginModule required username="kafka" password="secret"; };')
    config = NodeConfig.parse({**GOOD, "zookeeper.set.acl": "true", "zookeeper.session.timeout.ms": "9000"})
    with pytest.raises(ConfigError, match=r"zookeeper\.set\.acl is true, but there is nobody"):
        zookeeper_settings(config.originals, {})
    settings = zookeeper_settings(config.originals, {"KAFKA_OPTS": f"-Djava.security.auth.login.config={jaas}"})
    assert (settings.chroot, settings.session_timeout_ms) == ("/kafka", 9000)
    assert settings.login == DigestLogin("kafka", "secret")
    of_file = NodeConfig.parse({**GOOD, "java.security.auth.login.config": str(jaas)})
    assert zookeeper_settings(of_file.originals, {}).login == DigestLogin("kafka", "secret")
    assert not of_file.warnings


def test_only_where_there_is_zookeeper_its_settings_are_described() -> None:
    def described(config: NodeConfig) -> set[str]:
        return {row.name for row in DescribedConfigs(config, config, MetadataImage.EMPTY).broker(Telling())}

    known = described(NodeConfig.parse(GOOD))
    assert {"zookeeper.connect", "inter.broker.protocol.version", "password.encoder.secret", "broker.id"} <= known
    assert "java.security.auth.login.config" not in known
    assert not {name for name in described(NodeConfig.parse(KRAFT)) if "zookeeper" in name or "encoder" in name}


@pytest.mark.slow
@pytest.mark.requirement("A-32")
def test_a_start_with_the_wrong_authorizer_ends_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    rows = {**GOOD, "authorizer.class.name": STANDARD_AUTHORIZER, "log.dirs": str(tmp_path / "data")}
    path.write_text(format_properties(rows))
    run = subprocess.run(
        [Path(sys.executable).with_name("barnabas"), "run", str(path)],
        capture_output=True, text=True, timeout=60, env={**os.environ, "COLUMNS": "500"},
    )  # fmt: skip
    assert run.returncode == 1
    assert "in ZooKeeper mode there is none" in run.stderr.strip().splitlines()[-1]
    assert not (tmp_path / "data").exists()
