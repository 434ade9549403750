"""Two attempts of one task with Spark, on executors of two workers: speculation, and an executor that is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from barnabas.testing.cluster import Cluster
from barnabas.testing.ports import free_ports

from .processes import APP, StandaloneCluster
from .sinks import Sink, once
from .straggling import LATE, MISSED, ROWS

pytestmark = [pytest.mark.spark, pytest.mark.peer]
TIMEOUT_S: Final = 600
ROOT: Final = Path(__file__).parents[2]


@pytest.fixture
def two_hosts(tmp_path: Path) -> Iterator[StandaloneCluster]:
    """Give a cluster of two workers that nobody else uses: Spark speculates only where another host has cores left."""
    folder = tmp_path / "spark"
    folder.mkdir()
    with StandaloneCluster(folder, env=dict(os.environ)) as cluster:
        cluster.start_worker("127.0.0.2", free_ports(1)[0])
        yield cluster


def test_what_an_attempt_has_prepared_outlives_a_late_one(two_hosts: StandaloneCluster, tmp_path: Path) -> None:
    flags = tmp_path / "flags"
    flags.mkdir()
    with Cluster(tmp_path / "node") as cluster:
        sink = Sink.of_user(cluster.admin, tmp_path)
        target = sink.create(2)
        path = os.pathsep.join([str(ROOT), *sys.path])
        settings = {key: value for key, value in APP.items() if not key.startswith("spark.connect")}
        job = {
            "master": two_hosts.url, "settings": settings | {"spark.executorEnv.PYTHONPATH": path},
            "flags": str(flags), "checkpoint": str(tmp_path / "checkpoint"),
            "write": {**sink.options, "topic": target, "exactlyOnce": "true"},
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.straggling", json.dumps(job)],
            capture_output=True, text=True, timeout=TIMEOUT_S, cwd=ROOT, check=False,
            env=two_hosts.env | {"PYTHONPATH": path},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        raised = {flag.name for flag in flags.iterdir()}
        assert not {flag for flag in raised if flag.startswith(MISSED)}, "the attempts did not meet"
        assert {f"late-is-done-{batch}" for batch in LATE} <= raised
        sink.wait_seen(target, 2, once(ROWS * len(LATE)))
        assert sink.seen(target, 2, committed=False) == once(ROWS * len(LATE)), "a late attempt has written as well"
