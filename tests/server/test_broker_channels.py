"""How a broker connects to others for transactions, and what of its configuration changes while it runs."""

from __future__ import annotations

from pathlib import Path

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import AlterConfigOp, ConfigChange, ConfigResource, ConfigResourceType
from barnabas.server.broker_channels import BrokerChannels
from barnabas.server.config import NodeConfig
from barnabas.testing.cluster import Cluster
from tests.peers.eventually import eventually


def config(**settings: str) -> NodeConfig:
    """Give a broker's configuration; settings: keys with `__` for a dot."""
    return NodeConfig.parse(
        {
            "process.roles": "broker",
            "node.id": "2",
            "listeners": "PLAINTEXT://localhost:9092",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            **{key.replace("__", "."): value for key, value in settings.items()},
        }
    )


def test_they_are_not_those_of_fetchers() -> None:
    channels = BrokerChannels(
        config(
            request__timeout__ms="4000", replica__socket__timeout__ms="9000", socket__receive__buffer__bytes="70000"
        ),
        lambda broker: None,
    )
    settings = channels.settings()
    assert settings.client_id == "broker-2-transactions"
    assert (settings.request_timeout_ms, settings.receive_buffer_bytes) == (4000, 70_000)
    assert channels.settings() is settings
    channels.reconfigure(config(request__timeout__ms="5000"))
    assert channels.settings().request_timeout_ms == 5000


async def test_verification_is_switched_while_a_node_runs(tmp_path: Path) -> None:
    every_broker = ConfigResource(ConfigResourceType.BROKER, "")
    with Cluster(tmp_path) as cluster:
        verification = cluster.node.replicas.verification

        async def is_enabled() -> bool:
            return verification.is_enabled

        async with Admin(cluster.admin.barnabas) as admin:
            for op, wanted in ((AlterConfigOp.SET, False), (AlterConfigOp.DELETE, True)):
                change = ConfigChange("transaction.partition.verification.enable", op, "false")
                assert await admin.incremental_alter_configs({every_broker: [change]}) == {every_broker: None}
                await eventually(is_enabled, wanted)
