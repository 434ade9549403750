"""SparkSink into a real Delta table: exactly once, whatever is interrupted when, and columns that come later."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from barnabas.connect.connector import FencedError, TaskContext
from barnabas.connect.connectors.delta_target import DeltaTarget
from barnabas.connect.connectors.spark_sink import SparkSink
from barnabas.connect.herder_port import ConnectorOffset
from barnabas.connect.runtime import Failed
from barnabas.model.topic_partition import TopicPartition

from .conftest import Topics, Watched, watching
from .delta_process import DeltaProcess, session
from .samples import envelope, fields

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture(scope="module")
def delta() -> Iterator[DeltaProcess]:
    """Give a process whose Spark knows Delta."""
    with DeltaProcess() as process:
        yield process


# What runs there.


@dataclass(frozen=True)
class Work:
    """A connector's task to be run there. bootstrap: where topics are; generation: which run of the task it is."""

    bootstrap: str
    folder: Path
    config: Mapping[str, str]
    generation: int = 1


class Dying(SparkSink):
    """A SparkSink whose process is killed when a batch is written, and before the group hears of it."""

    def write(self, batch: DataFrame, batch_id: int) -> None:
        super().write(batch, batch_id)
        os.kill(os.getpid(), signal.SIGKILL)


def run(work: Work, records: int) -> None:
    """Run the task until it has done so many records."""
    asyncio.run(_run(work, records))


def run_to_failure(work: Work) -> str:
    """Run the task until it fails; give its trace."""
    return asyncio.run(_run_to_failure(work))


def alter(work: Work, offsets: Sequence[ConnectorOffset]) -> str:
    """Move the connector; give what is said."""
    return asyncio.run(_alter(work, offsets))


def forget_group(work: Work) -> None:
    """Have the group of the connector forget its offsets, and nobody else."""
    asyncio.run(_forget_group(work))


def offsets(work: Work) -> Sequence[ConnectorOffset]:
    """Give what the group of the connector says."""
    return asyncio.run(_offsets(work))


def rows(path: Path) -> list[dict[str, Any]]:
    """Give what Delta's reader finds."""
    return [row.asDict() for row in session().read.format("delta").load(str(path)).collect()]


async def _run(work: Work, records: int) -> None:
    async with _watching(work) as watched:
        task = await watched.start(work.config, name=work.config["name"], generation=work.generation)
        await watched.until(lambda: watched.records(task) == records)


async def _run_to_failure(work: Work) -> str:
    async with _watching(work) as watched:
        watched.may_fail = True
        task = await watched.start(work.config, name=work.config["name"], generation=work.generation)
        failed = await watched.until_state(task, Failed)
        assert isinstance(failed, Failed)
        return failed.trace


async def _alter(work: Work, offsets: Sequence[ConnectorOffset]) -> str:
    async with _watching(work) as watched:
        return await watched.runtime.alter_offsets(work.config["name"], work.config, offsets)


async def _forget_group(work: Work) -> None:
    async with _watching(work) as watched:
        await watched.runtime._sink_offsets(work.config["name"], work.config).reset()


async def _offsets(work: Work) -> Sequence[ConnectorOffset]:
    async with _watching(work) as watched:
        return await watched.runtime.offsets(work.config["name"], work.config)


def _watching(work: Work) -> AbstractAsyncContextManager[Watched]:
    return watching(session(), work.bootstrap, work.folder / f"scratch-{uuid.uuid4().hex[:8]}")


def sink_to(path: Path, *, partitions: Sequence[TopicPartition] = (P0,)) -> tuple[SparkSink, TaskContext]:
    """Give a sink that is opened."""
    sink = SparkSink.of({"name": "c", "format": "delta", "path": str(path), "select": "n"})
    context = TaskContext("c", 0, 1, path / "scratch", partitions)
    sink.open(session(), context)
    return sink, context


