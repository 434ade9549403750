"""A node's configuration, as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.model.config import ConfigError
from barnabas.server.config import NodeConfig

GOOD = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CLIENTS://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
}


def test_listeners_are_told_apart() -> None:
    config = NodeConfig.parse(GOOD)
    assert [e.listener_name for e in config.broker_listeners] == ["CLIENTS"]
    assert [e.listener_name for e in config.controller_listeners] == ["CONTROLLER"]
    assert (config.broker_listeners[0].tls, config.broker_listeners[0].sasl) == (True, True)
    assert (config.is_broker, config.is_controller) == (True, True)


def test_the_most_specific_value_counts() -> None:
    config = NodeConfig.parse(
        {
            **GOOD,
            "max.connections": "7",
            "listener.name.clients.max.connections": "5",
            "listener.name.clients.plain.sasl.jaas.config": "secret",
        }
    )
    assert config.on_listener("CONTROLLER", "max.connections") == 7
    assert config.on_listener("CLIENTS", "max.connections") == 5
    assert config.on_mechanism("CLIENTS", "PLAIN", "sasl.jaas.config").secret == "secret"
    assert config.on_mechanism("CLIENTS", "SCRAM-SHA-512", "sasl.jaas.config") is None
    assert not config.warnings


def test_an_unknown_key_is_reported_with_the_nearest_one() -> None:
    (warning,) = NodeConfig.parse({**GOOD, "log.retention.hour": "1"}).warnings
    assert "did you mean log.retention.hours?" in warning


def test_keys_of_kafkas_without_effect_are_reported_together() -> None:
    (warning,) = NodeConfig.parse({**GOOD, "num.io.threads": "8", "num.network.threads": "3"}).warnings
    assert warning.endswith("num.io.threads, num.network.threads")


def test_an_older_name_of_the_node_id_is_taken_but_may_not_contradict() -> None:
    without = {k: v for k, v in GOOD.items() if k != "node.id"}
    assert NodeConfig.parse({**without, "broker.id": "4"}).node_id == 4
    with pytest.raises(ConfigError, match="must agree"):
        NodeConfig.parse({**GOOD, "broker.id": "4"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"process.roles": "broker,boss"}, "process.roles: 'broker,boss' is not allowed"),
        ({"node.id": "one"}, "node.id: 'one' is not a whole number of 32 bits"),
        ({"node.id": "-1"}, "node.id: '-1' is not allowed; want a number of at least 0"),
        ({"listeners": "CLIENTS:9092"}, "'CLIENTS:9092' is not NAME://host:port"),
        ({"listeners": "OTHER://:1,CONTROLLER://:2"}, "add OTHER:PROTOCOL to listener.security.protocol.map"),
        ({"listeners": "CLIENTS://:1"}, "a controller must listen on one"),
        ({"listeners": "CONTROLLER://:1"}, "add one that is not in controller.listener.names"),
        ({"listeners": "CLIENTS://:1,CLIENTS://:2,CONTROLLER://:3"}, "listener CLIENTS stands there twice"),
        ({"advertised.listeners": "CONTROLLERS://:1"}, "CONTROLLERS"),
        pytest.param(
            {"early.start.listeners": "NOWHERE"},
            "early.start.listeners: NOWHERE is neither in listeners",
            marks=pytest.mark.requirement("A-22"),
        ),
        (
            {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"},
            "keeps its rules in ZooKeeper, and zookeeper.connect",
        ),
        ({"sasl.enabled.mechanisms": "DIGEST-MD5"}, "offers DIGEST-MD5, which is not served here"),
        ({"controller.quorum.voters": "2@127.0.0.1:9093"}, "does not name this controller; add 1@host:port"),
        (
            {"process.roles": "broker", "listeners": "CLIENTS://:1", "controller.quorum.voters": "1@127.0.0.1:9093"},
            "names this node, 1, which is no controller",
        ),
        ({"controller.quorum.voters": "1-127.0.0.1:9093"}, "is not id@host:port"),
    ],
)
def test_a_fault_is_named_with_what_would_be_right(change: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        NodeConfig.parse({**GOOD, **change})
    assert said in str(refused.value)


def test_a_file_is_read_and_overrides_win(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{k}={v}\n" for k, v in GOOD.items()) + "# a comment\nlog.dirs=/a,\\\n  /b\n")
    config = NodeConfig.load(path, {"node.id": "9"})
    assert (config.node_id, config.log_dirs, config.metadata_log_dir) == (9, ("/a", "/b"), "/a")
    with pytest.raises(ConfigError, match="cannot read"):
        NodeConfig.load(tmp_path / "missing")
