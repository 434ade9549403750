"""What every task does: pause, resume, share partitions, fail alone, retry, and what becomes of records that fail."""

from __future__ import annotations

import asyncio
import threading
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from barnabas.connect.connector import RetriableError, Sink
from barnabas.connect.runtime import Failed, Paused, Running, Stopped
from barnabas.core.connect.ids import ConnectorTaskId, TargetState
from barnabas.model.config import ConfigKey, ConfigTable, ConfigType
from barnabas.testing.local import LocalCluster

from .conftest import Topics, Watched, watching

pytestmark = [pytest.mark.spark, pytest.mark.slow]
JSON = "org.apache.kafka.connect.json.JsonConverter"


class Collected(Sink):
    """Keeps what it gets, by the name of its connector; does what a test has put into `trouble` first."""

    VERSION = "1"
    CONFIG = ConfigTable(ConfigKey("name", ConfigType.STRING, None, "The connector's name."))
    rows: dict[str, list[Any]] = {}  # noqa: RUF012
    trouble: dict[str, list[Exception]] = {}  # noqa: RUF012

    def write(self, batch: DataFrame, batch_id: int) -> None:
        if troubles := self.trouble.get(self.config["name"]):
            raise troubles.pop(0)
        self.rows.setdefault(self.config["name"], []).extend(batch.collect())


class Lingering(Collected):
    """Takes its time to close, until a test lets go of it."""

    let_go = threading.Event()

    def close(self) -> None:
        self.let_go.wait(60)


def config(topic: str, name: str, **more: str) -> dict[str, str]:
    return {
        "connector.class": "Collected",
        "topics": topic,
        "name": name,
        **{key.replace("__", "."): text for key, text in more.items()},
    }


async def test_a_paused_task_keeps_its_place_and_goes_on(watched: Watched, topics: Topics) -> None:
    topic = topics.create()
    task = await watched.start(config(topic, "pausing"), name="pausing", state=TargetState.PAUSED)
    await watched.until_state(task, Paused)
    topics.produce(topic, [b"one"])
    await watched.runtime.resume(task)
    await watched.until(lambda: watched.records(task) == 1)
    await watched.runtime.pause(task)
    await watched.until_state(task, Paused)
    topics.produce(topic, [b"two"])
    await watched.runtime.resume(task)
    await watched.until(lambda: watched.records(task) == 2)
    states = [type(event) for event in watched.of(task) if isinstance(event, Running | Paused)]
    assert states == [Paused, Running, Paused, Running]
    assert [row.value for row in Collected.rows["pausing"]] == ["one", "two"]


async def test_tasks_share_partitions_and_a_stopped_one_gives_its_own_away(watched: Watched, topics: Topics) -> None:
    topic = topics.create(2)
    first = await watched.start(config(topic, "sharing"), name="sharing", task=0)
    second = await watched.start(config(topic, "sharing"), name="sharing", task=1)
    sent = 0
    while not (watched.records(first) and watched.records(second)):
        topics.produce(topic, [b"%d" % n for n in range(sent, sent + 2)], partitions=2)
        sent += 2
        await watched.until(partial(_done, watched, sent, first, second))
    await watched.runtime.stop(second)
    assert isinstance(watched.of(second)[-1], Stopped)
    before = watched.records(first)
    topics.produce(topic, [b"%d" % n for n in range(sent, sent + 2)], partitions=2)
    await watched.until(lambda: watched.records(first) == before + 2)
    values = sorted(int(row.value) for row in Collected.rows["sharing"])
    assert values == list(range(sent + 2))


async def test_a_pattern_finds_topics_that_come_later(watched: Watched, topics: Topics) -> None:
    first = topics.create()
    more = {"topics__regex": f"{first}(-later)?", "consumer__override__metadata__max__age__ms": "200"}
    settings = {key: text for key, text in config(first, "pattern", **more).items() if key != "topics"}
    task = await watched.start(settings, name="pattern")
    topics.produce(first, [b"one"])
    await watched.until(lambda: watched.records(task) == 1)
    topics.produce(topics.create(name=f"{first}-later"), [b"two"])
    await watched.until(lambda: watched.records(task) == 2)
    assert [row.value for row in Collected.rows["pattern"]] == ["one", "two"]