def write(sink: SparkSink, context: TaskContext, begin: int, end: int) -> None:
    """Write numbers as if they came at these offsets of partition 0."""
    context.batch_begins, context.batch_offsets = {P0: begin}, {P0: end}
    sink.write(session().range(begin, end).selectExpr("id n", "cast(null as string) value"), 0)


def write_twice(path: Path) -> tuple[str | None, Mapping[TopicPartition, int] | None]:
    """Have a task write what another has written, and more; give what it is told, and where the table says it is."""
    (late, its_own), (owner, context) = sink_to(path), sink_to(path)
    write(owner, context, 0, 3)
    told = fenced(lambda: write(late, its_own, 0, 5))
    return told, sink_to(path, partitions=(P0, P1))[0].offsets()


class Overtaken(DeltaTarget):
    """A target where something else is committed once, after this one has written its files."""

    def __init__(self, path: Path, meanwhile: Callable[[], object]) -> None:
        super().__init__(session(), SparkSink.of({"name": "c", "format": "delta", "path": str(path)}).config)
        self._meanwhile = [meanwhile]

    def _written(self, begun: Any, rows: DataFrame) -> Any:
        actions = super()._written(begun, rows)
        if self._meanwhile:
            self._meanwhile.pop()()
        return actions


def overtaken_by_a_task(path: Path) -> str | None:
    """Write a batch while another task writes a part of it; give what this one is told."""
    _, context = sink_to(path)
    context.batch_begins, context.batch_offsets = {P0: 0}, {P0: 3}
    target = Overtaken(path, lambda: write(*sink_to(path), 0, 2))
    return fenced(lambda: target.write(session().range(3).toDF("n"), context))


