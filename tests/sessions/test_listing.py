"""`barnabas sessions`: who is connected, and the end of a session by hand."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.testing.cluster import Cluster
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from tests.server.frames import FramePeer, port_of

from .nodes import LONG, OPEN, killed, renew, served, session_settings

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s") / "sessions"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, path: Path) -> Iterator[Cluster]:
    settings = session_settings(barnabas__sessions__socket=str(path))
    with Cluster(tmp_path_factory.mktemp("listing"), settings) as found:
        yield found


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Run the command; gives its exit code and what it said."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["sessions", *words])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out + said.err


def listed(capsys: pytest.CaptureFixture[str], cluster: Cluster) -> list[dict[str, Any]]:
    code, text = run(capsys, "list", "--config", str(cluster.files.properties), "--output", "json")
    assert code == 0, text
    found: list[dict[str, Any]] = json.loads(text)
    return found


def introduce(peer: FramePeer, name: str) -> None:
    peer.call(ApiVersionsRequest(client_software_name=name, client_software_version="4.5"), 3)


def test_sessions_are_listed_with_who_and_how_long(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    with FramePeer(port_of(cluster, LONG)) as peer, FramePeer(port_of(cluster, OPEN)) as plain:
        introduce(peer, "lister")
        peer.login("alice")
        renew(peer, "alice")
        introduce(plain, "stranger")
        by_software = {one["client_software_name"]: one for one in listed(capsys, cluster)}
        one, other = by_software["lister"], by_software["stranger"]
        assert (one["principal"], one["mechanism"], one["listener"]) == ("User:alice", "PLAIN", LONG)
        assert (one["client_software_version"], one["reauthentications"]) == ("4.5", 1)
        assert 0 <= one["age_ms"] < 120_000
        assert 0 < one["remaining_ms"] <= 120_000
        assert (other["principal"], other["mechanism"]) == ("User:ANONYMOUS", None)
        assert (other["remaining_ms"], other["reauthentications"]) == (None, 0)
        code, table = run(capsys, "list", "--config", str(cluster.files.properties))
        assert code == 0
        assert "lister 4.5" in table
        assert "without end" in table


def test_a_session_that_was_ended_by_hand_has_to_be_renewed(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    before = killed(cluster)
    config = str(cluster.files.properties)
    with FramePeer(port_of(cluster, LONG)) as capable, FramePeer(port_of(cluster, LONG)) as careless:
        for peer, name in ((capable, "capable"), (careless, "careless")):
            introduce(peer, name)
            peer.login("alice")
        names = {one["client_software_name"]: one["connection"] for one in listed(capsys, cluster)}
        for name in ("capable", "careless"):
            code, said = run(capsys, "expire", "--config", config, names[name])
            assert (code, "has ended" in said) == (0, True), said
        assert renew(capable, "alice").session_lifetime_ms == 120_000
        assert served(capable)
        careless.send(MetadataRequest(topics=[]), 9)
        assert careless.closed()
    assert killed(cluster) == before + 1


def test_who_is_not_there_cannot_be_ended(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(capsys, "expire", "--config", str(cluster.files.properties), "nobody")
    assert code == 1
    assert "no SASL session nobody" in said


def test_only_the_node_s_own_user_may_ask(cluster: Cluster, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_node_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(tmp_path, session_settings(barnabas__sessions__socket=str(tmp_path / "s")))
    with cluster:
        config = str(cluster.files.properties)
    code, said = run(capsys, "list", "--config", config)
    assert code == 1
    assert "does not answer" in said
    assert not (tmp_path / "s").exists()
