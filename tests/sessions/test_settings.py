"""`connections.max.reauth.ms` as a setting: its default, its prefixes, and what cannot be done with it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import AlterConfigOp, ConfigChange, ConfigResource, ConfigResourceType
from barnabas.client.config import CLIENT_KEYS, ClientConfig
from barnabas.model.config import format_properties, parse_properties
from barnabas.server.config import NodeConfig
from barnabas.testing.cluster import Cluster
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.server.frames import LOGIN, FramePeer, port_of, several_listeners

from .nodes import LONG, killed, served, session_settings

KEY = "connections.max.reauth.ms"
BROKER = ConfigResource(ConfigResourceType.BROKER, "1")


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("endless"), several_listeners()) as found:
        yield found


async def described(cluster: Cluster) -> dict[str, tuple[str | None, bool]]:
    """Give (value, whether it cannot be changed) of the broker's settings."""
    async with Admin(cluster.admin.barnabas) as admin:
        found = (await admin.describe_configs([BROKER]))[BROKER]
        assert not isinstance(found, Exception)
        return {entry.name: (entry.value, entry.read_only) for entry in found}


async def change(cluster: Cluster, key: str, value: str) -> Exception | None:
    """Try to change a setting of the broker; gives what it was refused by."""
    async with Admin(cluster.admin.barnabas) as admin:
        changes = {BROKER: [ConfigChange(key, AlterConfigOp.SET, value)]}
        return (await admin.incremental_alter_configs(changes))[BROKER]


@pytest.mark.slow
@pytest.mark.requirement("R-02")
async def test_it_is_listed_with_its_default(endless: Cluster) -> None:
    assert (await described(endless))[KEY] == ("0", True)


@pytest.mark.slow
@pytest.mark.requirement("R-03")
def test_with_0_sessions_have_no_end_and_nothing_changes(endless: Cluster) -> None:
    before = killed(endless)
    with FramePeer(port_of(endless, LOGIN)) as peer, FramePeer(port_of(endless, LOGIN)) as old:
        assert peer.login("root").session_lifetime_ms == 0
        old.call(SaslHandshakeRequest(mechanism="PLAIN"), 0)
        old.send_raw(b"\0root\0root-secret")
        assert old.receive_raw() == b""
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            assert served(peer)
            assert served(old)
        for connection in (peer, old):
            # There is nothing to renew: an error of its own, and the connection goes on.
            shaken = connection.call(SaslHandshakeRequest(mechanism="PLAIN"))
            assert shaken.error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert served(connection)
    assert killed(endless) == before


@pytest.mark.slow
@pytest.mark.requirement("R-20")
async def test_it_cannot_be_changed_while_the_node_runs(endless: Cluster) -> None:
    for key in (KEY, f"listener.name.login.{KEY}", f"listener.name.login.plain.{KEY}"):
        refused = await change(endless, key, "5000")
        assert isinstance(refused, ApiError), key
        assert refused.code == ErrorCode.INVALID_REQUEST, key
    with FramePeer(port_of(endless, LOGIN)) as peer:
        assert peer.login("root").session_lifetime_ms == 0


@pytest.mark.slow
@pytest.mark.requirement("R-20")
def test_a_listener_that_is_added_later_brings_its_own(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, several_listeners())
    with cluster:
        file = cluster.files.properties
    later = session_settings()
    kept = parse_properties(file.read_text(encoding="utf-8"))
    new = {key: value for key, value in later.items() if "listener" in key and key != KEY}
    file.write_text(format_properties({**kept, **new}), encoding="utf-8")
    with cluster:
        with FramePeer(port_of(cluster, LONG)) as peer:
            assert peer.login("root").session_lifetime_ms == 120_000
        with FramePeer(port_of(cluster, "OPEN")) as peer:
            assert served(peer)
    assert NodeConfig.load(file)[KEY] == 0


@pytest.mark.requirement("R-32")
def test_the_settings_of_the_superseded_draft_are_unknown() -> None:
    old = "sasl.login.refresh.reauthenticate.enable"
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "log.dirs": "/nowhere",
    }
    without = NodeConfig.parse(properties)
    assert not any(old in warning for warning in without.warnings)
    config = NodeConfig.parse({**properties, old: "true"})
    assert any(warning.startswith(f"{old} is not a setting of Kafka's") for warning in config.warnings)
    assert replace(config, originals={}, warnings=()) == replace(without, originals={}, warnings=())
    client = ClientConfig.from_properties({"bootstrap.servers": "127.0.0.1:1", old: "true"})
    assert old in client.unknown


@pytest.mark.requirement("R-24")
def test_no_setting_of_a_client_switches_renewals_off() -> None:
    assert [key.name for key in CLIENT_KEYS if "reauth" in key.name] == []


@pytest.mark.slow
@pytest.mark.requirement("R-31")
def test_a_renewal_needs_no_requests_of_its_own(endless: Cluster) -> None:
    with FramePeer(port_of(endless, LOGIN)) as peer:
        offered = {key.api_key for key in peer.call(ApiVersionsRequest(), 2).api_keys}
    about_sasl = {key for key in offered if "SASL" in ApiKey(key).name or "AUTH" in ApiKey(key).name}
    assert about_sasl == {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