async def test_a_topic_that_comes_later_is_read_soon_after(watched: Watched, topics: Topics) -> None:
    name = f"later-{uuid.uuid4().hex[:8]}"
    task = await watched.start(config(name, "later"), name="later")
    await watched.until(lambda: Running() in watched.of(task))
    topics.produce(topics.create(name=name), [b"one"])
    await watched.until(lambda: watched.records(task) == 1)


async def test_partitions_that_come_later_are_read(
    watched: Watched, connect_cluster: LocalCluster, topics: Topics
) -> None:
    topic = topics.create()
    settings = config(topic, "more", consumer__override__metadata__max__age__ms="200")
    task = await watched.start(settings, name="more")
    topics.produce(topic, [b"one"])
    await watched.until(lambda: watched.records(task) == 1)
    connect_cluster.ask(lambda admin: admin.create_partitions(topic, 2))
    topics.produce(topic, [b"two", b"three"], partitions=2)
    await watched.until(lambda: watched.records(task) == 3)


async def test_a_broker_that_goes_and_comes_back_is_waited_for(
    watched: Watched, connect_cluster: LocalCluster, topics: Topics
) -> None:
    topic = topics.create()
    task = await watched.start(config(topic, "patient"), name="patient")
    topics.produce(topic, [b"one"])
    await watched.until(lambda: watched.records(task) == 1)
    (node,) = connect_cluster
    await asyncio.to_thread(node.restart)
    topics.produce(topic, [b"two"])
    await watched.until(lambda: watched.records(task) == 2)
    assert [row.value for row in Collected.rows["patient"]] == ["one", "two"]


