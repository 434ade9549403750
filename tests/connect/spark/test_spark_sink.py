"""SparkSink: files exactly once, whatever is interrupted when, and what they look like."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from barnabas.connect.connector import FencedError
from barnabas.connect.connectors import manifest as manifests
from barnabas.connect.connectors.java_errors import is_storage_trouble
from barnabas.connect.connectors.manifest import Manifest
from barnabas.connect.connectors.spark_sink import SparkSink
from barnabas.connect.connectors.storage import Storage
from barnabas.connect.herder_port import ConnectorOffset, HerderError
from barnabas.connect.runtime import Failed, Progress, Running
from barnabas.model.topic_partition import TopicPartition
from barnabas.testing.ports import free_ports

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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a file system of its own, of 4 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"only root can make a disk that fills up: {mounted.stderr}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(file: Path) -> None:
    """Have a file take all the room there is."""
    with file.open("wb", buffering=0) as out, suppress(OSError):
        while True:
            out.write(bytes(1 << 12))


async def test_a_full_disk_is_waited_for_and_other_connectors_do_not_notice(
    watched: Watched, topics: Topics, tmp_path: Path, small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic, others, folder, text = topics.create(), topics.create(), small_disk / "lake", "x" * 100
    more = {"format": "json", "select": "cast(value as int) n, repeat('x', 100) text"}
    task = await watched.start(sink(topic, folder, errors__retry__delay__max__ms="50", **more))
    other = await watched.start(sink(others, tmp_path / "lake", **more))
    topics.produce(topic, [b"0"])
    await watched.until(lambda: watched.records(task) == 1)
    fill(small_disk / "filler")
    topics.produce(topic, [b"%d" % n for n in range(1, 1000)])
    async with asyncio.timeout(90):
        while caplog.text.count("retrying") < 3:  # noqa: ASYNC110 - a line of the log has no event
            await asyncio.sleep(0.01)
    assert "No space left on device" in str([vars(record) for record in caplog.records])
    topics.produce(others, [b"1", b"2"])
    await watched.until(lambda: watched.records(other) == 2)
    assert watched.records(task) == 1
    (small_disk / "filler").unlink()
    await watched.until(lambda: watched.records(task) == 1000)
    lines = [json.loads(line) for file in folder.glob("*.json") for line in file.read_text().splitlines()]
    assert sorted(line["n"] for line in lines) == list(range(1000))
    assert {line["text"] for line in lines} == {text}
    assert list((folder / "_connect" / task.connector / "staging").iterdir()) == []
    assert Failed not in {type(event) for _, event in watched.events}


async def test_a_path_that_cannot_be_reached_when_a_task_begins_is_waited_for(
    watched: Watched, topics: Topics, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic, folder, name = topics.create(), tmp_path / "lake", f"c-{uuid.uuid4().hex[:8]}"
    config = sink(topic, folder, format="json", select="cast(value as int) n", errors__retry__delay__max__ms="50")
    topics.produce(topic, [b"1", b"2"])
    first = await watched.start(config, name=name)
    await watched.until(lambda: watched.records(first) == 2)
    await watched.runtime.stop(first)
    # The group forgets, so that only the manifest knows; and that cannot be read now.
    await watched.runtime._sink_offsets(name, config).reset()
    (commit,) = (folder / "_connect" / name / "commits").glob("*.json")
    text = commit.read_text()
    commit.unlink()
    commit.mkdir()
    again = await watched.start(config, name=name, generation=2)
    async with asyncio.timeout(90):
        while caplog.text.count("retrying") < 2:  # noqa: ASYNC110 - a line of the log has no event
            await asyncio.sleep(0.01)
    assert isinstance(await watched.until_state(again, Running), Running)
    commit.rmdir()
    commit.write_text(text)
    topics.produce(topic, [b"3"])
    await watched.until(lambda: watched.records(again) == 3)
    lines = [line for file in folder.glob("*.json") for line in file.read_text().splitlines()]
    assert sorted(json.loads(line)["n"] for line in lines) == [1, 2, 3]


async def test_a_path_that_stays_out_of_reach_fails_the_task_when_its_time_is_over(
    watched: Watched, topics: Topics, spark: SparkSession
) -> None:
    (port,) = free_ports(1)
    spark.conf.set("ipc.client.connect.max.retries", "0")
    watched.may_fail = True
    try:
        topic = topics.create()
        task = await watched.start(
            sink(topic, Path("lake"), errors__retry__timeout="0") | {"path": f"hdfs://127.0.0.1:{port}/lake"}
        )
        await watched.until_state(task, Running)
        topics.produce(topic, [b"1"])
        failed = await watched.until_state(task, Failed)
    finally:
        spark.conf.unset("ipc.client.connect.max.retries")
    assert isinstance(failed, Failed)
    assert f"RetriableError: cannot write to hdfs://127.0.0.1:{port}/lake" in failed.trace
    assert "Connection refused" in failed.trace


class Full(Storage):
    """A storage that is full whenever files are to be made safe."""

    def flush(self, names: list[str]) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_the_storages_trouble_and_a_wrong_query_is_not(spark: SparkSession, tmp_path: Path) -> None:
    manifest = Manifest(Full(spark, str(tmp_path)), "c", 0)
    manifest.open()
    staged = stage(manifest, tmp_path, {"a": "1"})
    with pytest.raises(OSError, match="No space") as full:
        manifest.commit(staged, {P0: 0}, {P0: 1})
    assert is_storage_trouble(full.value)
    assert (tmp_path / manifest.path_of(staged)).exists()
    manifest.close()
    assert not (tmp_path / manifest.path_of(staged)).exists()
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
    put(folder / manifest.path_of(staging), files)
    return staging


def put(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


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
    left = "0.gone.7"
    put(tmp_path / dying.path_of(left), {"c": "3"})
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


def test_a_run_that_is_slow_commits_nothing_of_what_the_next_one_has_dropped(
    spark: SparkSession, tmp_path: Path
) -> None:
    storage = Storage(spark, str(tmp_path))
    slow, neighbour = Manifest(storage, "c", 0), Manifest(storage, "c", 1)
    slow.open()
    neighbour.open()
    late = stage(slow, tmp_path, {"late": "x"})
    its = stage(neighbour, tmp_path, {"other": "2"})
    heir = Manifest(storage, "c", 0)
    heir.open()
    with pytest.raises(FencedError, match="task 0 has been started anew"):
        slow.commit(late, {P0: 0}, {P0: 2})
    neighbour.commit(its, {P1: 0}, {P1: 7})
    heir.commit(stage(heir, tmp_path, {"first": "1"}), {P0: 0}, {P0: 3})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_connect", "first", "other"]
    third = Manifest(storage, "c", 0)
    third.open()
    third.commit(stage(third, tmp_path, {"third": "3"}), {P0: 3}, {P0: 4})
    assert third.offsets == {P0: 4, P1: 7}
    assert texts(tmp_path, ["first", "other", "third"]) == ["1", "2", "3"]


def test_a_run_that_was_away_for_long_does_not_take_a_number_again_that_is_free_by_then(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "KEPT_COMMITS", 2)
    storage = Storage(spark, str(tmp_path))
    away, owner = Manifest(storage, "c", 0), Manifest(storage, "c", 1)
    away.open()
    owner.open()
    late = stage(away, tmp_path, {"late": "x"})
    for number in range(4):
        owner.commit(stage(owner, tmp_path, {f"file-{number}": "1"}), {P0: number}, {P0: number + 1})
    names = sorted(path.name for path in (tmp_path / "_connect" / "c" / "commits").iterdir())
    assert names == [f"{number:020}.json" for number in (2, 3)]
    with pytest.raises(FencedError, match="t-0 is at 4 by now"):
        away.commit(late, {P0: 0}, {P0: 2})
    assert not (tmp_path / "late").exists()
    assert sorted(path.name for path in (tmp_path / "_connect" / "c" / "commits").iterdir()) == names
