"""`barnabas cluster start` in a process of its own, told what to do from here."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.cluster.supervisor import let_vote
from barnabas.testing.local import LocalCluster
from tests.cli.conftest import Barnabas, Run, until

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
WAIT_S = 120


class Started:
    """`barnabas cluster start`, running."""

    def __init__(self, directory: Path, *words: str) -> None:
        self.directory = directory
        command = [sys.executable, "-m", "barnabas.cli.main", "cluster", "start", "--dir", str(directory), *words]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.said = ""
        while "Client settings" not in self.said:
            line = self.process.stdout.readline()
            assert line, f"ended at its start, code {self.process.wait()}:\n{self.said}"
            self.said += line

    def wait(self) -> int:
        return self.process.wait(WAIT_S)

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(WAIT_S)
        finally:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """Give a cluster of one node."""
    running = Started(tmp_path / "play", "--combined", "1", "--port", "0")
    yield running
    running.end()


def rows(barnabas: Barnabas, directory: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = barnabas("cluster", "status", "--dir", str(directory), "--output", "json").json[
        "nodes"
    ]
    return found


def until_row(barnabas: Barnabas, directory: Path, **wanted: object) -> dict[str, Any]:
    """Wait until the only node is shown like this: what nodes say is asked for once a second."""
    deadline = time.monotonic() + WAIT_S
    while True:
        (row,) = rows(barnabas, directory)
        if all(row[key] == value for key, value in wanted.items()):
            return row
        assert time.monotonic() < deadline, row
        time.sleep(0.1)


def alive(pid: int) -> bool:
    """Say whether a process runs; one that has ended and that nobody has asked for its end does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_node_is_killed_paused_restarted_and_all_is_stopped(barnabas: Barnabas, started: Started) -> None:
    at = ("--dir", str(started.directory))

    def tell(*words: str) -> Run:
        return barnabas("cluster", *words, *at)

    row = until_row(barnabas, started.directory, state="running", quorum="leader")
    assert (row["node"], row["roles"], row["lag"]) == (1, "broker,controller", 0)
    assert row["rss_mb"] > 10
    assert alive(row["pid"])
    settings = str(started.directory / "client.properties")
    assert settings in started.said
    assert barnabas("topics", "--command-config", settings, "--create", "--topic", "t").code == 0
    cluster_id = barnabas("cluster", "cluster-id", "--command-config", settings, "--output", "json").json
    assert json.loads((started.directory / "cluster.json").read_text())["cluster_id"] == cluster_id["cluster_id"]
    (endpoint,) = barnabas("cluster", "list-endpoints", "--command-config", settings, "--output", "json").json
    assert f"{endpoint['host']}:{endpoint['port']}" == row["address"]
    assert tell("pause", "1").out == "Paused node 1.\n"
    assert rows(barnabas, started.directory)[0]["state"] == "paused"
    assert tell("resume", "1").code == 0
    assert tell("kill", "1").out == "Killed node 1.\n"
    assert not alive(row["pid"])
    assert rows(barnabas, started.directory)[0]["state"] == "down"
    assert tell("restart", "1").code == 0
    again = until_row(barnabas, started.directory, state="running", quorum="leader", in_sync="1/1")
    assert again["starts"] == 2
    assert "There is no node 7" in tell("kill", "7").err
    assert "broker or controller?" in tell("add", "kettle").err
    assert tell("logs", "1").out
    refused = barnabas("cluster", "start", *at)
    assert (refused.code, "runs already" in refused.err) == (1, True)
    assert tell("stop").out == "Stopping every node.\n"
    assert started.wait() == 0
    assert not alive(again["pid"])
    assert "does not run" in tell("status").err