async def test_a_task_fails_alone_with_a_trace_that_hides_secrets(
    watched: Watched, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create()
    (tmp_path / "secrets").write_text("password=hunter22\n")
    secret = f"${{file:{tmp_path / 'secrets'}:password}}"
    watched.may_fail = True
    Collected.trouble["failing"] = [ValueError("no entry with hunter22")]
    task = await watched.start(config(topic, "failing", password=secret), name="failing")
    other = await watched.start(config(topic, "other"), name="other")
    topics.produce(topic, [b"one"])
    failed = await watched.until_state(task, Failed)
    assert isinstance(failed, Failed)
    assert "ValueError: no entry with [hidden]" in failed.trace
    assert "hunter22" not in failed.trace
    await watched.until(lambda: watched.records(other) == 1)
    await watched.runtime.stop(task)
    again = await watched.start(config(topic, "failing"), name="failing", generation=2)
    await watched.until(lambda: watched.records(again) == 1)


async def test_a_task_that_is_cut_off_while_it_closes_closes_all_the_same(
    spark: SparkSession, topics: Topics, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {**config(topics.create(), "slow"), "connector.class": "Lingering"}
    async with watching(spark, topics.bootstrap, tmp_path / "scratch", graceful_ms=300) as watched:
        task = await watched.start(settings, name="slow")
        await watched.until_state(task, Running)
        stopping = asyncio.create_task(watched.runtime.stop(task))
        async with asyncio.timeout(60):
            while "task cut off" not in caplog.text:  # noqa: ASYNC110 - a log has no event
                await asyncio.sleep(0.01)
        assert not stopping.done()
        Lingering.let_go.set()
        await stopping
        assert isinstance(watched.of(task)[-1], Stopped)
        again = await watched.start(settings, name="slow")
        await watched.until(lambda: watched.of(again)[-1] == Running())


async def test_what_a_sink_calls_retriable_is_tried_again(watched: Watched, topics: Topics) -> None:
    topic = topics.create()
    Collected.trouble["retrying"] = [RetriableError("busy"), RetriableError("still busy")]
    more = {"errors__retry__delay__max__ms": "10"}
    task = await watched.start(config(topic, "retrying", **more), name="retrying")
    topics.produce(topic, [b"one"])
    await watched.until(lambda: watched.records(task) == 1)
    assert [row.value for row in Collected.rows["retrying"]] == ["one"]


async def test_retries_end_with_their_time(watched: Watched, topics: Topics) -> None:
    topic = topics.create()
    watched.may_fail = True
    Collected.trouble["tired"] = [RetriableError("busy")]
    task = await watched.start(config(topic, "tired", errors__retry__timeout="0"), name="tired")
    topics.produce(topic, [b"one"])
    failed = await watched.until_state(task, Failed)
    assert isinstance(failed, Failed)
    assert "RetriableError: busy" in failed.trace


async def test_without_tolerance_the_first_record_that_fails_fails_the_task(watched: Watched, topics: Topics) -> None:
    topic = topics.create()
    watched.may_fail = True
    more = {"value__converter": JSON, "value__converter__schemas__enable": "false"}
    task = await watched.start(config(topic, "strict", **more), name="strict")
    topics.produce(topic, [b"{}", b"{"])
    failed = await watched.until_state(task, Failed)
    assert isinstance(failed, Failed)
    assert "Tolerance exceeded in error handler: VALUE_CONVERTER" in failed.trace
    assert f"topic={topic} partition=0 offset=1" in failed.trace
    assert all(row.offset == 0 for row in Collected.rows.get("strict", []))


async def test_with_tolerance_failing_records_become_dead_letters(
    watched: Watched, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    topic, letters = topics.create(), f"{topics.create()}-letters"
    more = {
        "value__converter": JSON,
        "value__converter__schemas__enable": "false",
        "errors__tolerance": "all",
        "errors__log__enable": "true",
        "errors__deadletterqueue__topic__name": letters,
        "errors__deadletterqueue__topic__replication__factor": "1",
        "errors__deadletterqueue__context__headers__enable": "true",
    }
    task = await watched.start(config(topic, "tolerant", **more), name="tolerant")
    topics.produce(topic, [b'{"a": 1}', b"{no", b'{"a": 2}'], key=b"k", headers=[("h", b"v")])
    await watched.until(lambda: watched.records(task) == 3)
    assert len(Collected.rows["tolerant"]) == 2
    assert topics.values(letters, 1) == [b"{no"]
    headers = _headers(topics, letters)
    assert headers[0] == ("h", b"v")
    said = {name.removeprefix("__connect.errors."): value for name, value in headers[1:]}
    assert {name: said[name] for name in ("topic", "partition", "offset", "connector.name", "task.id", "stage")} == {
        "topic": topic.encode(),
        "partition": b"0",
        "offset": b"1",
        "connector.name": b"tolerant",
        "task.id": b"0",
        "stage": b"VALUE_CONVERTER",
    }
    assert said["class.name"] == JSON.encode()
    assert said["exception.class.name"] == b"org.apache.kafka.connect.errors.DataException"
    assert set(said) >= {"exception.message", "exception.stacktrace"}
    assert "{no" not in caplog.text


async def test_headers_go_through_their_converter_and_dead_letters_have_them_as_they_came(
    watched: Watched, topics: Topics
) -> None:
    topic, letters = topics.create(), topics.create()
    more = {
        "header__converter": JSON,
        "header__converter__schemas__enable": "false",
        "errors__tolerance": "all",
        "errors__deadletterqueue__topic__name": letters,
    }
    task = await watched.start(config(topic, "headed", **more), name="headed")
    topics.produce(topic, [b"good"], headers=[("h", b'{"a": 7}')])
    topics.produce(topic, [b"bad"], headers=[("h", b"{")])
    await watched.until(lambda: watched.records(task) == 2)
    (row,) = Collected.rows["headed"]
    assert [(key, value.toPython()) for key, value in row.headers] == [("h", {"a": 7})]
    assert topics.values(letters, 1) == [b"bad"]
    assert _headers(topics, letters) == [("h", b"{")]


async def test_headers_of_a_source_go_through_their_converter(watched: Watched, topics: Topics) -> None:
    topic = topics.create()
    task = await watched.start(
        {
            "connector.class": "SparkSource",
            "format": "rate-micro-batch",
            "options.rowsPerBatch": "1",
            "options.startTimestamp": "0",
            "select": "'x' value, array(named_struct('key', 'h', 'value', timestamp'2020-02-29 12:00:00')) headers",
            "topic": topic,
            "transforms": "t",
            "transforms.t.type": "InsertHeader",
            "transforms.t.header": "n",
            "transforms.t.value.literal": "no date",
        }
    )
    await watched.until(lambda: watched.records(task) >= 1)
    assert _headers(topics, topic) == [("h", b"2020-02-29T12:00:00.000Z"), ("n", b"no date")]


def _done(watched: Watched, count: int, *tasks: ConnectorTaskId) -> bool:
    return sum(watched.records(task) for task in tasks) >= count


def _headers(topics: Topics, topic: str) -> list[tuple[str, bytes]]:
    consumer = Consumer({"bootstrap.servers": topics.bootstrap, "group.id": "letters"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    try:
        message = consumer.poll(30)
        assert message is not None
        headers: Any = message.headers()
        return list(headers)
    finally:
        consumer.close()
