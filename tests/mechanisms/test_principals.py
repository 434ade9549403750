"""Principal builders as plug-ins: found, refused, and the same on broker and controller (KIP-189, KIP-590)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from barnabas.core.forwarding.envelope import wrap
from barnabas.core.forwarding.principal import DefaultPrincipalSerde
from barnabas.core.sasl.exchange import AuthenticationError, Verified
from barnabas.model.config import ConfigError
from barnabas.model.principal import ANONYMOUS, KafkaPrincipal
from barnabas.model.principal_builder import PrincipalError
from barnabas.server.config import NodeConfig
from barnabas.server.context import ClientConnection
from barnabas.server.logins.principals import KEY, Principals
from barnabas.server.node import Node
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from tests.forwarding.in_process import InProcess
from tests.forwarding.scripted import client_request
from tests.server.controllers import node_config
from tests.server.requests import build

from .builders import TenantBuilder, TenantPrincipal

K, E = ApiKey, ErrorCode
TENANTS, OWN_TENANT = "tests.mechanisms.builders:TenantBuilder", "tests.mechanisms.builders:OwnTenant"
CLIENT = ClientConnection("id", "192.0.2.7", 1, "CLIENTS", "SASL_PLAINTEXT", ANONYMOUS)


def load(**settings: str) -> Principals:
    """Give the principals of a node with such settings."""
    return Principals.load(node_config(Path("nowhere"), **settings))


def topic(name: str) -> dict[str, Any]:
    """Give a topic as CreateTopics wants it."""
    return {"name": name, "num_partitions": 1, "replication_factor": 1}


@pytest.mark.requirement("F-29", "F-30")
@pytest.mark.parametrize("by_token", [False, True])
def test_a_principal_with_more_to_it_survives_the_way(by_token: bool) -> None:
    principals = load(**{KEY: TENANTS})
    made = principals.of_sasl(CLIENT, "PLAIN", Verified(b"", "acme-alice", token_authenticated=by_token))
    assert made == TenantPrincipal("User", "acme-alice", by_token, "acme")
    read = principals.serde.deserialize(principals.serde.serialize(made))
    assert (read, read.token_authenticated) == (made, by_token)


@pytest.mark.parametrize("data", [b"", b"[1]", b"\0\0\x05User\x06alice\0\0"])
@pytest.mark.requirement("F-31")
def test_bytes_of_another_builder_are_no_principal(data: bytes) -> None:
    with pytest.raises(PrincipalError, match="cannot read the principal"):
        load(**{KEY: TENANTS}).serde.deserialize(data)


@pytest.mark.requirement("F-32")
def test_a_builder_without_serializer_is_refused_by_the_name_of_its_setting() -> None:
    with pytest.raises(ConfigError, match=r"principal\.builder\.class: .*WithoutSerde has no serialize"):
        load(**{KEY: "tests.mechanisms.builders:WithoutSerde"})


IN_ZOOKEEPER_MODE = {
    "broker.id": "1",
    "zookeeper.connect": "127.0.0.1:2181",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    KEY: "tests.mechanisms.builders:WithoutSerde",
}


@pytest.mark.requirement("F-32")
@pytest.mark.parametrize("level", ["3.0-IV0", "3.0", "3.9.1"])
def test_in_zookeeper_mode_it_is_refused_from_generation_3_on(level: str) -> None:
    config = NodeConfig.parse({**IN_ZOOKEEPER_MODE, "inter.broker.protocol.version": level})
    with pytest.raises(ConfigError, match=r"principal\.builder\.class: .*WithoutSerde has no serialize"):
        Principals.load(config)


@pytest.mark.requirement("F-32")
@pytest.mark.parametrize("level", ["2.8", "2.8-IV0"])
def test_before_generation_3_it_is_warned_of_and_does_not_forward(level: str) -> None:
    config = NodeConfig.parse({**IN_ZOOKEEPER_MODE, "inter.broker.protocol.version": level})
    with structlog.testing.capture_logs() as logs:
        principals = Principals.load(config)
    (warning,) = [entry["event"] for entry in logs if entry["log_level"] == "warning"]
    assert "principal.builder.class: tests.mechanisms.builders:WithoutSerde has no serialize" in warning
    assert f"before inter.broker.protocol.version is raised from {config.protocol_version}" in warning
    assert not config.protocol_version.forwards
    assert principals.of_sasl(CLIENT, "PLAIN", Verified(b"", "alice")).name == "alice"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({KEY: "tests.mechanisms.builders:Nothing"}, "cannot load"),
        ({KEY: "json:dumps"}, "is not a class with a method build"),
        ({f"listener.name.clients.{KEY}": TENANTS}, "one builder serves all listeners"),
    ],
)
def test_what_is_no_builder_is_refused(settings: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load(**settings)


def test_whom_the_builder_refuses_nobody_lets_in() -> None:
    principals = load(**{KEY: "tests.mechanisms.builders:Refusing"})
    with pytest.raises(AuthenticationError, match="no such person") as refused:
        principals.of_sasl(CLIENT, "PLAIN", Verified(b"", "mallory"))
    assert refused.value.public is None
    assert principals.of_peer("PLAINTEXT", "OPEN", "192.0.2.7", None, lambda: ANONYMOUS).name == "ANONYMOUS"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    """Give a cluster whose nodes build principals with tenants, and whose controller decides by them."""
    folder = tmp_path_factory.mktemp("tenants")
    settings: dict[str, Any] = {"principal__builder__class": TENANTS}
    with InProcess(folder, controllers=(101,), brokers=(1,), **settings) as found:
        found.stop_node(101)
        found.start_node(101, authorizer__class__name=OWN_TENANT)
        yield found


@pytest.mark.slow
@pytest.mark.requirement("F-30")
def test_the_controller_decides_by_the_tenant_of_a_brokers_client(cluster: InProcess) -> None:
    wanted = [topic("alice-orders"), topic("bob-orders")]
    answer = cluster.ask(1, K.CREATE_TOPICS, user="alice", topics=wanted, timeout_ms=9000)
    codes = {t.name: t.error_code for t in answer.topics}
    assert codes == {"alice-orders": E.NONE, "bob-orders": E.TOPIC_AUTHORIZATION_FAILED}


@pytest.mark.slow
@pytest.mark.requirement("F-31")
def test_two_nodes_with_different_builders(cluster: InProcess) -> None:
    request = build(K.CREATE_TOPICS, topics=[topic("alice-more")], timeout_ms=9000)
    alice = KafkaPrincipal("User", "alice")
    with cluster.frames(101, "broker-1") as peer:
        refused = peer.call(wrap(client_request(request, 7)[1], alice, "127.0.0.1", DefaultPrincipalSerde()))
        assert (refused.error_code, refused.response_data) == (E.PRINCIPAL_DESERIALIZATION_FAILURE, None)
        taken = peer.call(wrap(client_request(request, 7)[1], TenantPrincipal("User", "alice", False, "alice"),
                               "127.0.0.1", TenantBuilder()))  # fmt: skip
        assert taken.error_code == E.NONE
    cluster.stop_node(1)
    default = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    cluster.start_node(1, principal__builder__class=default)
    try:
        answer = cluster.ask(1, K.CREATE_TOPICS, user="alice", topics=[topic("alice-other")], timeout_ms=9000)
        assert [t.error_code for t in answer.topics] == [E.UNKNOWN_SERVER_ERROR]
    finally:
        cluster.stop_node(1)
        cluster.start_node(1)


@pytest.mark.slow
@pytest.mark.requirement("F-32")
async def test_a_node_does_not_come_up_without_a_serializer(cluster: InProcess, tmp_path: Path) -> None:
    settings = {**cluster.config(1), "log.dirs": str(tmp_path), KEY: "tests.mechanisms.builders:WithoutSerde"}
    with pytest.raises(ConfigError, match=r"principal\.builder\.class"):
        Node(NodeConfig.parse(settings))


ODD_NAMES = (
    "CN=a b,O=x\\, y",
    "ä:ö",
    "*",
    "a\x00b",
    " ",
    "User:alice",
    "'; --",
    "\u202eecila",
    "x" * 5000,
    "\U0001f600",
)


@pytest.mark.requirement("F-29")
@pytest.mark.parametrize("name", ODD_NAMES, ids=range(len(ODD_NAMES)))
def test_odd_names_travel_as_they_are(name: str) -> None:
    principals = load()
    made = principals.of_peer("SSL", "TLS", "192.0.2.7", b"DER", lambda: KafkaPrincipal("User", name))
    token = principals.of_sasl(CLIENT, "SCRAM-SHA-256", Verified(b"", name, token_authenticated=True))
    for principal in (made, token):
        read = principals.serde.deserialize(principals.serde.serialize(principal))
        assert (read, read.token_authenticated) == (principal, principal.token_authenticated)
        assert read.name == name
