"""A JVM worker and one of ours with Spark, each on a broker and in a group of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.connect.config import WorkerConfig
from barnabas.connect.spark_worker import spark_worker
from barnabas.connect.worker import Worker
from barnabas.testing.local import LocalCluster
from tests.connect.rest.sides import Side, WorkerThread
from tests.connect.workers import running_worker, worker_properties
from tests.peers.connect import JvmWorker

GROUP = "side-by-side"


@asynccontextmanager
async def _on_spark(bootstrap: str, session: SparkSession) -> AsyncIterator[Worker]:
    config = WorkerConfig.from_properties(worker_properties(bootstrap, GROUP))
    async with running_worker(spark_worker(config, spark=session)) as worker:
        yield worker


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """Give a JVM worker."""
    folder = tmp_path_factory.mktemp("theirs")
    with LocalCluster(folder / "node", combined=1, plaintext=True) as cluster:
        bootstrap = next(iter(cluster)).bootstrap
        cluster.create_topic("lines", 1)
        with JvmWorker(folder / "worker", bootstrap, GROUP) as jvm:
            yield Side("the JVM", jvm.url, _files(folder), ours=False)


@pytest.fixture(scope="module")
def ours(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """Give a worker of ours, with Spark; for the module, as `connect_cluster` is."""
    folder = tmp_path_factory.mktemp("ours")
    with LocalCluster(folder / "node", combined=1, plaintext=True) as cluster:
        cluster.create_topic("lines", 1)
        with WorkerThread(_on_spark(next(iter(cluster)).bootstrap, spark)) as worker:
            yield Side("ours", worker.url, _files(folder), ours=True)


@pytest.fixture
def sides(theirs: Side, ours: Side) -> tuple[Side, Side]:
    """Give both, the JVM's first."""
    return theirs, ours


def _files(folder: Path) -> Path:
    files = folder / "files"
    files.mkdir()
    (files / "in.txt").write_text("one\ntwo\n")
    return files
