"""Workers and executors that are killed while they write, and Spark's own processes: nothing is lost or there twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from barnabas.connect.config import WorkerConfig
from barnabas.connect.spark_worker import spark_worker
from tests.cli.test_connect import Worker, descendants, started
from tests.connect.committed import committed, decided
from tests.connect.rest.http import request
from tests.connect.workers import read_lines, running_worker, source, states, status, worker_properties
from tests.peers.connect import ask
from tests.spark.processes import APP, StandaloneCluster

from .conftest import Topics

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PATIENCE_S = 240
SLOW_SELECT = "cast(value as int) n, aggregate(sequence(1, 2000), 0L, (sum, i) -> sum + i * int(value)) work"


def lake(topic: str, folder: Path, **more: str) -> dict[str, str]:
    """Give a sink of JSON files."""
    config = {"connector.class": "SparkSink", "format": "json", "topics": topic, "path": str(folder)}
    return config | {"select": "cast(value as int) n"} | {key.replace("__", "."): text for key, text in more.items()}


def numbers(folder: Path) -> list[int]:
    """Give what readers find in such files."""
    return sorted(json.loads(line)["n"] for file in folder.glob("*.json") for line in file.read_text().splitlines())


async def until(what: Callable[[], object]) -> None:
    """Wait for what other processes do."""
    async with asyncio.timeout(PATIENCE_S):
        while not what():  # noqa: ASYNC110 - files and processes tell nobody
            await asyncio.sleep(0.01)


@pytest.mark.crash
async def test_the_tasks_of_a_worker_that_is_killed_run_on_the_other(
    bootstrap: str, group: str, topics: Topics, tmp_path: Path, spark: SparkSession
) -> None:
    topic, folder = topics.create(2), tmp_path / "lake"
    properties = worker_properties(bootstrap, group) | {"consumer.heartbeat.interval.ms": "300"}
    doomed = properties | {"session.timeout.ms": "6000", "consumer.session.timeout.ms": "6000"}
    other_folder = tmp_path / "other"
    async with running_worker(spark_worker(WorkerConfig.from_properties(properties), spark=spark)) as ours:
        with started(other_folder, doomed | {"barnabas.spark.master": "local[1]"}) as other:
            ready = await asyncio.to_thread(lambda: other.ready)
            both = {ours.herder.worker_id, ready["worker_id"]}

            def where() -> list[str]:
                info = status(ours, "lake")
                return [] if info is None else [task.worker_id for task in info.tasks]

            config = lake(topic, folder, name="lake", tasks__max="2")
            await ours.herder.put_connector_config("lake", config, allow_replace=False)
            await until(lambda: states(ours, "lake") == ["RUNNING"] * 3 and set(where()) == both)
            topics.produce(topic, [b"%d" % n for n in range(100)], partitions=2)
            await until(lambda: len(numbers(folder)) == 100)
            started_by_it = list(descendants(ready["pid"]))
            assert started_by_it
            topics.produce(topic, [b"%d" % n for n in range(100, 20_000)], partitions=2)
            other.process.kill()
            other.process.wait()
            await until(lambda: set(where()) == {ours.herder.worker_id} and states(ours, "lake") == ["RUNNING"] * 3)
            await until(lambda: len(numbers(folder)) >= 20_000)
            assert numbers(folder) == list(range(20_000))
            await until(lambda: not any(process.exists() for process in started_by_it))


@pytest.mark.crash
@pytest.mark.parametrize("ends", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
async def test_each_line_is_seen_once_though_a_worker_goes_while_a_transaction_is_open(
    bootstrap: str, group: str, topics: Topics, tmp_path: Path, spark: SparkSession, ends: signal.Signals
) -> None:
    """A worker that was only frozen finds its transaction aborted, and may not write any more (KIP-618)."""
    topic, file = topics.create(), tmp_path / "lines"
    file.write_text("a\nb\n")
    properties = worker_properties(bootstrap, group, exactly_once_source_support="enabled")
    doomed = properties | {"session.timeout.ms": "6000"}
    endless = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "3600000"}
    with started(tmp_path / "other", doomed | {"barnabas.spark.master": "local[1]"}) as other:
        ready = await asyncio.to_thread(lambda: other.ready)
        await asyncio.to_thread(put, other, "lines", source(file, topic, **endless))
        assert await read_lines(bootstrap, topic, 2) == ["a", "b"]
        assert await committed(bootstrap, topic) == []
        os.kill(ready["pid"], ends)
        async with running_worker(spark_worker(WorkerConfig.from_properties(properties), spark=spark)) as ours:

            def taken_over() -> bool:
                info = status(ours, "lines")
                found = [] if info is None else [(task.worker_id, task.state) for task in info.tasks]
                return found == [(ours.herder.worker_id, "RUNNING")]

            await until(taken_over)
            with file.open("a") as out:
                out.write("c\n")
            if ends is signal.SIGSTOP:
                os.kill(ready["pid"], signal.SIGCONT)
                await until(lambda: "may not write any more" in other.log)
            assert sorted(await read_lines(bootstrap, topic, 5)) == ["a", "a", "b", "b", "c"]
            # A worker that comes back has the group share its work out once more.
            while (await request(ours, "PUT", "/connectors/lines/stop")).status == 409:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            await until(lambda: states(ours, "lines") == ["STOPPED"])
        assert await decided(bootstrap, topic) == ["a", "b", "c"]


# On a cluster of Spark's own processes.


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """Give a master and a worker of Spark's."""
    with StandaloneCluster(tmp_path_factory.mktemp("standalone"), env=dict(os.environ)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def worker(standalone: StandaloneCluster, topics: Topics, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """Give a worker whose tasks' work is done there."""
    spark = {key: value for key, value in APP.items() if not key.startswith("spark.connect")}
    properties = worker_properties(topics.bootstrap, "connect-standalone", offset_flush_interval_ms="200")
    properties |= {f"barnabas.spark.conf.{key}": value for key, value in spark.items()}
    properties |= {"barnabas.spark.master": standalone.url}
    with started(tmp_path_factory.mktemp("worker"), properties, **standalone.env) as process:
        yield process
        process.end()


def put(worker: Worker, name: str, config: dict[str, str]) -> None:
    """Have a connector run."""
    answer = ask(f"{worker.ready['url']}/connectors/{name}/config", "PUT", config)
    assert answer.status == 201, answer.text


def task_states(worker: Worker, name: str) -> list[str]:
    """Give the states of a connector's tasks."""
    answer: Any = ask(f"{worker.ready['url']}/connectors/{name}/status").json
    return [task["state"] for task in answer["tasks"]]


def executors(cluster: StandaloneCluster) -> list[int]:
    """Give the processes in which a cluster's work is done."""
    found, folder = [], cluster.env["SPARK_WORKER_DIR"]
    for process in Path("/proc").iterdir():
        try:
            its_command, its_folder = (process / "cmdline").read_bytes(), (process / "cwd").readlink()
        except OSError:
            continue  # no process, or one that has ended meanwhile
        if b"CoarseGrainedExecutorBackend" in its_command and its_folder.is_relative_to(folder):
            found.append(int(process.name))
    return found


def test_files_go_through_a_cluster_of_separate_processes(worker: Worker, topics: Topics, tmp_path: Path) -> None:
    """Lines of a file to a topic, and the topic to a file and to a lake."""
    topic, folder, copy = topics.create(), tmp_path / "lake", tmp_path / "copy.txt"
    lines = [str(n) for n in range(1000)]
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n")
    put(
        worker,
        "lines",
        {"connector.class": "FileStreamSource", "file": str(tmp_path / "lines.txt"), "topic": topic},
    )
    put(worker, "copy", {"connector.class": "FileStreamSink", "file": str(copy), "topics": topic})
    put(worker, "lake", lake(topic, folder))
    worker.until(lambda: len(numbers(folder)) >= 1000)
    worker.until(lambda: copy.exists() and copy.read_bytes().count(b"\n") >= 1000)
    assert numbers(folder) == list(range(1000))
    assert copy.read_text().splitlines() == lines


@pytest.mark.crash
def test_a_batch_whose_executor_is_killed_is_done_again(
    worker: Worker, standalone: StandaloneCluster, topics: Topics, tmp_path: Path
) -> None:
    topic, folder = topics.create(), tmp_path / "lake"
    put(worker, "slow", lake(topic, folder, select=SLOW_SELECT))
    topics.produce(topic, [b"%d" % n for n in range(10_000)])

    def being_written() -> list[Path]:
        return list(folder.glob("_connect/slow/staging/*/_temporary/**/*.json"))

    worker.until(being_written)
    (victim,) = executors(standalone)
    os.kill(victim, signal.SIGSTOP)  # so that the batch cannot end between the look and the kill
    assert being_written()
    assert numbers(folder) == []
    os.kill(victim, signal.SIGKILL)
    worker.until(lambda: len(numbers(folder)) >= 10_000)
    assert numbers(folder) == list(range(10_000))
    assert victim not in executors(standalone)
    assert task_states(worker, "slow") == ["RUNNING"]
    assert "a task has failed" not in worker.log