def overtaken_by_a_column(path: Path) -> None:
    """Write a batch while somebody gives the table another column."""
    sink, context = sink_to(path)
    write(sink, context, 0, 3)
    context.batch_begins, context.batch_offsets = {P0: 3}, {P0: 5}
    target = Overtaken(path, lambda: session().sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (word STRING)"))
    target.write(session().range(3, 5).toDF("n"), context)


def fenced(work: Callable[[], None]) -> str | None:
    """Give what a task is told that does something too late, None when it is told nothing."""
    try:
        work()
    except FencedError as error:
        return str(error)
    return None


# The tests.


def sink(topic: str, folder: Path, **more: str) -> dict[str, str]:
    more = {key.replace("__", "."): text for key, text in more.items()}
    config = {"connector.class": "SparkSink", "format": "delta", "topics": topic, "path": str(folder / "lake")}
    return config | {"name": f"c-{uuid.uuid4().hex[:8]}"} | more


def numbers(process: DeltaProcess, folder: Path) -> list[int]:
    return sorted(row["n"] for row in process.run(rows, folder / "lake"))


def test_every_record_is_there_once_over_restarts_and_the_table_knows_where_it_goes_on(
    delta: DeltaProcess, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create(2)
    topics.produce(topic, [b"%d" % n for n in range(10)], partitions=2)
    config = sink(topic, tmp_path, select="cast(value as int) n, cast(value as int) % 3 rest", partition__by="rest")
    work = Work(topics.bootstrap, tmp_path, config)
    delta.run(run, work, 10)
    assert numbers(delta, tmp_path) == list(range(10))
    assert sorted(path.name for path in (tmp_path / "lake").iterdir() if path.name[0] != "_") == [
        "rest=0", "rest=1", "rest=2",
    ]  # fmt: skip
    delta.run(forget_group, work)
    topics.produce(topic, [b"%d" % n for n in range(10, 14)], partitions=2)
    delta.run(run, Work(topics.bootstrap, tmp_path, config, 2), 4)
    assert numbers(delta, tmp_path) == list(range(14))
    back = [ConnectorOffset({"kafka_topic": topic, "kafka_partition": 1}, {"kafka_offset": 5})]
    assert delta.run(alter, work, back) == "The offsets for this connector have been altered successfully"
    delta.run(run, Work(topics.bootstrap, tmp_path, config, 3), 2)
    assert numbers(delta, tmp_path) == sorted([*range(14), 11, 13])


def test_a_task_that_was_replaced_writes_nothing(delta: DeltaProcess, tmp_path: Path) -> None:
    told, known = delta.run(write_twice, tmp_path)
    assert told == "t-0 is at 3 by now: another task has written this batch"
    assert known == {P0: 3}
    assert sorted(row["n"] for row in delta.run(rows, tmp_path)) == [0, 1, 2]


def test_a_batch_that_another_task_overtakes_is_not_committed(delta: DeltaProcess, tmp_path: Path) -> None:
    told = delta.run(overtaken_by_a_task, tmp_path)
    assert told == "t-0 is at 2 by now: another task has written this batch"
    assert sorted(row["n"] for row in delta.run(rows, tmp_path)) == [0, 1]


def test_a_batch_that_meets_another_change_is_written_again(delta: DeltaProcess, tmp_path: Path) -> None:
    delta.run(overtaken_by_a_column, tmp_path)
    found = sorted((row["n"], row["word"]) for row in delta.run(rows, tmp_path))
    assert found == [(n, None) for n in range(5)]


@pytest.mark.crash
def test_a_worker_that_is_killed_before_the_group_hears_of_a_batch_loses_and_doubles_nothing(
    delta: DeltaProcess, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create()
    topics.produce(topic, [b"%d" % n for n in range(5)])
    config = sink(topic, tmp_path, select="cast(value as int) n", consumer__override__session__timeout__ms="6000")
    doomed = Work(topics.bootstrap, tmp_path, {**config, "connector.class": "Dying"})
    with DeltaProcess() as process, pytest.raises(BrokenProcessPool):
        process.run(run, doomed, 5)
    work = Work(topics.bootstrap, tmp_path, config, 2)
    assert numbers(delta, tmp_path) == list(range(5))
    assert delta.run(offsets, work) == []
    topics.produce(topic, [b"%d" % n for n in range(5, 8)])
    delta.run(run, work, 3)
    assert numbers(delta, tmp_path) == list(range(8))
    where = {"kafka_topic": topic, "kafka_partition": 0}
    assert delta.run(offsets, work) == [ConnectorOffset(where, {"kafka_offset": 8})]


def test_a_field_that_comes_later_is_refused_unless_schemas_may_be_merged(
    delta: DeltaProcess, topics: Topics, tmp_path: Path
) -> None:
    topic, n, word = topics.create(), ("n", {"type": "int32"}), ("word", {"type": "string", "optional": True})
    config = sink(topic, tmp_path, value__converter=JSON)
    topics.produce(topic, [envelope(fields(n), {"n": 1})])
    delta.run(run, Work(topics.bootstrap, tmp_path, config), 1)
    topics.produce(topic, [envelope(fields(n, word), {"n": 2, "word": "two"})])
    trace = delta.run(run_to_failure, Work(topics.bootstrap, tmp_path, config, 2))
    assert "DELTA_METADATA_MISMATCH" in trace
    delta.run(run, Work(topics.bootstrap, tmp_path, config | {"options.mergeSchema": "true"}, 3), 1)
    topics.produce(topic, [envelope(fields(n), {"n": 3})])
    delta.run(run, Work(topics.bootstrap, tmp_path, config, 4), 1)
    found = sorted((row["n"], row["word"]) for row in delta.run(rows, tmp_path / "lake"))
    assert found == [(1, None), (2, "two"), (3, None)]


async def test_without_its_jars_a_task_says_what_to_set(watched: Watched, topics: Topics, tmp_path: Path) -> None:
    watched.may_fail = True
    task = await watched.start(sink(topics.create(), tmp_path))
    failed = await watched.until_state(task, Failed)
    assert isinstance(failed, Failed)
    assert "ConnectError: Spark does not know Delta" in failed.trace
    assert "spark.sql.extensions" in failed.trace
