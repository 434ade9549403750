"""One real ZooKeeper for both systems, with the JVM of its own start script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.peers.zookeeper import START_SECONDS, Setup, ZooKeeper

from barnabas.server.dev_node import DevFiles
from barnabas.testing.processes import Software

_HEAP: Final = "-Xmx1000m"
"""What zkServer.sh passes; all else is the JVM's own choice."""


@contextmanager
def zookeeper(folder: Path, *, secured: bool) -> Iterator[ZooKeeper]:
    """Give a server that runs. secured: it knows the users of the tests' peer."""
    with ZooKeeper(folder, setup=Setup(secured=secured)) as made:
        (node,) = made.nodes
        node.stop()
        node.software = _OwnJvm(node.software)
        node.start(wait=False)
        node.wait_ready(START_SECONDS)
        yield made


@dataclass(frozen=True)
class _OwnJvm:
    """The tests' server without what makes it start quickly and stay small."""

    software: Software

    def command(self, files: DevFiles) -> Sequence[str]:
        java, *options = self.software.command(files)
        return [java, _HEAP, *(option for option in options if not option.startswith(("-Xmx", "-XX:")))]

    def environment(self) -> Mapping[str, str]:
        return self.software.environment()

    def is_ready(self, files: DevFiles, log: str) -> bool:
        return self.software.is_ready(files, log)
