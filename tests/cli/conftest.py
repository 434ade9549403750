"""Running `barnabas` as a user does: words in, text and an exit code out."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from barnabas.cli.main import main
from tests.peers.kafka import RealKafka


@dataclass(frozen=True)
class Run:
    """One run of the command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Give what it printed for programs."""
        assert self.code == 0, self.err
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
    """Run again until the result is as wanted: a broker shows a change a moment after it was made."""
    for _ in range(200):
        result = run()
        if wanted(result):
            return result
    raise AssertionError(f"after 200 runs still {result}")
