"""The shards of a coordinator on this node: those of the partitions of its topic that the node leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

import structlog

from barnabas.core.coordinators.shard import Shard
from barnabas.model.ports import Clock
from barnabas.model.topic_partition import TopicPartition
from barnabas.server.coordinators.coordinator_log import CoordinatorLog
from barnabas.server.coordinators.runtime import Kind, LogSettings, ShardRuntime, ShardState
from barnabas.wire.errors import ApiError, ErrorCode

S = TypeVar("S", bound=Shard[Any])
I = TypeVar("I")  # noqa: E741


class Shards(Generic[S, I]):
    """Shards by partition of `topic`.

    new: makes the shard of a partition with that log. open_log: gives the log of a partition that this node has come
    to lead. on_commit: told of partitions whose committed state has changed.
    """

    def __init__(
        self,
        kind: Kind,
        topic: str,
        new: Callable[[CoordinatorLog], S],
        *,
        clock: Clock,
        open_log: Callable[[TopicPartition], CoordinatorLog],
        settings: LogSettings,
        on_commit: Callable[[int, ShardRuntime[S, I]], None] | None = None,
    ) -> None:
        self._on_commit = on_commit
        self._kind = kind
        self._topic = topic
        self._new = new
        self._clock = clock
        self._open_log = open_log
        self._settings = settings
        self._runtimes: dict[int, ShardRuntime[S, I]] = {}
        self._loading: set[asyncio.Task[None]] = set()
        self._closed = False

    # leadership

    def elected(self, partition: int) -> asyncio.Task[None]:
        """Take a partition over, or again after its epoch changed; the task ends when it is loaded."""
        self.resigned(partition)
        task = asyncio.get_running_loop().create_task(self._load(self._open(partition)))
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)
        return task

    async def _load(self, runtime: ShardRuntime[S, I] | None) -> None:
        if runtime is not None:
            await runtime.load()

    def _open(self, partition: int) -> ShardRuntime[S, I] | None:
        tp = TopicPartition(self._topic, partition)
        try:
            partition_log = self._open_log(tp)
        except ApiError as e:
            log = structlog.get_logger(self._kind.logger)
            log.error(f"{self._kind.what} not served", partition=str(tp), error=str(e))
            return None
        runtime = self._runtimes[partition] = ShardRuntime(
            self._kind,
            self._new(partition_log),
            partition_log,
            self._clock,
            name=str(tp),
            settings=self._settings,
        )
        if self._on_commit is not None:
            runtime.on_commit = partial(self._on_commit, partition, runtime)
        return runtime

    def resigned(self, partition: int) -> None:
        """Give a partition up: what it holds is somebody else's now, or nobody's."""
        runtime = self._runtimes.pop(partition, None)
        if runtime is not None:
            runtime.close()

    async def close(self) -> None:
        """Give all partitions up, and wait until nothing of them runs."""
        self._closed = True
        for partition in list(self._runtimes):
            self.resigned(partition)
        if self._loading:
            await asyncio.wait(self._loading)

    # who is here

    @property
    def by_partition(self) -> Mapping[int, ShardRuntime[S, I]]:
        """Give the shards of this node."""
        return self._runtimes

    def at(self, partition: int) -> ShardRuntime[S, I]:
        """Give a partition's shard; raises NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE once closed."""
        if self._closed:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        runtime = self._runtimes.get(partition)
        if runtime is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return runtime

    def active(self) -> Iterator[tuple[int, ShardRuntime[S, I]]]:
        """Give those that serve, by partition."""
        for partition, runtime in sorted(self._runtimes.items()):
            if runtime.state is ShardState.ACTIVE:
                yield partition, runtime

    def committed_images(self) -> list[I]:
        """Give all that is committed here; raises COORDINATOR_LOAD_IN_PROGRESS while a shard loads."""
        if self._closed:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        usable = (ShardState.LOADING, ShardState.ACTIVE)
        return [runtime.committed_image() for _, runtime in sorted(self._runtimes.items()) if runtime.state in usable]
