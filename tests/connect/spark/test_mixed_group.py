"""Tasks on Spark and tasks of a JVM worker in one group: what one plans the other runs, from where it was."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.connect.config import WorkerConfig
from barnabas.connect.spark_worker import spark_worker
from tests.connect.test_mixed_group import jvm_worker
from tests.connect.workers import read_lines, running_worker, source, states, status, until, worker_properties

pytestmark = [pytest.mark.peer, pytest.mark.spark]


async def test_connectors_move_between_both_kinds(
    bootstrap: str, group: str, tmp_path: Path, spark: SparkSession
) -> None:
    """Four file sources, two on each worker; then the JVM worker goes, and lines go on without loss or repetition."""
    names = [f"c{n}" for n in range(4)]
    files = [tmp_path / f"{name}.txt" for name in names]
    for file in files:
        file.write_text("one\n")
    config = WorkerConfig.from_properties(worker_properties(bootstrap, group))
    async with (
        running_worker(spark_worker(config, spark=spark)) as ours,
        jvm_worker(tmp_path / "jvm", bootstrap, group, "4.3.1") as jvm,
    ):
        for name, file in zip(names, files, strict=True):
            await ours.herder.put_connector_config(
                name, source(file, f"{group}-{name}") | {"name": name}, allow_replace=False
            )
        workers = {ours.herder.worker_id, f"127.0.0.1:{jvm.port}"}

        def shared() -> bool:
            found = [status(ours, name) for name in names if states(ours, name) == ["RUNNING", "RUNNING"]]
            return len(found) == 4 and {i.tasks[0].worker_id for i in found if i is not None} == workers

        await until(shared)
        for name in names:
            assert await read_lines(bootstrap, f"{group}-{name}", 1) == ["one"]
        await asyncio.to_thread(jvm.stop)
        for file in files:
            with file.open("a") as out:
                out.write("two\n")
        await until(lambda: all(states(ours, name) == ["RUNNING", "RUNNING"] for name in names))
        for name in names:
            assert await read_lines(bootstrap, f"{group}-{name}", 2) == ["one", "two"]
