"""The demonstration as a user runs it, killed half-way with its node, and run again; and where it cannot run."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from barnabas.client.config import load_properties_file
from barnabas.demo import lake
from barnabas.demo.folder import Folder
from barnabas.demo.principals import USERS
from barnabas.server.dev_node import prepare_secured
from barnabas.testing.ports import free_ports

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PATIENCE_S = 1800


def until(done: Callable[[], bool], what: str) -> None:
    """Look again and again until `done`; fails after PATIENCE_S."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"{what} did not happen in {PATIENCE_S} s"
        time.sleep(0.05)


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def started(folder: Folder, *more: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Give the demonstration, in a session of its own, so that in the end all of it can be killed at once."""
    process = subprocess.Popen(
        [sys.executable, "-m", "barnabas.demo", "--dir", str(folder.root), "--master", "local[1]", *more],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, "COLUMNS": "200", **environment},
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(node_pid(folder), signal.SIGKILL)


def node_pid(folder: Folder) -> int:
    return int(json.loads(folder.ready_file.read_text())["pid"])


def worker_pids(folder: Folder) -> list[int]:
    return [json.loads(file.read_text())["pid"] for file in folder.workers.glob("*.ready.json")]


@pytest.mark.timeout(3 * PATIENCE_S)
def test_killed_half_way_and_started_again_every_flight_is_there_once(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "demo")
    client_port, controller_port = free_ports(2)  # which nobody takes while the node is down
    prepare_secured(folder.node, (client_port, controller_port))
    with started(folder, "--flights", "6000") as first:
        until(lambda: first.poll() is not None or lake.rows(folder) > 0, "the first batch")
        assert first.poll() is None, first.communicate()[0]
        first.kill()
        os.kill(node_pid(folder), signal.SIGKILL)
        left_behind = worker_pids(folder)
        assert len(left_behind) == 2
        with started(folder, "--flights", "9000", "--keep-running") as second:
            output = second.communicate(timeout=PATIENCE_S)[0]
            assert second.returncode == 0, output
            check_output(output)
            check_files(folder, output)
            check_node_still_serves(folder)
            until(lambda: not any(map(lives, left_behind)), "the end of the workers of the first run")
            pid = node_pid(folder)
            os.kill(pid, signal.SIGTERM)
            until(lambda: not lives(pid), "the end of the node")


def check_output(output: str) -> None:
    assert re.search(r"^Resumed [\d,]+ flights were in the topic already, [1-9][\d,]* in the lake$", output, re.M)
    assert "Exactly once 9,000 of 9,000 flights" in output
    assert "Group connect-flights-to-lake has a lag of 0" in output
    assert "Refused stranger with a wrong password" in output
    assert "Refused stranger without a rule: TOPIC_AUTHORIZATION_FAILED" in output
    assert "User:stranger is not allowed to READ TOPIC flights" in output
    assert "Refused POST /connectors/flights-to-lake/tasks without a worker's signature: 400" in output
    assert "Refused GET /connectors without a password: 401" in output
    placed = re.search(r"^Connector flights-to-lake: task 0 on (\S+), task 1 on (\S+)$", output, re.M)
    killed = re.search(r"^Killed worker (\S+) \(kill -9\) with ([\d,]+) of 9,000 in the lake$", output, re.M)
    moved = re.search(r"^Moved .* task 0 on (\S+), task 1 on (\S+)$", output, re.M)
    assert placed, output
    assert killed, output
    assert moved, output
    first, other = placed.groups()
    assert first != other
    survivor = other if killed[1] == first else first
    assert moved.groups() == (survivor, survivor)
    assert 0 < int(killed[2].replace(",", "")) < 9000


def check_files(folder: Folder, output: str) -> None:
    assert folder.picture.read_bytes().startswith(b"\x89PNG")
    assert list(folder.lake.glob("month=1/*.parquet"))
    secret = {folder.client_file(user): "sasl.password" for user in USERS}
    secret |= {folder.workers / "users.properties": "demo"}
    others = [p for p in (*folder.workers.rglob("*"), *folder.lake.rglob("*")) if p.is_file() and p not in secret]
    for path, key in secret.items():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        password = load_properties_file(path)[key]
        assert password not in output
        assert not [p for p in others if password.encode() in p.read_bytes()]


def check_node_still_serves(folder: Folder) -> None:
    reader = AdminClient(dict(load_properties_file(folder.client_file("flights-reader"))))
    assert set(reader.list_topics(timeout=120).topics) == {"flights"}


@pytest.mark.timeout(PATIENCE_S)
def test_without_java_it_says_so_and_leaves_nothing_running(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "demo")
    with started(folder, "--flights", "10", PATH=str(tmp_path), JAVA_HOME="") as process:
        output = process.communicate(timeout=PATIENCE_S)[0]
        assert process.returncode == 1, output
        assert "Traceback" not in output
        assert re.search(r"Connect worker \d has ended; .*Spark needs Java", output, re.S), output
        assert output.endswith("The same command goes on from here.\n")
        assert not folder.ready_file.exists()
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)
