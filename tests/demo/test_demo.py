"""The demonstration as a user runs it, killed half-way with its node, and run again."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from barnabas.client.config import load_properties_file
from barnabas.demo.folder import Folder

pytestmark = [pytest.mark.spark]
PATIENCE_S = 240


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


def start(folder: Folder, *more: str) -> subprocess.Popen[str]:
    """Start the demonstration in a session of its own, so that all of it but the node can be killed at once."""
    return subprocess.Popen(
        [sys.executable, "-m", "barnabas.demo", "--dir", str(folder.root), "--master", "local[2]", *more],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip


def node_pid(folder: Folder) -> int:
    return int(json.loads(folder.ready_file.read_text())["pid"])


@pytest.mark.timeout(2 * PATIENCE_S)
def test_killed_half_way_and_started_again_every_flight_is_there_once(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "demo")
    with start(folder, "--flights", "6000") as first:
        try:
            until(
                lambda: first.poll() is not None or (folder.checkpoint / "commits" / "1").exists(), "the second batch"
            )
            assert first.poll() is None, first.communicate()[0]
        finally:
            os.killpg(first.pid, signal.SIGKILL)
            os.kill(node_pid(folder), signal.SIGKILL)
    with start(folder, "--flights", "9000", "--keep-running") as second:
        output = second.communicate(timeout=PATIENCE_S)[0]
    try:
        assert second.returncode == 0, output
        assert "Resumed 6,000 flights were in the topic already" in output
        assert "Exactly once 9,000 of 9,000 flights" in output
        assert "Group flights-lake has a lag of 0" in output
        assert "Refused stranger with a wrong password" in output
        assert "Refused stranger without a rule: TOPIC_AUTHORIZATION_FAILED" in output
        assert "User:stranger is not allowed to READ TOPIC flights" in output
        check_files(folder, output)
        check_node_still_serves(folder)
    finally:
        pid = node_pid(folder)
        os.kill(pid, signal.SIGTERM)
        until(lambda: not lives(pid), "the end of the node")


def check_files(folder: Folder, output: str) -> None:
    assert folder.picture.read_bytes().startswith(b"\x89PNG")
    assert list(folder.lake.glob("month=1/*.parquet"))
    for user in ("flights-writer", "flights-reader", "stranger"):
        path = folder.client_file(user)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        password = load_properties_file(path)["sasl.password"]
        assert password not in output
        spread = [p for p in folder.checkpoint.rglob("*") if p.is_file() and password.encode() in p.read_bytes()]
        assert not spread


def check_node_still_serves(folder: Folder) -> None:
    reader = AdminClient(dict(load_properties_file(folder.client_file("flights-reader"))))
    assert set(reader.list_topics(timeout=20).topics) == {"flights"}
