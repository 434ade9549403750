"""A runtime without Spark: a task is an asyncio task that copies the lines of files to a topic, as FileStreamSource.

The class is the JVM's own, and so are the offsets, so that a connector may move between both kinds of worker.
`files`, a list, is ours: one task for each, `tasks.max` at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from barnabas.client.admin.transactions import TransactionsAdmin
from barnabas.client.cluster import Cluster
from barnabas.client.config import ClientConfig
from barnabas.client.producer import Producer
from barnabas.client.producer_id import ProducerId
from barnabas.connect.herder_port import ConfigInfos, ConnectorOffset, ConnectorType, NotFoundError, PluginInfo
from barnabas.connect.runtime import (
    Event,
    Failed,
    OnEvent,
    Paused,
    Running,
    SourceOffsets,
    Stopped,
    TaskLaunch,
    TopicUsed,
    UnknownTaskError,
)
from barnabas.core.connect.exactly_once import transactional_ids
from barnabas.core.connect.ids import ConnectorTaskId, TargetState
from barnabas.model.config import ConfigError

FILE_SOURCE: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
LINES: Final = "LinesSource"
_LOOK_SECONDS: Final = 0.02
_GRACE_SECONDS: Final = 5.0


class PlainPlugins:
    """What workers with this runtime know: the two ways to name its one connector."""

    def __init__(self, *classes: str) -> None:
        self.classes = classes or (FILE_SOURCE, LINES)

    def all(self, *, connectors_only: bool = True) -> Sequence[PluginInfo]:
        return [PluginInfo(name, "source", "1.0") for name in self.classes]

    def config_definitions(self, plugin: str, version: str | None = None) -> Sequence[Mapping[str, Any]]:
        raise NotFoundError(plugin)

    async def validate(self, config: Mapping[str, str | None]) -> ConfigInfos:
        wrong = [] if self.knows(config) else [f"no class {config.get('connector.class')}"]
        row = {"definition": {"name": "connector.class"}, "value": {"name": "connector.class", "errors": wrong}}
        return ConfigInfos(config.get("connector.class") or "", len(wrong), (), (row,))

    def connector_type(self, config: Mapping[str, str]) -> ConnectorType:
        return ConnectorType.SOURCE if self.knows(config) else ConnectorType.UNKNOWN

    def knows(self, config: Mapping[str, str | None]) -> bool:
        return config.get("connector.class") in (*self.classes, "FileStreamSource")

    def class_name(self, config: Mapping[str, str]) -> str | None:
        if not self.knows(config):
            return None
        named = config["connector.class"]
        return FILE_SOURCE if named == "FileStreamSource" else named

    def connector_version(self, config: Mapping[str, str]) -> str | None:
        return "1.0" if self.knows(config) else None


class PlainRuntime:
    """`runtime.Runtime` with asyncio tasks."""

    def __init__(self, client: ClientConfig, offsets: SourceOffsets, group: str = "") -> None:
        self._client = client
        self._group = group
        self._offsets = offsets
        self._copies: dict[ConnectorTaskId, _Copy] = {}
        self._producer: Producer | None = None

    async def open(self) -> None:
        self._producer = Producer(self._client)

    async def close(self) -> None:
        for task in list(self._copies):
            await self.stop(task)
        if self._producer is not None:
            await self._producer.close()

    async def plan(self, name: str, config: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        if "topic" not in config:
            raise ConfigError("topic is not set")
        own = dict(config) | {"task.class": "org.apache.kafka.connect.file.FileStreamSourceTask"}
        if "files" not in config:
            return [own]
        files = config["files"].split(",")
        return [own | {"file": file} for file in files[: int(config.get("tasks.max", "1"))]]

    async def start(self, launch: TaskLaunch, on_event: OnEvent) -> None:
        assert self._producer is not None
        self._copies[launch.id] = _Copy(launch, on_event, self._producer, self._offsets)

    async def pause(self, task: ConnectorTaskId) -> None:
        self._copy(task).work.clear()

    async def resume(self, task: ConnectorTaskId) -> None:
        self._copy(task).work.set()

    async def stop(self, task: ConnectorTaskId) -> None:
        copy = self._copy(task)
        del self._copies[task]
        await copy.stop()

    async def fence(self, name: str, config: Mapping[str, str], tasks: int) -> None:
        async with Cluster(self._client) as cluster:
            fenced = await TransactionsAdmin(cluster).fence_producers(transactional_ids(self._group, name, tasks))
        assert all(isinstance(outcome, ProducerId) for outcome in fenced.values()), fenced

    async def offsets(self, name: str, config: Mapping[str, str]) -> Sequence[ConnectorOffset]:
        return await self._offsets.read_all(name)

    async def alter_offsets(self, name: str, config: Mapping[str, str], offsets: Sequence[ConnectorOffset]) -> str:
        await self._offsets.write(name, offsets)
        return "altered"

    async def reset_offsets(self, name: str, config: Mapping[str, str]) -> str:
        await self._offsets.write(name, [ConnectorOffset(o.partition, None) for o in await self.offsets(name, config)])
        return "reset"

    def _copy(self, task: ConnectorTaskId) -> _Copy:
        if task not in self._copies:
            raise UnknownTaskError(str(task))
        return self._copies[task]


class _Copy:
    """One task: lines from where the offset is, to the topic, then the offset."""

    def __init__(self, launch: TaskLaunch, on_event: OnEvent, producer: Producer, offsets: SourceOffsets) -> None:
        self._launch = launch
        self._on_event = on_event
        self._producer = producer
        self._offsets = offsets
        self.work = asyncio.Event()
        if launch.target_state is TargetState.STARTED:
            self.work.set()
        self._stopping = False
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._stopping = True
        self.work.set()
        await asyncio.wait({self._task}, timeout=_GRACE_SECONDS)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _tell(self, event: Event) -> None:
        self._on_event(self._launch.id, event)

    async def _run(self) -> None:
        try:
            await self._copy()
        except Exception as e:  # noqa: BLE001 - a task that fails says so
            self._tell(Failed(f"{type(e).__name__}: {e}"))
        else:
            self._tell(Stopped())

    async def _copy(self) -> None:
        path, topic = Path(self._launch.config["file"]), self._launch.config["topic"]
        partition = {"filename": str(path)}
        if self._launch.preflight is not None:  # it writes without transactions, but begins like one that does not
            await self._launch.preflight.fence()
            await self._launch.preflight.check()
        (known,) = await self._offsets.read(self._launch.id.connector, [partition])
        position = 0 if known.offset is None else int(known.offset["position"])
        self._tell(Running() if self.work.is_set() else Paused())
        while not self._stopping:
            if not self.work.is_set():
                self._tell(Paused())
                await self.work.wait()
                self._tell(Running())
                continue
            new = path.read_bytes()[position:]
            lines = new[: new.rfind(b"\n") + 1]
            if not lines:
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            for line in lines.splitlines():
                await self._producer.send(topic, line)
            await self._producer.flush()
            self._tell(TopicUsed(topic))
            position += len(lines)
            await self._offsets.write(self._launch.id.connector, [ConnectorOffset(partition, {"position": position})])
