"""Topics on one node of ours for the tests of what runs tasks, and a runtime on it and on the tests' Spark."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from barnabas.connect.config import WorkerConfig
from barnabas.connect.connector import Connector
from barnabas.connect.connectors.file_stream_sink import FileStreamSink
from barnabas.connect.connectors.file_stream_source import FileStreamSource
from barnabas.connect.connectors.jdbc_sink import JdbcSink
from barnabas.connect.connectors.jdbc_source import JdbcSource
from barnabas.connect.connectors.spark_sink import SparkSink
from barnabas.connect.connectors.spark_source import SparkSource
from barnabas.connect.herder_port import ConnectorOffset, WriteFailedError
from barnabas.connect.runtime import Event, Failed, Paused, Progress, Running, Stopped, TaskLaunch
from barnabas.connect.spark.runner import SparkRuntime
from barnabas.connect.spark.settings import SparkSettings
from barnabas.core.connect.ids import ConnectorTaskId, TargetState
from barnabas.core.connect.records import Record
from barnabas.model.config import ConfigError
from barnabas.testing.local import LocalCluster

PATIENCE_S = 240
STRING = "org.apache.kafka.connect.storage.StringConverter"


class Topics:
    """Makes and fills topics of the node."""

    def __init__(self, node: LocalCluster) -> None:
        self._node = node
        self.bootstrap = next(iter(node)).bootstrap

    def create(self, partitions: int = 1, *, name: str | None = None, **configs: str) -> str:
        """Give the name of a new topic."""
        name = name or f"t-{uuid.uuid4().hex[:8]}"
        self._node.create_topic(name, partitions, -1, **configs)
        return name

    def values(self, topic: str, count: int) -> list[bytes | None]:
        """Give the first values of a topic's partition 0, waiting until there are so many."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "values", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found: list[bytes | None] = []
        try:
            while len(found) < count:
                messages = consumer.consume(count - len(found), PATIENCE_S)
                assert messages, f"{len(found)} of {count} records came"
                found += [message.value() for message in messages]
        finally:
            consumer.close()
        return found

    def produce(self, topic: str, values: Sequence[bytes | None], *, partitions: int = 1, **more: Any) -> None:
        """Write values over the partitions in turn."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % partitions, **more)
        assert producer.flush(120) == 0


@pytest.fixture(scope="module")
def topics(connect_cluster: LocalCluster) -> Topics:
    """Give what makes topics."""
    return Topics(connect_cluster)


class KeptOffsets:
    """Keeps source offsets as long as it lives: an implementation of SourceOffsets that needs no topic.

    refuses: whether it takes none, as a topic whose brokers are away.
    """

    def __init__(self) -> None:
        self.kept: dict[str, list[ConnectorOffset]] = {}
        self.refuses = False

    @property
    def topic(self) -> str:
        """Give the name of no topic."""
        return "no-offsets"

    def records(self, connector: str, offsets: Sequence[ConnectorOffset]) -> Sequence[Record]:
        """Give none: there is no topic."""
        return []

    async def follow(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        """Hear of what is kept elsewhere."""

    async def read(self, connector: str, partitions: Sequence[Mapping[str, object]]) -> Sequence[ConnectorOffset]:
        """Give what is kept of these."""
        known = {str(each.partition): each for each in self.kept.get(connector, [])}
        return [known.get(str(dict(each))) or ConnectorOffset(each, None) for each in partitions]

    async def read_all(self, connector: str) -> Sequence[ConnectorOffset]:
        """Give all that is kept."""
        return list(self.kept.get(connector, []))

    async def write(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        """Keep these."""
        if self.refuses:
            raise WriteFailedError("the offsets are refused")
        new = {str(each.partition): each for each in offsets}
        old = [each for each in self.kept.get(connector, []) if str(each.partition) not in new]
        self.kept[connector] = old + [each for each in offsets if each.offset is not None]


class Watched:
    """A runtime, and the events that it has given."""

    def __init__(self, runtime: SparkRuntime, offsets: KeptOffsets) -> None:
        self.runtime = runtime
        self.offsets = offsets
        self.events: list[tuple[ConnectorTaskId, Event]] = []
        self.may_fail = False
        self._came = asyncio.Event()

    def on_event(self, task: ConnectorTaskId, event: Event) -> None:
        """Take note of an event."""
        self.events.append((task, event))
        self._came.set()

    async def start(
        self, config: Mapping[str, str], *, name: str | None = None, task: int = 0, generation: int = 1,
        state: TargetState = TargetState.STARTED,
    ) -> ConnectorTaskId:  # fmt: skip
        """Start one task of a connector; give its id."""
        name = name or f"c-{uuid.uuid4().hex[:8]}"
        config = {"name": name, "key.converter": STRING, "value.converter": STRING, **config}
        tasks = await self.runtime.plan(name, {**config, "tasks.max": str(task + 1)})
        launch = TaskLaunch(ConnectorTaskId(name, task), tasks[task], config, state, generation)
        await self.runtime.start(launch, self.on_event)
        return launch.id

    def of(self, task: ConnectorTaskId) -> list[Event]:
        """Give the events of a task."""
        return [event for one, event in self.events if one == task]

    def records(self, task: ConnectorTaskId) -> int:
        """Give how many records a task has done."""
        return sum(event.records for event in self.of(task) if isinstance(event, Progress))

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait for events until `done`."""
        async with asyncio.timeout(PATIENCE_S):
            while not done():
                failed = [event for _, event in self.events if isinstance(event, Failed)]
                assert self.may_fail or not failed, failed[0].trace
                self._came.clear()
                await self._came.wait()

    async def until_state(self, task: ConnectorTaskId, state: type[Running | Paused | Stopped | Failed]) -> Event:
        """Wait until the newest state of a task is this; give the event."""
        kinds = (Running, Paused, Stopped, Failed)

        def newest() -> Event | None:
            return next((event for event in reversed(self.of(task)) if isinstance(event, kinds)), None)

        await self.until(lambda: isinstance(newest(), state))
        event = newest()
        assert event is not None
        return event


