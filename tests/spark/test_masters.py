"""The same program on a standalone cluster of separate processes, and through Spark Connect."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import Topics
from .processes import APP, StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.peer]
TIMEOUT_S = 400


def run(master: str, settings: dict[str, str], topics: Topics, cluster: StandaloneCluster, folder: Path) -> Any:
    """Run the driver program against a topic of 600 numbers and check what it found."""
    topic, target = topics.create(2), topics.create(1)
    topics.numbers(topic, range(600), 2)
    options = {**topics.options, "subscribe": topic, "maxOffsetsPerTrigger": "400", "kafka.group.id": topic}
    job = {
        "master": master, "settings": settings, "options": options, "write_to": target,
        "sink": str(folder / "sink"), "checkpoint": str(folder / "checkpoint"),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.driver_program", json.dumps(job)],
        capture_output=True, text=True, timeout=TIMEOUT_S, env=cluster.env, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result == {"stream": [600, 600, sum(range(600))], "batch": 600, "rows": True}
    return target


def test_it_runs_on_a_standalone_cluster(
    standalone: StandaloneCluster, topics: Topics, values: Any, tmp_path: Path
) -> None:
    settings = {key: value for key, value in APP.items() if not key.startswith("spark.connect")}
    target = run(standalone.url, settings, topics, standalone, tmp_path)
    assert values(target) == list(range(100))


def test_it_runs_through_spark_connect(
    standalone: StandaloneCluster, topics: Topics, values: Any, tmp_path: Path
) -> None:
    address = standalone.start_connect_server()
    target = run(address, {}, topics, standalone, tmp_path)
    assert values(target) == list(range(100))
