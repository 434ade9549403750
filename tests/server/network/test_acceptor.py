"""Limits on connections, with real ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from barnabas.testing.cluster import Cluster
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.metadata import MetadataRequest
from tests.clients.nodes import until
from tests.server.frames import LIMIT_S, LOGIN, OPEN, FramePeer, port_of, several_listeners
from tests.server.test_operations import quota

IDLE_MS, DELAY_MS = 5_000, 400


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        **several_listeners(),
        "connection.failed.authentication.delay.ms": str(DELAY_MS),
        "max.connections.per.ip": "50",
        "max.connections.per.ip.overrides": "127.0.0.7:2,127.0.0.8:0",
        "listener.name.open.max.connections": "5",
        "quota.window.num": "2",
    }
    with Cluster(tmp_path_factory.mktemp("limits"), settings) as found:
        yield found


def served(peer: FramePeer) -> bool:
    return bool(peer.call(ApiVersionsRequest(), 0).api_keys)


def configure(cluster: Cluster, name: str, value: str) -> None:
    with FramePeer(port_of(cluster, LOGIN)) as root:
        root.login("root")
        config = AlterableConfig(name=name, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
        answer = root.call(IncrementalAlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == 0, answer


def test_an_address_gets_as_many_connections_as_it_may_have(cluster: Cluster) -> None:
    port = port_of(cluster, LOGIN)
    with FramePeer(port, source="127.0.0.7") as one, FramePeer(port, source="127.0.0.7") as two:
        assert served(one)
        assert served(two)
        with FramePeer(port, source="127.0.0.7") as three:
            assert three.closed()
        with FramePeer(port, source="127.0.0.8") as banned:
            assert banned.closed()
        with FramePeer(port, source="127.0.0.9") as another:
            assert served(another)
        assert one.login("root").error_code == 0
    until(lambda: cluster.node.limits.count(LOGIN), lambda left: left == 0)
    with FramePeer(port, source="127.0.0.7") as again:
        assert served(again)


def test_a_full_listener_keeps_peers_waiting_until_one_leaves(cluster: Cluster) -> None:
    port = port_of(cluster, OPEN)
    with ExitStack() as stack:
        peers = [stack.enter_context(FramePeer(port)) for _ in range(5)]
        assert all(served(peer) for peer in peers)
        sixth = stack.enter_context(FramePeer(port))
        sixth.send(ApiVersionsRequest(), 0)
        assert sixth.silent(0.2)
        with FramePeer(port_of(cluster, LOGIN)) as other:
            assert served(other)  # another listener has room of its own
        peers[2].socket.close()
        assert sixth.receive(ApiVersionsRequest(), 0)[1].api_keys


def test_a_limit_changed_while_peers_wait_lets_them_in(cluster: Cluster) -> None:
    port = port_of(cluster, OPEN)
    with ExitStack() as stack:
        peers = [stack.enter_context(FramePeer(port)) for _ in range(5)]
        assert all(served(peer) for peer in peers)
        sixth = stack.enter_context(FramePeer(port))
        sixth.send(ApiVersionsRequest(), 0)
        assert sixth.silent(0.1)
        configure(cluster, "listener.name.open.max.connections", "6")
        assert sixth.receive(ApiVersionsRequest(), 0)[1].api_keys
    configure(cluster, "listener.name.open.max.connections", "5")


@pytest.mark.slow
def test_connections_beyond_a_rate_wait_their_turn(cluster: Cluster) -> None:
    configure(cluster, "listener.name.open.max.connection.creation.rate", "10")
    begin = time.monotonic()
    for _ in range(25):
        with FramePeer(port_of(cluster, OPEN)) as peer:
            assert served(peer)
    assert time.monotonic() - begin > 0.4
    configure(cluster, "listener.name.open.max.connection.creation.rate", str(2**31 - 1))


@pytest.mark.slow
def test_an_address_beyond_its_own_rate_is_closed(cluster: Cluster) -> None:
    with FramePeer(port_of(cluster, LOGIN)) as root:
        root.login("root")
        quota(root, "ip", "127.0.0.5", "connection_creation_rate", 3)
    outcomes = []
    with ExitStack() as stack:
        # All at once: an address that is served first may be too slow to be too fast.
        for peer in [stack.enter_context(FramePeer(port_of(cluster, LOGIN), source="127.0.0.5")) for _ in range(20)]:
            try:
                outcomes.append(served(peer))
            except ConnectionError:
                outcomes.append(False)
    assert outcomes[0]
    assert not all(outcomes)
    with FramePeer(port_of(cluster, LOGIN), source="127.0.0.6") as peer:
        assert served(peer)


def test_a_failed_login_is_answered_late_and_closed(cluster: Cluster) -> None:
    with FramePeer(port_of(cluster, LOGIN)) as peer:
        begin = time.monotonic()
        answer = peer.login("alice", "guess")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert time.monotonic() - begin > DELAY_MS / 1000 * 0.9
        assert peer.closed()


@pytest.mark.slow
def test_a_silent_connection_is_closed_and_a_talking_one_stays(tmp_path: Path) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(tmp_path, several_listeners(connections__max__idle__ms=str(IDLE_MS))))
        silent = stack.enter_context(FramePeer(port_of(cluster, LOGIN)))
        talking = stack.enter_context(FramePeer(port_of(cluster, LOGIN)))
        talking.login("root")
        begin = time.monotonic()
        while silent.silent(0.2):
            assert talking.call(MetadataRequest(topics=[]), 9).error_code == 0
            assert time.monotonic() - begin < LIMIT_S
        assert silent.closed()
        assert time.monotonic() - begin > IDLE_MS / 1000 * 0.8
        assert talking.call(MetadataRequest(topics=[]), 9).error_code == 0


def test_brokers_find_room_where_clients_have_taken_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The listener between brokers goes over max.connections, and the client silent for longest makes room."""
    settings = {**several_listeners(), "inter.broker.listener.name": "SASL_SSL", "max.connections": "2"}
    with Cluster(tmp_path_factory.mktemp("room"), settings) as cluster, ExitStack() as stack:
        old = stack.enter_context(FramePeer(port_of(cluster, OPEN)))
        young = stack.enter_context(FramePeer(port_of(cluster, OPEN)))
        assert served(old)
        assert served(young)
        broker = stack.enter_context(FramePeer(port_of(cluster, "SASL_SSL"), ca=cluster.files.ca))
        assert served(broker)
        assert old.closed()
        assert served(young)
