"""SparkSink: files exactly once, whatever is interrupted when, and what they look like."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from barnabas.connect.connector import FencedError
from barnabas.connect.connectors.manifest import Manifest
from barnabas.connect.connectors.spark_sink import SparkSink
from barnabas.connect.connectors.storage import Storage, is_storage_trouble
from barnabas.connect.herder_port import ConnectorOffset, HerderError
from barnabas.connect.runtime import Failed, Progress
from barnabas.model.topic_partition import TopicPartition

from .conftest import Topics, Watched

pytestmark = [pytest.mark.spark, pytest.mark.slow]
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def sink(topic: str, folder: Path, **more: str) -> dict[str, str]:
    more = {key.replace("__", "."): text for key, text in more.items()}
    return {"connector.class": "SparkSink", "topics": topic, "path": str(folder), "name": "c", **more}


@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
async def test_each_format_gets_every_record_once_over_restarts(
    watched: Watched, topics: Topics, spark: SparkSession, tmp_path: Path, format: str
) -> None:
    topic, folder = topics.create(2), tmp_path / "lake"
    topics.produce(topic, [b"%d" % n for n in range(10)], partitions=2)
    config = sink(topic, folder, format=format, select="cast(value as int) n", partition__by="")
    task = await watched.start(config)
    await watched.until(lambda: watched.records(task) == 10)
    await watched.runtime.stop(task)
    # The group forgets; the manifest does not.
    await watched.runtime._sink_offsets(task.connector, config).reset()
    topics.produce(topic, [b"%d" % n for n in range(10, 14)], partitions=2)
    again = await watched.start(config, name=task.connector, generation=2)
    await watched.until(lambda: watched.records(again) == 14)
    written = spark.read.format(format).schema("n int").load(str(folder))
    assert sorted(row.n for row in written.collect()) == list(range(14))


async def test_folders_by_a_column_and_small_files_merged(
    watched: Watched, topics: Topics, spark: SparkSession, tmp_path: Path
) -> None:
    topic, folder = topics.create(), tmp_path / "lake"
    more = {"select": "cast(value as int) n, cast(value as int) % 2 odd", "compact__files": "3"}
    task = await watched.start(sink(topic, folder, partition__by="odd", **more))
    for batch in range(3):
        topics.produce(topic, [b"%d" % n for n in range(batch * 4, batch * 4 + 4)])
        await watched.until(lambda done=batch * 4 + 4: watched.records(task) == done)  # type: ignore[misc]
    await watched.runtime.stop(task)
    assert sorted(path.name for path in folder.iterdir() if path.name[0] != "_") == ["odd=0", "odd=1"]
    assert [len(list((folder / name).glob("*.parquet"))) for name in ("odd=0", "odd=1")] == [1, 1]
    assert sorted((r.n, r.odd) for r in spark.read.parquet(str(folder)).collect()) == [(n, n % 2) for n in range(12)]


async def test_offsets_that_are_altered_move_the_manifest_too(
    watched: Watched, topics: Topics, spark: SparkSession, tmp_path: Path
) -> None:
    topic, folder = topics.create(), tmp_path / "lake"
    topics.produce(topic, [b"%d" % n for n in range(4)])
    config = sink(topic, folder, select="cast(value as int) n")
    task = await watched.start(config)
    await watched.until(lambda: watched.records(task) == 4)
    await watched.runtime.stop(task)
    config["name"] = task.connector
    where = {"kafka_topic": topic, "kafka_partition": 0}
    assert await watched.runtime.offsets(task.connector, config) == [ConnectorOffset(where, {"kafka_offset": 4})]
    with pytest.raises(HerderError, match=f"the offsets of {topic}-7 in the consumer group .* cannot be changed"):
        await watched.runtime.alter_offsets(
            task.connector, config, [ConnectorOffset({**where, "kafka_partition": 7}, {"kafka_offset": 2})]
        )
    moved = [ConnectorOffset(where, {"kafka_offset": 2})]
    said = await watched.runtime.alter_offsets(task.connector, config, moved)
    assert said == "The offsets for this connector have been altered successfully"
    again = await watched.start(config, name=task.connector, generation=2)
    await watched.until(lambda: watched.records(again) == 6)
    assert sorted(row.n for row in spark.read.parquet(str(folder)).collect()) == [0, 1, 2, 2, 3, 3]


class Asked(SparkSink):
    """A SparkSink that tells how many records waited whenever it was asked for a batch."""

    waiting: list[int] = []  # noqa: RUF012

    def ready(self, records: int, waited_ms: int) -> bool:
        self.waiting.append(records)
        return super().ready(records, waited_ms)


async def test_a_file_waits_for_its_records(watched: Watched, topics: Topics, tmp_path: Path) -> None:
    topic, folder = topics.create(), tmp_path / "lake"
    more = {"rotate__records": "3", "rotate__interval__ms": "3600000", "format": "json"}
    task = await watched.start({**sink(topic, folder, **more), "connector.class": "Asked"})
    for count in (1, 2):
        topics.produce(topic, [b"%d" % count])
        async with asyncio.timeout(90):
            while count not in Asked.waiting:  # noqa: ASYNC110 - a sink's calls have no event
                await asyncio.sleep(0.01)
    assert watched.records(task) == 0
    topics.produce(topic, [b"3"])
    await watched.until(lambda: watched.records(task) == 3)
    assert [event.records for event in watched.of(task) if isinstance(event, Progress)] == [3]
    assert sum(len(file.read_text().splitlines()) for file in folder.glob("*.json")) == 3


async def test_a_file_does_not_wait_for_ever(watched: Watched, topics: Topics, tmp_path: Path) -> None:
    topic = topics.create()
    config = sink(topic, tmp_path / "lake", rotate__records="1000000", rotate__interval__ms="200")
    task = await watched.start(config)
    topics.produce(topic, [b"1", b"2"])
    await watched.until(lambda: watched.records(task) == 2)


async def test_a_file_has_so_many_records_at_most(watched: Watched, topics: Topics, tmp_path: Path) -> None:
    topic, folder = topics.create(), tmp_path / "lake"
    topics.produce(topic, [b"%d" % n for n in range(35)])
    more = {"format": "json", "select": "cast(value as int) n", "file__max__records": "10"}
    task = await watched.start(sink(topic, folder, **more))
    await watched.until(lambda: watched.records(task) == 35)
    files = [file.read_text().splitlines() for file in folder.glob("*.json")]
    assert max(map(len, files)) == 10
    assert sorted(json.loads(line)["n"] for lines in files for line in lines) == list(range(35))


async def test_a_folder_that_cannot_be_written_for_a_while_is_waited_for(
    watched: Watched, topics: Topics, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic, folder = topics.create(), tmp_path / "lake"
    more = {"format": "json", "select": "cast(value as int) n", "errors__retry__delay__max__ms": "50"}
    task = await watched.start(sink(topic, folder, **more))
    topics.produce(topic, [b"1"])
    await watched.until(lambda: watched.records(task) == 1)
    staging = folder / "_connect" / task.connector / "staging"
    await asyncio.to_thread(shutil.rmtree, staging)
    staging.write_text("in the way")
    topics.produce(topic, [b"2"])
    async with asyncio.timeout(90):
        while caplog.text.count("retrying") < 2:  # noqa: ASYNC110 - a line of the log has no event
            await asyncio.sleep(0.01)
    assert watched.records(task) == 1
    staging.unlink()
    await watched.until(lambda: watched.records(task) == 2)
    lines = [line for file in folder.glob("*.json") for line in file.read_text().splitlines()]
    assert sorted(json.loads(line)["n"] for line in lines) == [1, 2]
    assert Failed not in {type(event) for event in watched.of(task)}


class Full(Storage):
    """A storage that is full whenever files are to be made safe."""

    def flush(self, names: list[str]) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_the_storages_trouble_and_a_wrong_query_is_not(spark: SparkSession, tmp_path: Path) -> None:
    manifest = Manifest(Full(spark, str(tmp_path)), "c", 0)
    manifest.open()
    with pytest.raises(OSError, match="No space") as full:
        manifest.commit(stage(manifest, tmp_path, {"a": "1"}), {P0: 0}, {P0: 1})
    assert is_storage_trouble(full.value)
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match="file") as in_the_way:
        spark.range(1).write.json(str(tmp_path / "file" / "folder"))
    assert is_storage_trouble(in_the_way.value)
    with pytest.raises(PySparkException) as wrong:
        spark.range(1).selectExpr("raise_error('x')").collect()
    assert not is_storage_trouble(wrong.value)


class Interrupted(Storage):
    """A storage whose owner dies when it has moved a number of files."""

    def __init__(self, spark: SparkSession, root: str, moves: int) -> None:
        super().__init__(spark, root)
        self.moves = moves

    def move(self, name: str, target: str) -> None:
        if self.moves == 0:
            raise KeyboardInterrupt
        self.moves -= 1
        super().move(name, target)


def stage(manifest: Manifest, folder: Path, files: Mapping[str, str]) -> str:
    staging = manifest.stage()
    for name, text in files.items():
        path = folder / manifest.path_of(staging) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return staging


def texts(folder: Path, names: Sequence[str]) -> list[str]:
    return [(folder / name).read_text() for name in names]


def test_what_was_committed_is_moved_by_whoever_comes_next_and_the_rest_is_dropped(
    spark: SparkSession, tmp_path: Path
) -> None:
    dying = Manifest(Interrupted(spark, str(tmp_path), moves=1), "c", 0)
    dying.open()
    committed = stage(dying, tmp_path, {"a": "1", "day=1/b": "2", "_SUCCESS": ""})
    with pytest.raises(KeyboardInterrupt):
        dying.commit(committed, {P0: 0}, {P0: 5})
    left = stage(dying, tmp_path, {"c": "3"})
    assert not (tmp_path / "day=1" / "b").exists()
    storage = Storage(spark, str(tmp_path))
    heir = Manifest(storage, "c", 0)
    heir.open()
    assert texts(tmp_path, ["a", "day=1/b"]) == ["1", "2"]
    assert heir.offsets == {P0: 5}
    assert not (tmp_path / heir.path_of(left)).exists()
    assert storage.names(heir.path_of("")) == []


def test_a_task_that_was_replaced_commits_nothing(spark: SparkSession, tmp_path: Path) -> None:
    storage = Storage(spark, str(tmp_path))
    zombie, owner, neighbour = (Manifest(storage, "c", number) for number in (0, 1, 2))
    for each in (zombie, owner, neighbour):
        each.open()
    late = stage(zombie, tmp_path, {"late": "x"})
    owner.commit(stage(owner, tmp_path, {"first": "1"}), {P0: 0}, {P0: 3})
    neighbour.commit(stage(neighbour, tmp_path, {"second": "2"}), {P1: 0}, {P1: 7})
    with pytest.raises(FencedError, match="t-0 is at 3 by now"):
        zombie.commit(late, {P0: 0}, {P0: 2})
    assert not (tmp_path / "late").exists()
    assert texts(tmp_path, ["first", "second"]) == ["1", "2"]
    newest = max((tmp_path / "_connect" / "c" / "commits").glob("*.json"))
    assert json.loads(newest.read_text())["offsets"] == {"t": {"0": 3, "1": 7}}