def find(config: Mapping[str, str]) -> type[Connector]:
    """Give the class of a connector, those of the tests by their whole name."""
    known: dict[str, type[Connector]] = {
        kind.__name__: kind for kind in (FileStreamSink, FileStreamSource, SparkSink, SparkSource, JdbcSink, JdbcSource)
    }
    known |= {kind.__name__: kind for kind in _subclasses(Connector)}
    if config["connector.class"] not in known:
        raise ConfigError(f"there is no {config['connector.class']}")
    return known[config["connector.class"]]


def _subclasses(kind: type[Any]) -> list[type[Any]]:
    return [each for direct in kind.__subclasses__() for each in (direct, *_subclasses(direct))]


@asynccontextmanager
async def watching(
    spark: SparkSession, bootstrap: str, scratch: Path, *, graceful_ms: int = 20_000
) -> AsyncIterator[Watched]:
    """Give a runtime of its own on a session; all of its tasks are stopped in the end. scratch: a folder to make."""
    scratch.mkdir()
    offsets = KeptOffsets()
    worker = WorkerConfig.from_properties(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "runtime-alone",
            "config.storage.topic": "none",
            "offset.storage.topic": "none",
            "status.storage.topic": "none",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "config.providers": "file",
            "consumer.heartbeat.interval.ms": "100",
            "task.shutdown.graceful.timeout.ms": str(graceful_ms),
        }
    )
    runtime = SparkRuntime(SparkSettings(worker, scratch), find, offsets, spark=spark)
    await runtime.open()
    try:
        yield Watched(runtime, offsets)
    finally:
        await runtime.close()
    assert not list(scratch.iterdir())


@pytest.fixture
async def watched(spark: SparkSession, topics: Topics, tmp_path: Path) -> AsyncIterator[Watched]:
    """Give a runtime of its own on the shared session; all of its tasks are stopped in the end."""
    async with watching(spark, topics.bootstrap, tmp_path / "scratch") as found:
        yield found
