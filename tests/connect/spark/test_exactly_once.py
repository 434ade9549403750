"""Sources on Spark that write in transactions: stopped, interrupted, and taken over (KIP-618).

On brokers of ours and on a real Kafka.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.client.config import ClientConfig
from barnabas.connect.config import WorkerConfig
from barnabas.connect.herder_port import ConnectorOffset
from barnabas.connect.internal_topics import internal_topic
from barnabas.connect.runtime import Failed, Paused, Running, Stopped, TaskLaunch
from barnabas.connect.spark.runner import SparkRuntime
from barnabas.connect.spark.settings import SparkSettings
from barnabas.connect.stores.offsets import OffsetStore
from barnabas.core.connect.ids import ConnectorTaskId, TargetState
from tests.connect.committed import Granted, committed, decided, make_topics
from tests.connect.spark.conftest import KeptOffsets, Watched, find
from tests.connect.workers import worker_properties

pytestmark = [pytest.mark.slow, pytest.mark.spark]
STRING = "org.apache.kafka.connect.storage.StringConverter"
TASK = ConnectorTaskId("lines", 0)


@pytest.fixture
def bootstrap(brokers: str) -> str:
    return brokers


@asynccontextmanager
async def transactional(
    spark: SparkSession, bootstrap: str, group: str, scratch: Path
) -> AsyncIterator[tuple[Watched, OffsetStore]]:
    scratch.mkdir()
    properties = worker_properties(bootstrap, group, exactly_once_source_support="enabled")
    worker = WorkerConfig.from_properties(properties | {"task.shutdown.graceful.timeout.ms": "60000"})
    client = ClientConfig.from_properties({"bootstrap.servers": bootstrap})
    async with OffsetStore(client, internal_topic(worker, "offset")) as offsets:
        runtime = SparkRuntime(SparkSettings(worker, scratch), find, offsets, spark=spark)
        await runtime.open()
        try:
            yield Watched(runtime, KeptOffsets()), offsets
        finally:
            await runtime.close()


async def start(watched: Watched, config: Mapping[str, str], generation: int = 1) -> None:
    config = {"name": "lines", "key.converter": STRING, "value.converter": STRING, **config}
    (own,) = await watched.runtime.plan("lines", config)
    launch = TaskLaunch(TASK, own, config, TargetState.STARTED, generation, Granted())
    await watched.runtime.start(launch, watched.on_event)


async def position(offsets: OffsetStore, file: Path) -> object:
    (known,) = await offsets.read("lines", [{"filename": str(file)}])
    return known.offset and known.offset["position"]


@pytest.mark.parametrize("boundary", ["poll", "interval"])
async def test_a_file_is_in_the_topic_once_whoever_copies_it(
    spark: SparkSession, bootstrap: str, group: str, tmp_path: Path, boundary: str
) -> None:
    file, topic = tmp_path / "lines", f"{group}-t"
    file.write_text("a\nb\n")
    await make_topics(bootstrap, topic)
    config = {
        "connector.class": "FileStreamSource",
        "file": str(file),
        "topic": topic,
        "transaction.boundary": boundary,
    }
    async with (
        transactional(spark, bootstrap, group, tmp_path / "one") as (first, offsets),
        transactional(spark, bootstrap, group, tmp_path / "two") as (second, _),
    ):
        await start(first, config)
        await first.until(lambda: first.records(TASK) == 2)
        if boundary == "interval":  # the worker's offset.flush.interval.ms, a minute, is not over
            assert await committed(bootstrap, topic) == []
        await first.runtime.pause(TASK)
        await first.until_state(TASK, Paused)
        assert await decided(bootstrap, topic) == ["a", "b"]
        assert await position(offsets, file) == 4
        await first.runtime.resume(TASK)
        await first.until_state(TASK, Running)

        first.may_fail = True
        await start(second, config, generation=2)
        await second.until_state(TASK, Running)
        file.write_text("a\nb\nc\n")
        await second.until(lambda: second.records(TASK) == 1)
        failed = await first.until_state(TASK, Failed) if boundary == "poll" else None
        assert failed is None or (isinstance(failed, Failed) and "may not write any more" in failed.trace)
        await second.runtime.stop(TASK)
        await second.until_state(TASK, Stopped)
        assert await decided(bootstrap, topic) == ["a", "b", "c"]
        assert await position(offsets, file) == 6

        wanted = [ConnectorOffset({"filename": str(file)}, {"position": 2})]
        await second.runtime.alter_offsets("lines", {"name": "lines", **config}, wanted)
        assert await position(offsets, file) == 2
        await second.runtime.reset_offsets("lines", {"name": "lines", **config})
        assert await position(offsets, file) is None


async def test_a_connector_has_its_offsets_in_a_topic_of_its_own(
    spark: SparkSession, bootstrap: str, group: str, tmp_path: Path
) -> None:
    file, topic = tmp_path / "lines", f"{group}-t"
    file.write_text("a\nb\n")
    await make_topics(bootstrap, topic)
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": topic}
    async with transactional(spark, bootstrap, group, tmp_path / "one") as (watched, offsets):
        await offsets.write("lines", [ConnectorOffset({"filename": str(file)}, {"position": 2})])
        await start(watched, config | {"offsets.storage.topic": f"{group}-own"})
        await watched.until(lambda: watched.records(TASK) == 1)
        await watched.runtime.stop(TASK)
        assert await decided(bootstrap, topic) == ["b"]
        own = await watched.runtime.offsets(
            "lines", {"name": "lines", **config, "offsets.storage.topic": f"{group}-own"}
        )
        assert own == [ConnectorOffset({"filename": str(file)}, {"position": 4})]
        assert await position(offsets, file) == 4  # the worker's topic follows
