"""Controllers and brokers that prove to each other who they are, and what becomes of one that cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from barnabas.net.dev_ca import DevCa
from barnabas.server.config import NodeConfig
from barnabas.server.node import Node
from barnabas.testing.ports import free_ports

from .quorums import WAIT_S, Quorum, note, noted, running

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

BROKER, STRANGER = 4, 3
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = "listener.name.controller.plain.sasl.jaas.config"
SECURED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ctl;User:CN=controller",
}


def tls(directory: Path, authority: DevCa, trusted: DevCa, name: str = "controller") -> dict[str, str]:
    """Give the keys of the certificate `name` by `authority`, where `trusted` signs everybody's."""
    store, trust = directory / f"{name}.pem", directory / "trusted.pem"
    store.write_bytes(authority.issue_server(name=name).store)
    trust.write_bytes(trusted.certificate_pem)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trust),
    }


def jaas(password: str) -> str:
    return f'{PLAIN} required username="ctl" password="{password}" user_ctl="{password}";'


def by_certificate(directory: Path, authority: DevCa) -> dict[str, str]:
    """Give the settings of nodes that know each other by their certificates."""
    return {
        **SECURED,
        **tls(directory, authority, authority),
        "listener.security.protocol.map": "CONTROLLER:SSL,CLIENTS:SSL",
        "ssl.client.auth": "required",
    }


def by_password(directory: Path, authority: DevCa) -> dict[str, str]:
    """Give the settings of nodes that know each other by a password."""
    return {
        **SECURED,
        **tls(directory, authority, authority),
        "listener.security.protocol.map": "CONTROLLER:SASL_SSL,CLIENTS:SSL",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        JAAS: jaas("right"),
    }


@pytest.mark.parametrize("way", [by_certificate, by_password])
async def test_controllers_and_a_broker_work_together_whoever_leads(tmp_path: Path, way: Any) -> None:
    port = free_ports(1)[0]
    role = {
        "process.roles": "broker",
        "listeners": f"CLIENTS://localhost:{port}",
        "inter.broker.listener.name": "CLIENTS",
        "broker.heartbeat.interval.ms": "200",
        "broker.session.timeout.ms": "60000",
    }
    settings = way(tmp_path, DevCa.create())
    quorum = Quorum(tmp_path, others=(BROKER,), settings=settings, own={BROKER: role})
    quorum.format(BROKER)
    broker = Node(NodeConfig.parse(quorum.properties(BROKER)))
    async with running(quorum):
        async with asyncio.timeout(WAIT_S):
            await broker.start()
        try:
            for term in range(2):
                leader = await quorum.leader()
                await leader.controller.write(note("t", term))
                while noted(broker.image(), ["t"]) != {"t": term}:
                    await broker.next_image()
                assert broker.live_broker_ids() == {BROKER}
                await quorum.stop(leader.config.node_id)
                await quorum.leader()
                await quorum.start(leader.config.node_id)
            assert len(await quorum.logs()) == 1
        finally:
            await broker.stop()


async def heard(lines: list[Any], event: str, said: str) -> Mapping[str, Any]:
    """Wait until the log has this, and give it."""
    async with asyncio.timeout(WAIT_S):
        while True:
            for line in lines:
                if line["event"] == event and said in line.get("remedy", line.get("reason", "")):
                    return dict(line)
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("fault", "event", "said"),
    [
        ("password", "another controller cannot be reached", JAAS.replace("plain", "<mechanism>")),
        ("authority", "another controller cannot be reached", "does the node trust the certificate of ssl.keystore"),
        ("authority", "another controller cannot be reached", "listener.name.controller.ssl.truststore"),
        ("principal", "another controller refuses this node's requests", "super.users"),
    ],
    ids=["password", "refused-certificate", "distrusted-certificate", "principal"],
)
async def test_a_controller_that_is_not_let_in_counts_for_nothing_and_says_why(
    tmp_path: Path, fault: str, event: str, said: str
) -> None:
    authority = DevCa.create()
    own = {
        "password": {JAAS: jaas("wrong")},
        "authority": tls(tmp_path, DevCa.create("another"), authority, "forged"),
        "principal": tls(tmp_path, authority, authority, "stranger"),
    }[fault]
    way = by_password if fault == "password" else by_certificate
    quorum = Quorum(tmp_path, settings=way(tmp_path, authority), own={STRANGER: own})
    with capture_logs() as lines:
        async with running(quorum, 1, 2):
            stranger = asyncio.create_task(quorum.start(STRANGER))
            try:
                line = await heard(lines, event, said)
                leader = await quorum.leader()
                await leader.controller.write(note("t", 1))
                for node_id in (1, 2):
                    replica = quorum.nodes[node_id].replica.node
                    voted = replica.role.election().voted
                    assert voted is None or voted.node_id != STRANGER
                    assert replica.leader_id in (1, 2)
                assert leader.replica.node.role.voters[STRANGER].end is None  # type: ignore[union-attr]
                assert line["port"] in quorum.ports.values()
            finally:
                stranger.cancel()
                await asyncio.wait([stranger])
                del quorum.nodes[STRANGER]  # it has stopped by itself: it never came to know the metadata
