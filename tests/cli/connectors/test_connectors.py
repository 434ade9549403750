"""`barnabas connectors` against real workers, ours and Apache Kafka's: the same words do the same."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.connectors.looking import traces
from barnabas.cli.connectors.watch import connector_rows
from tests.cli.connectors.conftest import Group
from tests.connect.plain_runtime import FILE_SOURCE

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 120.0


def until(look: Callable[[], Any], wanted: Any) -> None:
    """Wait until a look gives what is wanted."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (seen := look()) != wanted:
        assert time.monotonic() < deadline, seen
        time.sleep(0.05)


def states(group: Group, name: str) -> list[str]:
    run = group("status", name, "--output", "json")
    if run.code:
        return []
    [status] = json.loads(run.out)
    return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]


@pytest.fixture
def name() -> str:
    return f"lines-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def source(tmp_path: Path, name: str) -> dict[str, str]:
    """Settings of a source that reads a file of three lines."""
    (tmp_path / "lines").write_text("a\nb\nc\n")
    return {"connector.class": FILE_SOURCE, "file": str(tmp_path / "lines"), "topic": name, "tasks.max": "1"}


def written(tmp_path: Path, text: str, suffix: str = "json") -> str:
    file = tmp_path / f"connector.{suffix}"
    file.write_text(text)
    return str(file)


def test_a_connector_through_its_life(group: Group, name: str, source: dict[str, str], tmp_path: Path) -> None:
    created = group("create", written(tmp_path, json.dumps({"name": name, "config": source})))
    assert created.code == 0, created.err
    assert f"Created connector {name}" in created.out
    until(lambda: states(group, name), ["RUNNING", "RUNNING"])

    [row] = [row for row in group("list", "--output", "json").json if row["name"] == name]
    assert (row["type"], row["class"], row["state"], row["tasks"]) == ("source", FILE_SOURCE, "RUNNING", "1/1 running")
    for word in (name, "source", "1/1 running"):
        assert word in group("list").out

    assert group("pause", name).out == f"Paused {name}.\n"
    until(lambda: states(group, name), ["PAUSED", "PAUSED"])
    assert group("resume", name).out == f"Resumed {name}.\n"
    until(lambda: states(group, name), ["RUNNING", "RUNNING"])

    for words in (["--task", "0"], ["--tasks"], ["--tasks", "--failed"], []):
        assert group("restart", name, *words).code == 0
        until(lambda: states(group, name), ["RUNNING", "RUNNING"])

    again = group("create", written(tmp_path, json.dumps({"name": name, "config": source})))
    assert again.code == 1
    assert again.err == f"Connector {name} already exists\n"
    replaced = group(
        "create", written(tmp_path, json.dumps(source)), "--name", name, "--set", "batch.size=7", "--replace"
    )
    assert replaced.code == 0, replaced.err
    assert f"Configured connector {name}" in replaced.out

    assert group("delete", name).out == f"Deleted {name}.\n"
    until(lambda: [row for row in group("list", "--output", "json").json if row["name"] == name], [])
    gone = group("pause", name, name)
    assert gone.code == 1
    assert gone.err.count(name + ": ") == 2


def test_offsets_are_shown_moved_and_forgotten(group: Group, name: str, source: dict[str, str], tmp_path: Path) -> None:
    assert group("create", written(tmp_path, json.dumps(source)), "--name", name).code == 0
    partition = {"filename": source["file"]}

    def position() -> list[Any]:
        return list(group("offsets", "get", name, "--output", "json").json["offsets"])

    until(position, [{"partition": partition, "offset": {"position": 6}}])
    assert "position=6" in group("offsets", "get", name).out

    running = group("offsets", "reset", name)
    assert running.code == 1
    assert running.err == f"Connector {name} is not stopped: barnabas connectors stop {name}\n"
    assert group("stop", name).code == 0
    until(lambda: states(group, name), ["STOPPED"])

    moved = tmp_path / "offsets.json"
    moved.write_text(json.dumps({"offsets": [{"partition": partition, "offset": {"position": 2}}]}))
    altered = group("offsets", "alter", name, "--file", str(moved))
    assert altered.code == 0, altered.err
    assert f"barnabas connectors resume {name}" in altered.out
    until(position, [{"partition": partition, "offset": {"position": 2}}])
    assert group("offsets", "reset", name).code == 0
    until(position, [])
    assert "no offsets yet" in group("offsets", "get", name).out
    assert group("delete", name).code == 0


