"""The node with short sessions: it sees and does what tests of clients ask for."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from barnabas.testing.session_events import Kind
from barnabas.testing.sessions import SessionNode
from barnabas.wire.messages.metadata import MetadataRequest
from tests.server.frames import FramePeer, port_of
from tests.sessions.nodes import pass_over, renew, served

pytestmark = pytest.mark.slow
PROTOCOL = "SASL_PLAINTEXT"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionNode]:
    with SessionNode(tmp_path_factory.mktemp("sessions"), protocol=PROTOCOL) as found:
        found.as_user("alice")
        yield found


@pytest.fixture
def node(shared: SessionNode) -> Iterator[SessionNode]:
    yield shared
    shared.set_lifetimes(60_000)
    shared.slow_logins(0)
    shared.slow_answers(0)
    shared.change_password("alice", "alice-secret")


def kinds(node: SessionNode, since: int) -> list[Kind]:
    return [event.kind for event in node.events()[since:]]


@pytest.mark.requirement("R-07", "R-16")
def test_each_session_lasts_as_the_next_lifetime_says(node: SessionNode) -> None:
    since = len(node.events())
    node.set_lifetimes(1100, 60_000, 90_000)
    began = time.monotonic()
    with FramePeer(port_of(node, PROTOCOL)) as peer:
        assert peer.login("alice").session_lifetime_ms == 1100
        pass_over(began, 1100)
        assert renew(peer, "alice").session_lifetime_ms == 60_000
        assert served(peer)
        (session,) = [one for one in node.sessions() if one.principal == "User:alice"]
        assert session.reauthentications == 1
        with FramePeer(port_of(node, PROTOCOL)) as other:
            assert other.login("alice").session_lifetime_ms == 90_000
        node.wait_for(lambda: Kind.ENDED in kinds(node, since))
        assert node.expire_now(session.connection)
        peer.send(MetadataRequest(topics=[]), 9)
        assert peer.closed()
    node.wait_for(lambda: kinds(node, since).count(Kind.ENDED) == 2)
    first = [event.kind for event in node.events()[since:] if event.connection == session.connection]
    assert first == [
        Kind.OPENED, Kind.TRIED, Kind.LOGGED_IN, Kind.TRIED, Kind.RENEWED, Kind.CUT_OFF, Kind.ENDED,
    ]  # fmt: skip
    seen = {one.name: one for one in node.connections()}[session.connection]
    assert (seen.renewals, seen.cut_off, seen.principal) == (1, "Metadata", "User:alice")
    assert node.requests()[session.connection] == 1


def test_a_login_can_be_slow(node: SessionNode) -> None:
    node.slow_logins(300)
    with FramePeer(port_of(node, PROTOCOL)) as peer:
        began = time.monotonic()
        assert peer.login("alice").error_code == 0
        assert time.monotonic() - began >= 0.3  # the one answer that is not the last


def test_another_password_counts_from_the_next_login_on(node: SessionNode) -> None:
    since = len(node.events())
    with FramePeer(port_of(node, PROTOCOL)) as peer:
        assert peer.login("alice").error_code == 0
        node.change_password("alice", "another")
        assert served(peer)
        assert renew(peer, "alice").error_code == 58
        assert peer.closed()
    with FramePeer(port_of(node, PROTOCOL)) as peer:
        assert peer.login("alice").error_code == 58
    node.wait_for(lambda: Kind.REFUSED in kinds(node, since))
    assert kinds(node, since).count(Kind.RENEWAL_REFUSED) == 1


@pytest.mark.requirement("R-14")
def test_somebody_else_cannot_renew_a_session(node: SessionNode) -> None:
    node.as_user("carol")
    with FramePeer(port_of(node, PROTOCOL)) as peer:
        assert peer.login("carol").error_code == 0
        node.rename("carol", "dave")
        answer = renew(peer, "carol")
        assert answer.error_code == 58
        assert "User:carol to User:dave" in answer.error_message
    with FramePeer(port_of(node, PROTOCOL)) as peer:
        assert peer.login("carol").error_code == 0
        assert {one.principal for one in node.sessions()} >= {"User:dave"}
