"""The kit with clients that were made to do one thing wrong, and with a good one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from barnabas.cli.main import main
from barnabas.reauth.command import CommandError
from barnabas.reauth.run import Check, Result, run_all
from barnabas.reauth.scenarios import SCENARIOS
from barnabas.reauth.verdict import Outcome, Verdict
from barnabas.testing.logs import logged_by_logging
from tests.reauth.raw_client import Manners

pytestmark = pytest.mark.slow

LIFE_MS: Final = 4000
"""The good client renews its sessions a second and a half before they end, and after the node would take it: these are
eight nodes and clients at once."""
GOOD, GETS_BY, BAD, UNKNOWN = Outcome.GOOD, Outcome.GETS_BY, Outcome.BAD, Outcome.UNKNOWN


@pytest.fixture(autouse=True)
def _logs() -> Iterator[None]:
    with logged_by_logging():
        yield


def command(manners: Manners) -> str:
    return f"{sys.executable} -m tests.reauth.raw_client {manners} {{bootstrap}} {{topic}}"


def tried(folder: Path, manners: Manners, *names: str) -> dict[str, Result]:
    """Give what the kit finds, by scenario."""
    chosen = [one for one in SCENARIOS if one.name in names]
    check = Check(command(manners), mechanism="PLAIN", lifetime_ms=LIFE_MS)
    return {one.scenario.name: one for one in run_all(check, chosen, folder, at_once=len(chosen))}


@pytest.mark.requirement("R-13", "R-17")
def test_a_good_client_is_good_in_every_scenario(tmp_path: Path) -> None:
    found = tried(tmp_path, Manners.GOOD, *(one.name for one in SCENARIOS))
    assert {name: one.verdict.outcome for name, one in found.items()} == {one.name: GOOD for one in SCENARIOS}, found
    short = found["short"].verdict.words
    assert short.startswith("re-authenticated 3 times on 1 connection, none was cut; no record was lost"), short
    assert found["password"].verdict.words == "was refused when it re-authenticated, and gave up (exit code 1)"


BAD_CLIENTS: Final = (
    (Manners.NEVER, "short", GETS_BY, "never re-authenticates: 2 connections were closed"),
    (Manners.NEVER, "principal", GETS_BY, "is User:somebody-else on its next connection; no record was lost"),
    (Manners.LOSES, "short", BAD, "2 records of "),
    (Manners.LOSES, "ended", BAD, "1 record of "),
    (Manners.GIVES_UP, "ended", BAD, "ended by itself with exit code 1"),
    (Manners.PIPELINES, "short", BAD, "its re-authentication was refused: METADATA in the state AUTHENTICATE"),
    (Manners.ANOTHER, "short", BAD, "its re-authentication was refused: wrong user name or password"),
    (Manners.SPINS, "password", BAD, "ms after each refusal: it does not wait"),
    (Manners.HANGS, "password", BAD, "hung: it neither ended, nor tried again, nor said a word"),
    (Manners.SHRUGS, "password", BAD, "ended as if all had been well"),
)


def test_bad_clients_are_found_out(tmp_path: Path) -> None:
    def verdict(number: int) -> Verdict:
        manners, scenario, _, _ = BAD_CLIENTS[number]
        return tried(tmp_path / str(number), manners, scenario)[scenario].verdict

    with ThreadPoolExecutor(5) as threads:
        found = list(threads.map(verdict, range(len(BAD_CLIENTS))))
    for (manners, scenario, outcome, words), told in zip(BAD_CLIENTS, found, strict=True):
        assert words in told.words, (manners, scenario)
        assert told.outcome is outcome, (manners, scenario)


def test_a_client_that_never_comes_is_told_so(tmp_path: Path) -> None:
    check = Check(f"{sys.executable} -c 'raise SystemExit(\"no settings\")'")
    (result,) = run_all(check, SCENARIOS[:1], tmp_path)
    assert result.verdict.outcome is BAD
    assert result.verdict.words == "never logged in, and ended with exit code 1; it last said: no settings"


def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no-such-program: No such file"):
        list(run_all(Check("no-such-program {topic}"), SCENARIOS[:1], tmp_path / "a"))
    with pytest.raises(CommandError, match=r"\{tpoic\} stands for nothing"):
        list(run_all(Check("kcat {tpoic}"), SCENARIOS[:1], tmp_path / "b"))


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["reauth-check", *words])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_the_command_says_it_in_words_and_by_its_exit_code(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ["--mechanism", "PLAIN", "--lifetime", str(LIFE_MS / 1000)]
    more = ["--scenario", "ended", "--keep", str(tmp_path / "kept")]
    code, out, _ = run(capsys, "--client-command", command(Manners.GOOD), *options, *more)
    assert code == 0
    assert out.startswith(
        "good     a session ended in the middle: opened another connection when its session was ended"
    )
    assert out.endswith("The client re-authenticates as it should.\n")
    assert (tmp_path / "kept" / "ended" / "client.log").exists()
    assert "its session has ended" in (tmp_path / "kept" / "nodes.log").read_text()
    more = ["--scenario", "short", "--json"]
    code, out, _ = run(capsys, "--client-command", command(Manners.PIPELINES), *options, *more)
    assert code == 1
    told = json.loads(out)
    assert told["good"] is False
    (scenario,) = told["scenarios"]
    assert (scenario["scenario"], scenario["outcome"]) == ("short", "bad")
    assert scenario["connections"][0]["refused"] == "METADATA in the state AUTHENTICATE"
    assert scenario["records"]["lost"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--scenario", "long"), "--scenario long: there are short, jittered"),
        (("--mechanism", "GSSAPI"), "--mechanism GSSAPI: want one of PLAIN"),
        (("--protocol", "SSL"), "--protocol SSL: want one of SASL_SSL"),
        (("--lifetime", "1"), "--lifetime 1: want 1.5 at least"),
        (("--keep", "/"), "--keep /: File exists"),
        (("--keep", "a,b"), "--keep a,b: a node's directory may have no comma in its path"),
    ],
)
def test_what_cannot_be_done_is_refused(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str) -> None:
    code, _, err = run(capsys, "--client-command", "true", *words)
    assert code == 1
    assert said in err
