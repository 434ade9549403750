"""Runs tasks on one Spark session: the Runtime of a worker."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import structlog
from pyspark.sql import SparkSession

from barnabas.client.admin.transactions import TransactionsAdmin
from barnabas.client.cluster import Cluster
from barnabas.client.config import ClientConfig
from barnabas.connect.connector import AnySource, ConnectError, Connector, PollingSource, Sink, Source
from barnabas.connect.herder_port import ConnectorOffset
from barnabas.connect.runtime import Failed, OnEvent, SourceOffsets, TaskLaunch, UnknownTaskError
from barnabas.connect.spark.connector_offsets import SinkOffsets, parse_sink_offsets
from barnabas.connect.spark.polling_task import PollingTask
from barnabas.connect.spark.settings import SparkSettings, group_of
from barnabas.connect.spark.sink_task import SinkTask
from barnabas.connect.spark.source_offsets import OffsetsOfSources
from barnabas.connect.spark.source_task import SourceTask
from barnabas.connect.spark.task import Surroundings, Task
from barnabas.core.connect.exactly_once import transactional_ids
from barnabas.core.connect.ids import ConnectorTaskId
from barnabas.model.config import ConfigError
from barnabas.model.topic_partition import TopicPartition
from barnabas.spark.session import open_session
from barnabas.wire.errors import ApiError

T = TypeVar("T")
Find = Callable[[Mapping[str, str]], type[Connector]]
"""Gives the class that a connector's configuration names; ConfigError when there is none."""
log: Final = structlog.get_logger("barnabas.connect.runner")
_THREADS: Final = 64
_MODIFIED: Final = "The offsets for this connector have been {} successfully"
_FRAMEWORK_MODIFIED: Final = (
    "The Connect framework-managed offsets for this connector have been {0} successfully. However, if this connector "
    "manages offsets externally, they will need to be manually {0} in the system that the connector uses."
)
"""The JVM's answers, which clients may look for."""
SESSION: Final = {
    "spark.scheduler.mode": "FAIR",
    "spark.sql.streaming.pollingDelay": "50ms",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.sql.streaming.stopTimeout": "10s",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""Many small queries in one session: none starves another, none turns a core by looking for work."""


@dataclass(slots=True)
class _Held:
    """A task and its work; neither for one that could not even be made."""

    task: Task | None = None
    work: asyncio.Task[None] | None = None


class SparkRuntime:
    """Implements `barnabas.connect.runtime.Runtime`.

    find: which class a configuration means. spark: a session to use and to leave open; None: one of its own.
    """

    def __init__(
        self, settings: SparkSettings, find: Find, source_offsets: SourceOffsets, *, spark: SparkSession | None = None
    ) -> None:
        self._settings = settings
        self._given = spark
        self._find = find
        self._source_offsets = OffsetsOfSources(settings, source_offsets)
        self._executor = ThreadPoolExecutor(_THREADS, "connect-spark")
        self._around: Surroundings | None = None
        self._held: dict[ConnectorTaskId, _Held] = {}

    @property
    def spark(self) -> SparkSession:
        """Give the session; it is there once `open` has returned."""
        assert self._around is not None
        return self._around.spark

    async def open(self) -> None:
        """Start Spark."""
        scratch = Path(await self._in_thread(lambda: tempfile.mkdtemp(prefix="connect-", dir=self._settings.scratch)))
        spark = await self._in_thread(self._open_session)
        self._around = Surroundings(spark, replace(self._settings, scratch=scratch), self._executor)

    async def close(self) -> None:
        """Stop every task, and Spark."""
        await asyncio.gather(*(self.stop(task) for task in list(self._held)))
        around, self._around = self._around, None
        if around is not None:
            if self._given is None:
                await self._in_thread(around.spark.stop)
            await self._in_thread(lambda: shutil.rmtree(around.settings.scratch, ignore_errors=True))
        self._executor.shutdown()

    async def plan(self, name: str, config: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        """Give the task configurations of a connector; ConfigError, ConnectError or what the connector raises."""
        kind = self._find(config)
        connector = kind.of(self._settings.resolved(config))
        most = int(config.get("tasks.max", "1"))
        wanted = await self._in_thread(lambda: connector.task_configs(most))
        if len(wanted) > most:
            raise ConnectError(f"connector {name} wants {len(wanted)} tasks, and tasks.max is {most}")
        task_class = kind.TASK_CLASS or f"{kind.__module__}.{kind.__qualname__}"
        return [{**config, **each, "task.class": task_class} for each in wanted]

    async def start(self, launch: TaskLaunch, on_event: OnEvent) -> None:
        """Accept a task."""
        if launch.id in self._held:
            raise ValueError(f"task {launch.id} is here already")
        assert self._around is not None
        try:
            task = self._make(launch, on_event)
        except Exception as error:  # noqa: BLE001 - what is wrong with the task is the task's
            self._held[launch.id] = _Held()
            on_event(launch.id, Failed("".join(traceback.format_exception(error))))
            return
        self._held[launch.id] = _Held(task, asyncio.create_task(task.run(), name=f"task {launch.id}"))

    async def pause(self, task: ConnectorTaskId) -> None:
        """Have a task pause."""
        if (held := self._get(task).task) is not None:
            held.pause()

    async def resume(self, task: ConnectorTaskId) -> None:
        """Have a task go on."""
        if (held := self._get(task).task) is not None:
            held.resume()

    async def stop(self, task: ConnectorTaskId) -> None:
        """End a task and forget it."""
        held = self._get(task)
        if held.task is not None and held.work is not None:
            held.task.stop()
            done, _ = await asyncio.wait([held.work], timeout=self._settings.graceful_ms / 1000)
            if not done:
                log.warning("task cut off", connector=task.connector, task=task.task)
                held.work.cancel()
                await asyncio.gather(held.work, return_exceptions=True)
        self._held.pop(task, None)

    async def fence(self, name: str, config: Mapping[str, str], tasks: int) -> None:
        """Shut out the first `tasks` tasks of a source wherever they run, with the connector's admin settings."""
        group = self._settings.worker.text("group.id")
        client = ClientConfig.from_properties(self._settings.admin(name, config))
        async with Cluster(client) as cluster:
            fenced = await TransactionsAdmin(cluster).fence_producers(transactional_ids(group, name, tasks))
        for transactional_id, outcome in fenced.items():
            if isinstance(outcome, ApiError):
                raise ApiError(outcome.code, f"the tasks that write as {transactional_id!r} cannot be shut out")

    async def offsets(self, name: str, config: Mapping[str, str]) -> Sequence[ConnectorOffset]:
        """Give where a connector is."""
        if issubclass(self._find(config), Sink):
            return await self._sink_offsets(name, config).all()
        return await self._source_offsets.read_all(name, config)

    async def alter_offsets(self, name: str, config: Mapping[str, str], offsets: Sequence[ConnectorOffset]) -> str:
        """Move a connector that is stopped everywhere; say what was done."""
        kind = self._find(config)
        if not issubclass(kind, Sink):
            self._check_offsets(kind, config, offsets)
            await self._source_offsets.change(name, config, offsets)
            return _MODIFIED.format("altered")
        wanted = parse_sink_offsets(offsets)
        await self._sink_offsets(name, config).alter(wanted)
        return await self._altered(kind, config, wanted, "altered")

    async def reset_offsets(self, name: str, config: Mapping[str, str]) -> str:
        """Have a connector that is stopped everywhere begin again; say what was done."""
        kind = self._find(config)
        if not issubclass(kind, Sink):
            known = await self._source_offsets.read_all(name, config)
            forgotten_all = [ConnectorOffset(each.partition, None) for each in known]
            self._check_offsets(kind, config, forgotten_all)
            await self._source_offsets.change(name, config, forgotten_all)
            return _MODIFIED.format("reset")
        group = self._sink_offsets(name, config)
        forgotten: dict[TopicPartition, int | None] = dict.fromkeys(parse_sink_offsets(await group.all()))
        await group.reset()
        return await self._altered(kind, config, forgotten, "reset")

    def _check_offsets(
        self, kind: type[Connector], config: Mapping[str, str], offsets: Sequence[ConnectorOffset]
    ) -> None:
        source = kind.of(self._settings.resolved(config))
        if isinstance(source, AnySource):
            source.check_offsets([(each.partition, each.offset) for each in offsets])

    async def _altered(
        self, kind: type[Sink], config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None], done: str
    ) -> str:
        """Have the sink's own record follow, if it has one."""
        sink = kind.of(self._settings.resolved(config))
        followed = await self._in_thread(lambda: sink.alter_offsets(self.spark, offsets))
        return (_MODIFIED if followed else _FRAMEWORK_MODIFIED).format(done)

    def _sink_offsets(self, name: str, config: Mapping[str, str]) -> SinkOffsets:
        return SinkOffsets(self._settings.admin(name, config), group_of(name, config))

    def _make(self, launch: TaskLaunch, on_event: OnEvent) -> Task:
        assert self._around is not None
        kind = self._find(launch.connector_config)
        if issubclass(kind, Sink):
            return SinkTask(launch, kind, self._around, on_event)
        if issubclass(kind, PollingSource):
            return PollingTask(launch, kind, self._around, on_event, self._source_offsets)
        if issubclass(kind, Source):
            return SourceTask(launch, kind, self._around, on_event, self._source_offsets)
        raise ConfigError(f"{kind.__name__} is neither a sink nor a source")

    def _open_session(self) -> SparkSession:
        if self._given is not None:
            return self._given
        settings = {**SESSION, **self._settings.spark}
        session = open_session("barnabas connect", master=self._settings.master, settings=settings, quiet=True)
        _warm_up(session)
        return session

    def _get(self, task: ConnectorTaskId) -> _Held:
        held = self._held.get(task)
        if held is None:
            raise UnknownTaskError(str(task))
        return held

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)


def _warm_up(spark: SparkSession) -> None:
    """Have Spark load what every batch needs, while nobody waits: the first job of a session takes seconds."""
    spark.range(1).mapInArrow(_same, "id long").toArrow()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