def test_it_starts_again_on_what_it_left_and_ends_what_a_kill_left(barnabas: Barnabas, started: Started) -> None:
    row = until_row(barnabas, started.directory, state="running")
    settings = str(started.directory / "client.properties")
    assert barnabas("topics", "--command-config", settings, "--create", "--topic", "kept").code == 0
    started.process.send_signal(signal.SIGKILL)
    started.wait()
    assert alive(row["pid"]), "its nodes outlive it; nothing can be done about that then"
    refused = barnabas("cluster", "start", "--dir", str(started.directory), "--combined", "3")
    assert "leave its shape out" in refused.err
    again = Started(started.directory)
    try:
        assert not alive(row["pid"])
        assert "kept" in barnabas("topics", "--command-config", settings, "--list").out
        pid = until_row(barnabas, started.directory, state="running")["pid"]
    finally:
        again.end()
    assert not alive(pid)


def test_a_cluster_grows_and_forgets_a_broker(barnabas: Barnabas, tmp_path: Path) -> None:
    directory = tmp_path / "play"
    at = ("--dir", str(directory))
    started = Started(directory, "--controllers", "1", "--brokers", "1", "--port", "0")
    try:
        assert barnabas("cluster", "add", "broker", *at).out == "Added broker 2.\n"
        assert barnabas("cluster", "add", "controller", *at).out == "Added controller 102.\n"
        nodes = {row["node"]: row for row in rows(barnabas, directory)}
        assert {n: row["roles"] for n, row in nodes.items()} == {
            1: "broker", 2: "broker", 101: "controller", 102: "controller",
        }  # fmt: skip
        settings = ("--command-config", str(directory / "client.properties"))
        quorum = barnabas("quorum", "describe", *settings, "--status", "--output", "json").json
        assert [v["id"] for v in quorum["current_voters"]] == [101, 102]
        assert barnabas("cluster", "stop", "2", *at).out == "Stopped node 2.\n"
        forgotten = barnabas("cluster", "unregister", *settings, "--id", "2")
        assert forgotten.out == "Broker 2 is not registered any more.\n", forgotten.err
        listed = ("cluster", "list-endpoints", *settings, "--include-fenced-brokers", "--output", "json")
        until(lambda: barnabas(*listed), lambda r: [b["id"] for b in r.json] == [1])
    finally:
        started.end()


def test_a_controller_that_was_made_a_voter_before_the_answer_came_is_one(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, combined=1, plaintext=True, dynamic=True) as cluster:
        added = cluster.add_controller()
        added.start()
        for _ in range(2):
            asyncio.run(let_vote(cluster, added))
        voters = cluster.ask(lambda admin: admin.describe_quorum()).partition.current_voters
        assert {v.replica_id for v in voters} == {1, added.node_id}


def test_at_a_terminal_commands_are_typed_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = ["cluster", "start", "--dir", str(tmp_path / "play"), "--combined", "1", "--port", "0", "--plaintext"]
    process = subprocess.Popen(
        [sys.executable, "-m", "barnabas.cli.main", *command], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    try:
        read_until(ours, "cluster> ")
        os.write(ours, b"pause 2\x7f1\r")
        read_until(ours, "Paused node 1.")
        os.write(ours, b"resume 1\rkettle\r")
        read_until(ours, "kettle: there is no such command")
        os.write(ours, b"\x03")
        read_until(ours, "Stopping every node")
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(terminal: int, text: str) -> None:
    """Read what is shown until a text is there."""
    shown = ""
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], WAIT_S)
        assert ready, shown
        shown += os.read(terminal, 65536).decode(errors="replace")


def test_what_cannot_be_started(barnabas: Barnabas, tmp_path: Path) -> None:
    at = ("cluster", "start", "--dir", str(tmp_path / "play"))
    assert "needs a controller" in barnabas(*at, "--brokers", "2").err
    assert "There is no cluster" in barnabas("cluster", "status", "--dir", str(tmp_path / "play")).err
    broken = barnabas(*at, "--combined", "1", "--port", "0", "--override", "num.partitions=none")
    assert (broken.code, "num.partitions" in broken.err) == (1, True)
