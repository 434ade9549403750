"""Histories of a quorum, as scripts with the outcome beneath (tests/traces/raft).

A script is blocks divided by empty lines: commands, a line `----`, what happened: requests with their answers, then the
replicas that changed. Fetches that brought nothing are left out, repetitions too. `make traces` writes the second
halves anew. The network is instant; node 1 has the shortest election timeout (1 s), node 2 a bit more, and so on.
Commands:

    cluster voters=1,2,3 [observers=4,5]    format a quorum and start everything
    wait N                                  N ms go by
    propose TEXT                            the leader writes a record
    propose N TEXT                          node N does, which believes to lead
    crash N, start N                        a process ends, begins anew
    cut N, mend N                           nothing reaches it or comes from it; that is over
    snapshot N                              it writes a snapshot and deletes the log before it
    shutdown N                              it resigns
    add N, remove N                         an admin asks the leader
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .trace_cluster import Cluster

FOLDER = Path(__file__).parents[2] / "traces" / "raft"
SCRIPTS = sorted(FOLDER.glob("*.txt"))


class Script:
    """Runs the commands of one file."""

    def __init__(self) -> None:
        self.cluster = Cluster.of((), ())

    def run(self, line: str) -> None:
        word, *rest = line.split()
        if word == "cluster":
            self._cluster(dict(option.split("=") for option in rest))
            return
        cluster = self.cluster
        if word == "wait":
            cluster.run_until(cluster.now + int(rest[0]))
        elif word == "propose":
            machine = cluster.machines[int(rest[0])] if len(rest) > 1 else cluster.leader()
            value = rest[-1].encode()
            cluster.step(machine, lambda node: node.propose([value], cluster.now))
        elif word in ("add", "remove", "start", "snapshot"):
            getattr(cluster, word)(int(rest[0]))
        elif word == "crash":
            cluster.machines[int(rest[0])].node = None
        elif word == "cut":
            cluster.cut.add(int(rest[0]))
        elif word == "mend":
            cluster.cut.discard(int(rest[0]))
        else:
            assert word == "shutdown", line
            cluster.step(cluster.machines[int(rest[0])], lambda node: node.shut_down(cluster.now))
        cluster.run_until(cluster.now)

    def _cluster(self, options: dict[str, str]) -> None:
        others = tuple(int(n) for n in options.get("observers", "").split(",") if n)
        self.cluster = Cluster.of(tuple(int(n) for n in options["voters"].split(",")), others)
        for node_id in self.cluster.machines:
            self.cluster.start(node_id)
        self.cluster.run_until(0)

    def outcome(self) -> list[str]:
        lines, self.cluster.lines = self.cluster.lines, []
        # What is tried again and again with the same outcome is told once.
        return [*dict.fromkeys(lines), *self.cluster.show()]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_trace(path: Path) -> None:
    script = Script()
    text = path.read_text()
    blocks = []
    for block in text.strip().split("\n\n"):
        commands = block.split("\n----")[0]
        for line in commands.split("\n"):
            if not line.startswith("#"):
                script.run(line)
        blocks.append("\n".join([commands, "----", *script.outcome()]))
    made = "\n\n".join(blocks) + "\n"
    if os.environ.get("BARNABAS_REWRITE_TRACES"):
        path.write_text(made)
    else:
        assert made == text


def test_there_are_traces() -> None:
    assert len(SCRIPTS) >= 6
