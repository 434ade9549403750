"""The kit at a cluster that it did not start, of whose sessions nobody tells it."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.main import main
from barnabas.reauth.live import _sockets
from barnabas.reauth.observation import Records
from barnabas.reauth.outside import Outside, judge
from barnabas.reauth.verdict import Outcome
from barnabas.testing.logs import logged_by_logging
from barnabas.testing.sessions import SessionNode
from tests.clients_under_test.commands import CLIENTS

PROTOCOL = "SASL_PLAINTEXT"
LIFE_MS = 4000
GOOD = Outside(3000, (0, 200), (300, 5000), 5000, Records(9, True, 8))


@pytest.mark.parametrize(
    ("seen", "outcome", "words"),
    [
        (GOOD, Outcome.GOOD, "for 4.8 s without any new connection, and a session lasts 3 s; no record was lost"),
        (
            Outside(3000, (0, 3100), (6000,), 7100, Records(9)),
            Outcome.GETS_BY,
            "whether records were lost cannot be told",
        ),
        (Outside(3000, (0, 3100, 6200), (7000,), 7100, Records(9, True, 8)), Outcome.GETS_BY, "opened 3 connections"),
        (Outside(3000, (0, 200), (300, 5000), 5000, Records(9, True, 9, lost=1)), Outcome.BAD, "1 record of 10 lost"),
        (Outside(3000, (0,), (), 5000), Outcome.UNKNOWN, "no record of it arrived"),
        (Outside(3000), Outcome.UNKNOWN, "no connection of it to a broker was seen"),
        (Outside(0, (0,), (300,), 5000), Outcome.UNKNOWN, "connections.max.reauth.ms is 0"),
        (Outside(3000, (0, 200), (300, 5000), exit_code=3), Outcome.BAD, "ended by itself with exit code 3"),
    ],
)
def test_what_is_said_of_what_was_seen(seen: Outside, outcome: Outcome, words: str) -> None:
    verdict = judge(seen)
    assert verdict.outcome is outcome
    assert words in verdict.words


def test_the_sockets_of_a_session_are_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        own = os.getsid(0)
        assert list(_sockets(own, {port})) == []
        with socket.create_connection(("127.0.0.1", port)) as client:
            (found,) = _sockets(own, {port})
            assert found.split()[0].endswith(f":{client.getsockname()[1]:04X}")


@pytest.fixture(autouse=True)
def _logs() -> Iterator[None]:
    with logged_by_logging():
        yield


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionNode]:
    with SessionNode(
        tmp_path_factory.mktemp("live"),
        {"super.users": "User:admin;User:alice"},
        protocol=PROTOCOL,
        lifetimes_ms=(LIFE_MS,),
    ) as found:
        found.as_user("alice")
        yield found


@pytest.fixture
def settings(node: SessionNode, tmp_path: Path) -> Path:
    path = tmp_path / "alice.properties"
    path.write_text(
        f"bootstrap.servers={node.bootstrap}\nsecurity.protocol={PROTOCOL}\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="alice" password="alice-secret";\n'
    )
    return path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["reauth-check", *words])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


@pytest.mark.slow
def test_a_client_that_renews_is_told_from_one_that_does_not(
    node: SessionNode, settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node.create_topic("of-one", partitions=2)
    node.create_topic("of-the-other")
    at = ["--bootstrap-server", node.bootstrap, "--command-config", str(settings)]
    code, out, err = run(capsys, *at, "--topic", "of-one", "--client-command", CLIENTS["Barnabas"].command())
    assert (code, "good     re-authenticates: its records arrived for" in out) == (0, True), out
    assert "no record was lost" in out
    assert f"Sessions last {LIFE_MS // 1000} s" in err
    never = f"env REAUTH_USERNAME=alice REAUTH_PASSWORD=alice-secret {sys.executable} -m tests.reauth.raw_client never"
    command = f"{never} {{bootstrap}} {{topic}}"
    code, out, _ = run(capsys, *at, "--topic", "of-the-other", "--json", "--client-command", command)
    assert code == 1
    told = json.loads(out)
    assert (told["outcome"], told["lifetime_ms"], told["records"]["lost"]) == ("gets_by", LIFE_MS, 0)
    assert len(told["opened_ms"]) >= 4


@pytest.mark.slow
def test_what_is_missing_is_asked_for(node: SessionNode, settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = ["--bootstrap-server", node.bootstrap, "--client-command", "true"]
    code, _, err = run(capsys, *at)
    assert (code, "say how to log in by --command-config" in err) == (1, True)
    code, _, err = run(capsys, "--client-command", "true", "--topic", "orders")
    assert (code, "--bootstrap-server says which" in err) == (1, True)
    node.set_lifetimes(0)
    code, out, _ = run(capsys, *at, "--command-config", str(settings), "--topic", "orders")
    node.set_lifetimes(LIFE_MS)
    assert (code, "sessions without end" in out) == (1, True)