def test_levels_of_loggers_are_shown_and_set(group: Group) -> None:
    logger = "org.apache.kafka.connect.runtime.Worker"
    for more in ([], ["--everywhere"]):
        changed = group("logs", logger, "debug", *more)
        assert changed.code == 0, changed.err
        until(lambda: group("logs", logger, "--output", "json").json[0]["level"], "DEBUG")
    assert logger in group("logs").out
    assert group("logs", logger, "error").code == 0


def test_a_class_that_is_not_there_is_answered_with_those_that_are(group: Group, tmp_path: Path) -> None:
    refused = group("create", written(tmp_path, "name=x\nconnector.class=com.example.Nowhere\n", "properties"))
    assert refused.code == 1
    assert "com.example.Nowhere" in refused.err


def test_a_view_shows_states_and_lines_for_programs(
    group: Group, name: str, source: dict[str, str], tmp_path: Path
) -> None:
    assert group("create", written(tmp_path, json.dumps(source)), "--name", name).code == 0
    until(lambda: states(group, name), ["RUNNING", "RUNNING"])
    looks = group("watch", "--looks", "2", "--every", "0.1", "--output", "json").out.splitlines()
    assert len(looks) == 2
    mine = [row for row in json.loads(looks[-1])["rows"] if row["connector"] == name]
    assert [(row["task"], row["state"]) for row in mine] == [(None, "RUNNING"), (0, "RUNNING")]
    shown = group("watch", "--looks", "1").out
    assert name in shown
    assert "tasks run" in shown
    assert group("delete", name).code == 0


def test_a_view_says_in_a_line_why_a_task_has_failed() -> None:
    trace = 'Traceback (most recent call last):\n  File "x.py", line 1, in x\nValueError: no table\n'
    status = {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "FAILED", "trace": trace}]}
    assert [row["why"] for row in connector_rows("c", {"status": status}, None)] == [None, "ValueError: no table"]
    *_, what_to_type = traces([{"name": "a b", **status}])
    assert what_to_type.endswith(": barnabas connectors restart 'a b' --tasks --failed")


@pytest.mark.peer
def test_everything_that_is_wrong_is_said_before_anything_is_created(
    jvm_worker: str, brokers: str, barnabas: Any, name: str, tmp_path: Path
) -> None:
    jvm = Group(jvm_worker, brokers, barnabas)
    config = {"name": name, "connector.class": "FileStreamSource", "tasks.max": "none", "batch.size": "x"}
    refused = jvm("create", written(tmp_path, json.dumps(config)))
    assert refused.code == 1
    assert "The configuration has" in refused.err
    for key in ("tasks.max", "batch.size", "topic"):
        assert key in refused.err
    assert jvm("status", name).code == 1
    right = config | {"tasks.max": "1", "batch.size": "10", "topic": name}
    assert "Nothing is wrong" in jvm("create", written(tmp_path, json.dumps(right)), "--dry-run").out
    assert jvm("status", name).code == 1


@pytest.mark.peer
def test_the_lag_of_a_sink_is_shown_and_a_sink_is_moved(
    jvm_worker: str, brokers: str, barnabas: Any, name: str, source: dict[str, str], tmp_path: Path
) -> None:
    jvm = Group(jvm_worker, brokers, barnabas)
    assert jvm("create", written(tmp_path, json.dumps(source)), "--name", name).code == 0
    sink = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "topics": name}
    assert jvm("create", written(tmp_path, json.dumps(sink)), "--name", f"{name}-sink").code == 0

    def lag() -> Any:
        seen = jvm("watch", "--looks", "1", "--output", "json", "--bootstrap-server", brokers)
        return [row["lag"] for row in json.loads(seen.out)["rows"] if row["connector"] == f"{name}-sink"][:1]

    until(lag, [0])
    assert jvm("stop", f"{name}-sink").code == 0
    until(lambda: states(jvm, f"{name}-sink"), ["STOPPED"])
    moved = jvm("offsets", "alter", f"{name}-sink", "--to", f"{name}:0=1")
    assert moved.code == 0, moved.err
    until(lag, [2])
    assert jvm("delete", name, f"{name}-sink").code == 0
