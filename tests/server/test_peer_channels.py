"""A node as a client of its fellows: the listener that it connects to says what it speaks and who it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.core.sasl.client import SaslClient, SendHandshake
from barnabas.model.config import ConfigError
from barnabas.net.client import Channel
from barnabas.net.dev_ca import DevCa
from barnabas.server.config import NodeConfig
from barnabas.server.peer_channels import peer_settings
from barnabas.testing.cluster import Cluster
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def broker(**settings: str) -> NodeConfig:
    """Give a broker-only node's configuration; settings: keys with `__` for a dot."""
    return NodeConfig.parse(
        {
            "process.roles": "broker",
            "node.id": "2",
            "listeners": "REPLICATION://localhost:9092",
            "inter.broker.listener.name": "REPLICATION",
            "controller.listener.names": "QUORUM",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "listener.security.protocol.map": "REPLICATION:SASL_PLAINTEXT,QUORUM:SASL_PLAINTEXT,OPEN:PLAINTEXT",
            "listener.name.replication.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.replication.scram-sha-512.sasl.jaas.config": f'{SCRAM} username="b" password="bb";',
            "listener.name.quorum.plain.sasl.jaas.config": f'{PLAIN} username="c" password="cc";',
            **{key.replace("__", "."): value for key, value in settings.items()},
        }
    )


@pytest.mark.parametrize(("listener", "mechanism"), [("REPLICATION", "SCRAM-SHA-512"), ("QUORUM", "PLAIN")])
def test_each_listener_has_its_mechanism(listener: str, mechanism: str) -> None:
    settings = peer_settings(broker(), listener, "2")
    assert settings.tls is None
    assert settings.sasl is not None
    begun = settings.sasl("localhost")
    assert isinstance(begun, SaslClient)
    assert begun.next_request == SendHandshake(mechanism)


def test_a_plain_listener_needs_no_credentials() -> None:
    settings = peer_settings(broker(), "OPEN", "2")
    assert (settings.tls, settings.sasl, settings.client_id) == (None, None, "2")


def test_timeouts_are_kafkas_keys() -> None:
    config = broker(request__timeout__ms="4000", socket__connection__setup__timeout__ms="500")
    settings = peer_settings(config, "OPEN", "2")
    assert (settings.request_timeout_ms, settings.connect_timeout_ms) == (4000, 500)


@pytest.mark.parametrize(
    ("settings", "listener", "said"),
    [
        ({}, "OTHER", "does not say what listener OTHER speaks"),
        (
            {"sasl__mechanism__controller__protocol": "SCRAM-SHA-256"},
            "QUORUM",
            "listener.name.quorum.scram-sha-256.sasl.jaas.config is missing",
        ),
        (
            {"listener__name__quorum__plain__sasl__jaas__config": f'{PLAIN} user_c="cc";'},
            "QUORUM",
            "has no username and password",
        ),
        (
            {
                "sasl__mechanism__controller__protocol": "DIGEST-MD5",
                "listener__name__quorum__digest-md5__sasl__jaas__config": f'{PLAIN} username="c" password="cc";',
            },
            "QUORUM",
            "sasl.mechanism.controller.protocol=DIGEST-MD5: this node cannot log in so",
        ),
        (
            {"sasl__mechanism__controller__protocol": "GSSAPI"},
            "QUORUM",
            "sasl.mechanism.controller.protocol=GSSAPI: ",
        ),
    ],
)
def test_what_is_wrong_is_named(settings: dict[str, str], listener: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        peer_settings(broker(**settings), listener, "2")


async def test_two_nodes_talk_over_tls_and_scram(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.as_user("other-node")
        config = broker(
            listener__security__protocol__map="REPLICATION:SASL_SSL,QUORUM:PLAINTEXT",
            ssl__keystore__type="PEM",
            ssl__keystore__location=str(own_key(tmp_path)),
            listener__name__replication__ssl__truststore__type="PEM",
            listener__name__replication__ssl__truststore__location=str(cluster.files.ca),
            **{
                "listener.name.replication.scram-sha-512.sasl.jaas.config": f"{SCRAM} "
                'username="other-node" password="other-node-secret";'
            },
        )
        host, _, port = cluster.bootstrap.rpartition(":")
        channel = await Channel.open(host, int(port), peer_settings(config, "REPLICATION", "2"))
        answer = await channel.call(DescribeClusterRequest())
        assert answer.error_code == ErrorCode.NONE
        await channel.close()


def own_key(directory: Path) -> Path:
    """Write a key store of the node that connects."""
    path = directory / "own.pem"
    path.write_bytes(DevCa.create().issue_client("node-2").store)
    return path
