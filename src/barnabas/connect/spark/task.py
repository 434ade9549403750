"""What every task goes through: open, steps while it is wanted, pause, close; and what the herder hears of it.

The loop owns the state. Spark's calls block, so they go through `in_thread`.
"""

from __future__ import annotations

import asyncio
import shutil
import time
import traceback
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

import structlog
from pyspark.sql import SparkSession

from barnabas.connect.connector import TaskContext
from barnabas.connect.herder_port import WriteFailedError
from barnabas.connect.runtime import (
    Committed,
    Event,
    Failed,
    OnEvent,
    Paused,
    Running,
    Stopped,
    TaskLaunch,
    TopicUsed,
)
from barnabas.connect.spark.settings import SparkSettings
from barnabas.core.connect.ids import TargetState
from barnabas.model.config import MASKED
from barnabas.net.client import DisconnectedError, RequestTimeoutError
from barnabas.wire.errors import ApiError

T = TypeVar("T")
log: Final = structlog.get_logger("barnabas.connect.task")
_FIRST_IDLE_S: Final = 0.02
_MOST_IDLE_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What tasks of one worker share."""

    spark: SparkSession
    settings: SparkSettings
    executor: Executor


class StoppedEarlyError(Exception):
    """The task was stopped before it had begun."""


class Task(ABC):
    """One task, from its start to its end. `run` is the whole of it; the other public methods steer it."""

    def __init__(self, launch: TaskLaunch, around: Surroundings, on_event: OnEvent) -> None:
        self.launch = launch
        self.id = launch.id
        self.config = around.settings.resolved(launch.connector_config) | around.settings.resolved(launch.config)
        self.around = around
        self.scratch = around.settings.scratch / f"task-{uuid.uuid4().hex}"  # a connector's name may hold anything
        self.context = TaskContext(launch.id.connector, launch.id.task, launch.generation, self.scratch)
        self.query_name = f"connector {launch.id.connector} task {launch.id.task} generation {launch.generation}"
        self._on_event = on_event
        self._loop = asyncio.get_running_loop()
        self._paused = launch.target_state is not TargetState.STARTED
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._said: Event | None = None
        self._topics: set[str] = set()
        self._complained = False

    @property
    def stopping(self) -> bool:
        """Say whether the task is to end."""
        return self._stopping.is_set()

    def pause(self) -> None:
        """Have it pause at the next batch boundary."""
        self._paused = True
        self._changed.set()

    def resume(self) -> None:
        """Have it go on."""
        self._paused = False
        self._changed.set()

    def stop(self) -> None:
        """Have it end at the next batch boundary."""
        self._stopping.set()
        self._changed.set()

    async def run(self) -> None:
        """Do the work until `stop`, or until it fails; never raises but when cancelled."""
        end: Event = Stopped()
        try:
            self.scratch.mkdir()
            await self.open()
            await self._work()
            await self.finish()
        except StoppedEarlyError:
            pass
        except Exception as error:  # noqa: BLE001 - a task's failure is the task's alone
            end = Failed(self._trace(error))
        finally:
            closing = asyncio.ensure_future(self._close())
            try:
                await asyncio.shield(closing)
            except asyncio.CancelledError:  # cut off: it lets go of everything all the same
                await closing
            self.say(end)

    async def _work(self) -> None:
        idle_s = _FIRST_IDLE_S
        while not self.stopping:
            self._changed.clear()
            if self._paused:
                await self.rest()
                self._say_once(Paused())
                worked = await self._patiently(self.keep)
            else:
                self._say_once(Running())
                worked = await self._patiently(self.step)
            if worked:
                idle_s = _FIRST_IDLE_S
                continue
            try:
                await asyncio.wait_for(self._changed.wait(), idle_s)
            except TimeoutError:
                idle_s = min(idle_s * 2, _MOST_IDLE_S)

    async def _patiently(self, work: Callable[[], Awaitable[bool]]) -> bool:
        """Do something once more, later, when the cluster cannot be reached or is not ready: that is no failure."""
        try:
            worked = await work()
        except (DisconnectedError, RequestTimeoutError, WriteFailedError) as error:
            self.complain(error)
            return False
        except ApiError as error:
            if not error.code.retriable:
                raise
            self.complain(error)
            return False
        self._complained = False
        return worked

    def complain(self, error: Exception) -> None:
        """Log, once until things go well again, that the cluster is not well: that is no failure of the task's."""
        if not self._complained:
            log.warning("the cluster does not answer as it should; trying on", task=str(self.id), why=str(error))
        self._complained = True

    async def _close(self) -> None:
        try:
            await self.close()
        except Exception as error:  # noqa: BLE001 - its end is its end
            log.warning("task did not close well", task=str(self.id), why=self.masked(str(error)))
        await self.in_thread(lambda: shutil.rmtree(self.scratch, ignore_errors=True))

    @abstractmethod
    async def open(self) -> None:
        """Get ready."""

    @abstractmethod
    async def step(self) -> bool:
        """Do a batch, if there is one to be done; say whether there was."""

    async def rest(self) -> None:  # noqa: B027 - most tasks rest after any step
        """Come to a batch boundary, where steps alone do not end at one."""

    async def finish(self) -> None:  # noqa: B027 - for most tasks a batch boundary is all
        """Come to an end that holds, once the task is stopped and has not failed."""

    async def unless_stopped(self, work: Coroutine[None, None, None]) -> None:
        """Do something that may wait for others, but not once the task is to end; StoppedEarlyError then."""
        doing, stopped = asyncio.ensure_future(work), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({doing, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise StoppedEarlyError
            await doing
        finally:
            stopped.cancel()
            doing.cancel()
            await asyncio.gather(doing, stopped, return_exceptions=True)

    async def keep(self) -> bool:
        """Do what must be done even while the task pauses; say whether there was anything."""
        return False

    @abstractmethod
    async def close(self) -> None:
        """Let go of everything; after a failure too, also of `open`."""

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do something that blocks."""
        return await self._loop.run_in_executor(self.around.executor, work)

    def say(self, event: Event) -> None:
        """Tell the herder."""
        self._on_event(self.id, event)

    def tell(self, event: Event) -> None:
        """Tell the herder, from any thread."""
        self._loop.call_soon_threadsafe(self.say, event)

    def _say_once(self, event: Event) -> None:
        if event != self._said:
            self._said = event
            self.say(event)

    def used(self, topic: str) -> None:
        """Tell the herder of a topic, once."""
        if topic not in self._topics:
            self._topics.add(topic)
            self.say(TopicUsed(topic))

    @asynccontextmanager
    async def committing(self) -> AsyncIterator[None]:
        """Tell the herder how keeping offsets comes out, and what it takes."""
        begun = time.monotonic()
        try:
            yield
        except Exception:
            self.say(Committed(ms_since(begun), failed=True))
            raise
        self.say(Committed(ms_since(begun)))

    def masked(self, text: str) -> str:
        """Give a text without the secrets that the configuration refers to."""
        return masked(text, {**self.launch.connector_config, **self.launch.config}, self.config)

    def _trace(self, error: Exception) -> str:
        return self.masked("".join(traceback.format_exception(error)))


def ms_since(begun_s: float) -> int:
    """Give how long ago that was, by the monotonic clock."""
    return round((time.monotonic() - begun_s) * 1000)


def masked(text: str, given: Mapping[str, str], meant: Mapping[str, str]) -> str:
    """Give a text without what references stand for. given: the configuration as written; meant: resolved."""
    for key, value in given.items():
        secret = meant.get(key, value)
        if secret != value and secret:
            text = text.replace(secret, MASKED)
    return text
