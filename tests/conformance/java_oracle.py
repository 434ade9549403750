"""Apache Kafka's generated codec, asked line by line."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.peers.maven import java

_SOURCES = Path(__file__).resolve().parent / "java"


class JavaOracle:
    """One JVM that runs a source file of the folder `java` with a class path; a context that ends it."""

    def __init__(self, source: str, classpath: str) -> None:
        self._source = _SOURCES / source
        self._classpath = classpath

    def __enter__(self) -> Self:
        command = [java(), "-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", self._classpath]
        self._process = subprocess.Popen(
            [*command, str(self._source)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=120)
        self._process.stdout.close()

    def ask(self, question: str) -> str:
        """Give the answer to one line; AssertionError when Java could not."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip("\n")
        assert answer, f"no answer to {question[:200]}"
        assert not answer.startswith("!"), f"{question[:200]}: {answer}"
        return answer
