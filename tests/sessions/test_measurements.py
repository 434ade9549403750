"""What a node shows of renewed and ended sessions, what it writes down of them, and what they give back."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterator
from typing import Final

import pytest
from structlog.testing import capture_logs

from barnabas.testing.cluster import Cluster
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.clients.nodes import until
from tests.server.frames import FramePeer, port_of

from .nodes import (
    LONG,
    SHORT,
    SHORT_MS,
    SSL,
    StandingClock,
    beans,
    killed,
    listener_bean,
    renew,
    served,
    session_settings,
)

pytestmark = pytest.mark.slow

LIMITED: Final = "127.0.0.7"
"""An address that may hold one connection only."""


@pytest.fixture(scope="module")
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture(scope="module")
def cluster(clock: StandingClock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = session_settings(max__connections__per__ip__overrides=f"{LIMITED}:1")
    with Cluster(tmp_path_factory.mktemp("measured"), settings, conduct=clock) as found:
        yield found


def introduce(peer: FramePeer, name: str, version: str) -> None:
    """Say what software this is (KIP-511)."""
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    assert peer.call(request, 3).error_code == ErrorCode.NONE


@pytest.mark.requirement("R-25")
def test_good_and_bad_renewals_are_counted_apart_from_logins(cluster: Cluster) -> None:
    before = listener_bean(cluster, LONG)
    good, bad = 3, 2
    for _ in range(good):
        with FramePeer(port_of(cluster, LONG)) as peer:
            peer.login("root")
            assert renew(peer).error_code == ErrorCode.NONE
    for _ in range(bad):
        with FramePeer(port_of(cluster, LONG)) as peer:
            peer.login("root")
            assert renew(peer, password="wrong").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    after = listener_bean(cluster, LONG)
    more = {name: after[name] - before[name] for name in after if name.endswith("authentication-total")}
    assert more == {
        "successful-authentication-total": good + bad,
        "failed-authentication-total": 0,
        "successful-reauthentication-total": good,
        "failed-reauthentication-total": bad,
    }
    assert after["successful-reauthentication-rate"] > 0
    assert after["failed-reauthentication-rate"] > 0


@pytest.mark.requirement("R-26")
def test_clients_that_cannot_renew_are_counted(cluster: Cluster) -> None:
    names = [f"successful-authentication-no-reauth-{kind}" for kind in ("total", "rate")]

    def seen(listener: str) -> int:
        found = listener_bean(cluster, listener)
        assert all(name in found for name in names)
        return int(found[names[0]])

    before, of_tls = seen(LONG), seen(SSL)
    with FramePeer(port_of(cluster, LONG)) as peer:
        peer.login("root")
    with FramePeer(port_of(cluster, SSL), ca=cluster.files.ca) as peer:
        assert served(peer)
    assert (seen(LONG), seen(SSL)) == (before, of_tls)
    token = b"\0root\0root-secret"
    with FramePeer(port_of(cluster, LONG)) as peer:
        peer.call(SaslHandshakeRequest(mechanism="PLAIN"))
        peer.call(SaslAuthenticateRequest(auth_bytes=token), 0)
    assert seen(LONG) == before + 1
    with FramePeer(port_of(cluster, LONG)) as peer:
        peer.call(SaslHandshakeRequest(mechanism="PLAIN"), 0)
        peer.send_raw(token)
        peer.receive_raw()
    assert seen(LONG) == before + 2
    assert listener_bean(cluster, LONG)[names[1]] > 0


@pytest.mark.requirement("R-27")
def test_how_long_renewals_take_is_shown(cluster: Cluster, clock: StandingClock) -> None:
    took_ms = 120
    assert math.isnan(listener_bean(cluster, SSL)["reauthentication-latency-avg"])
    assert math.isnan(listener_bean(cluster, SSL)["reauthentication-latency-max"])
    with FramePeer(port_of(cluster, LONG)) as peer:
        peer.login("root")
        peer.call(SaslHandshakeRequest(mechanism="PLAIN"))
        clock.move(took_ms)  # a mechanism that takes its time
        assert peer.call(SaslAuthenticateRequest(auth_bytes=b"\0root\0root-secret")).error_code == ErrorCode.NONE
    found = listener_bean(cluster, LONG)
    assert found["reauthentication-latency-max"] >= took_ms
    assert 0 < found["reauthentication-latency-avg"] <= found["reauthentication-latency-max"]


@pytest.mark.requirement("R-28", "H-38")
def test_a_connection_that_is_cut_off_is_counted_and_the_log_says_whose_it_was_and_why(
    cluster: Cluster, clock: StandingClock
) -> None:
    before, of_listener = killed(cluster), listener_bean(cluster, SHORT)["expired-connections-killed-count"]
    name = f"forgetful-{time.monotonic_ns()}"
    with capture_logs() as log, FramePeer(port_of(cluster, SHORT)) as peer:
        introduce(peer, name, "1.2.3")
        peer.login("root")
        clock.pass_over(SHORT_MS)
        peer.send(MetadataRequest(topics=[]), 9, client_id="its-id")
        assert peer.closed()
    assert killed(cluster) == before + 1
    assert listener_bean(cluster, SHORT)["expired-connections-killed-count"] == of_listener + 1
    assert listener_bean(cluster, LONG)["expired-connections-killed-count"] == 0
    by_software = beans(cluster, f"kafka.server:type=socket-server-metrics,clientSoftwareName={name},listener=*")
    assert [found["expired-connections-killed-count"] for found in by_software.values()] == [1]
    (line,) = (entry for entry in log if "its session has ended" in entry["event"])
    assert line["log_level"] == "warning"
    assert line["software"] == f"{name} 1.2.3"
    assert line["principal"] == "User:root"
    assert line["mechanism"] == "PLAIN"
    assert line["listener"] == SHORT
    assert line["setting"] == f"listener.name.short.connections.max.reauth.ms={SHORT_MS}"
    assert (line["request"], line["client_id"]) == ("Metadata", "its-id")


@pytest.mark.requirement("R-28")
def test_nobody_is_cut_off_who_renews_in_time(cluster: Cluster, clock: StandingClock) -> None:
    before = killed(cluster)
    with FramePeer(port_of(cluster, SHORT)) as peer:
        peer.login("root")
        for _ in range(3):
            clock.move(SHORT_MS)
            assert served(peer)
            assert renew(peer).session_lifetime_ms == SHORT_MS
            assert served(peer)
    assert killed(cluster) == before


@pytest.mark.requirement("R-33")
def test_a_connection_that_is_cut_off_gives_its_place_back(cluster: Cluster, clock: StandingClock) -> None:
    port = port_of(cluster, SHORT)
    before = listener_bean(cluster, SHORT)["connection-count"]
    with FramePeer(port, source=LIMITED) as peer:
        peer.login("root")
        with FramePeer(port, source=LIMITED) as excess:
            assert excess.closed()
        assert listener_bean(cluster, SHORT)["connection-count"] == before + 1
        clock.pass_over(SHORT_MS)
        peer.send(MetadataRequest(topics=[]), 9)
        assert peer.closed()
        until(lambda: listener_bean(cluster, SHORT)["connection-count"], lambda count: count == before)
        with FramePeer(port, source=LIMITED) as next_one:
            next_one.login("root")
            assert served(next_one)


@pytest.mark.requirement("R-33")
def test_answers_that_nobody_reads_do_not_keep_a_connection_whose_session_is_over(
    cluster: Cluster, clock: StandingClock
) -> None:
    port, name = port_of(cluster, SHORT), "connection-count"
    before, kills = listener_bean(cluster, SHORT)[name], killed(cluster)
    with FramePeer(port) as peer:
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.login("root")
        served_before = listener_bean(cluster, SHORT)["request-total"]
        for _ in range(200):
            peer.send(ApiVersionsRequest(), 2)
        until(lambda: listener_bean(cluster, SHORT)["request-total"], lambda count: count > served_before)
        clock.pass_over(SHORT_MS)
        peer.send(MetadataRequest(topics=[]), 9)
        until(lambda: listener_bean(cluster, SHORT)[name], lambda count: count == before)
    assert killed(cluster) == kills + 1


@pytest.mark.requirement("R-34")
@pytest.mark.parametrize("step_s", [-7200, 7200])
def test_a_wall_clock_that_is_set_ends_no_session_sooner_or_later(
    cluster: Cluster, clock: StandingClock, monkeypatch: pytest.MonkeyPatch, step_s: int
) -> None:
    before = killed(cluster)
    really = time.time_ns
    with FramePeer(port_of(cluster, SHORT)) as peer:
        assert peer.login("root").session_lifetime_ms == SHORT_MS
        monkeypatch.setattr(time, "time_ns", lambda: really() + step_s * 1_000_000_000)
        assert served(peer)
        clock.pass_over(SHORT_MS)
        peer.send(MetadataRequest(topics=[]), 9)
        assert peer.closed()
    assert killed(cluster) == before + 1
