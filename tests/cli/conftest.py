"""Running `barnabas` as a user does: words in, text and an exit code out."""

from __future__ import annotations

import io
import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

from barnabas.cli.main import main
from tests.peers.kafka import RealKafka

PATIENCE_S: Final = 120.0


class FailedError(AssertionError):
    """The command failed and was to print something for programs."""


@dataclass(frozen=True)
class Run:
    """One run of the command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Give what it printed for programs; FailedError when it failed."""
        if self.code != 0:
            raise FailedError(self.err)
        return json.loads(self.out)


Barnabas = Callable[..., Run]


@pytest.fixture
def barnabas(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Barnabas:
    """Give the command; `stdin` is what is typed into it."""

    def run(*words: str, stdin: str = "") -> Run:
        capsys.readouterr()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = 0
        try:
            main(list(words))
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else int(e.code is not None)
        out, err = capsys.readouterr()
        return Run(code, out, err)

    return run


@pytest.fixture
def tool(barnabas: Barnabas, real_kafka: RealKafka) -> Barnabas:
    """Give the command, speaking to the real Apache Kafka as its super user over the plain listener."""

    def run(name: str, *words: str, stdin: str = "") -> Run:
        return barnabas(name, "--bootstrap-server", real_kafka.bootstrap(), *words, stdin=stdin)

    return run


@pytest.fixture
def name() -> str:
    """Give a name that no other test uses."""
    return f"c-{uuid.uuid4().hex[:10]}"


def until(run: Callable[[], Run], wanted: Callable[[Run], bool]) -> Run:
    """Run again until the result is as wanted: a broker shows a change, or a topic at all, a moment after it was made.

    A failure is as wanted only where `wanted` does not ask for what was printed for programs.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not _is(wanted, result := run()):
        assert time.monotonic() < deadline, f"after {PATIENCE_S:g} s still {result}"
    return result


def create_topic(tool: Barnabas, topic: str, *words: str) -> Run:
    """Create a topic; the cluster that `tool` speaks to shows it when this returns."""
    created = tool("topics", "--create", "--topic", topic, *words)
    assert created.code == 0, created.err
    until(lambda: tool("topics", "--describe", "--topic", topic), lambda r: r.code == 0)
    return created


def _is(wanted: Callable[[Run], bool], result: Run) -> bool:
    try:
        return wanted(result)
    except FailedError:
        return False
