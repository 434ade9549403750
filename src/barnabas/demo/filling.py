"""Flights into the lake by a connector on both workers, one of which is killed half-way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from barnabas.client.admin import Admin
from barnabas.demo import flights, lake, plugin, produce
from barnabas.demo.folder import Folder
from barnabas.demo.node import DemoError, DemoNode
from barnabas.demo.principals import CONNECTOR, GROUP
from barnabas.demo.rest import Answer, UnreachableError
from barnabas.demo.steps import Counter, Steps
from barnabas.demo.workers import COUNT, Workers
from barnabas.model.topic_partition import TopicPartition

TASKS: Final = COUNT
BATCHES: Final = 4
"""How many batches a task takes for its share, so that there is something to watch and to be in the midst of."""
_POLL_S: Final = 0.3
_STALL_S: Final = 900.0
_CONFLICT, _UNAVAILABLE = 409, 503
_EVERY_PARTITION: Final = [TopicPartition(flights.TOPIC, n) for n in range(flights.PARTITIONS)]


class Trespass(NamedTuple):
    """A request that workers refuse with this status. lacks: why."""

    method: str
    path: str
    body: object
    login: bool
    lacks: str
    status: int


TRESPASSES: Final = (
    Trespass("GET", "/connectors", None, False, "a password", 401),
    Trespass("POST", f"/connectors/{CONNECTOR}/tasks", [], True, "a worker's signature", 400),
)
"""To ask without being a user, and to hand out tasks without being a worker (KIP-507)."""


def batch_records(total: int) -> int:
    """Give how many records a batch may have when there are so many flights."""
    return max(total // (TASKS * BATCHES), 1)


@dataclass(frozen=True, slots=True)
class Part:
    """The connector or a task of it, as the workers tell each other. worker_id: whose it is."""

    state: str
    worker_id: str
    trace: str


@dataclass
class Filling:
    """The way of the flights. total: how many there are to be in the lake."""

    folder: Folder
    node: DemoNode
    workers: Workers
    steps: Steps
    total: int
    _producing: Future[int] = field(default_factory=Future)
    _arrived: Counter = lambda _: None
    _rows: int = 0
    _changed: float = 0.0
    _killed: float = 0.0
    _tasks: Mapping[str, Part] = field(default_factory=dict)

    def run(self) -> None:
        """Have every flight in the lake and the group's offsets committed; DemoError when it comes to nothing."""
        self._rows = there = lake.rows(self.folder)
        left = max(self.total - there, 0)
        written = self.steps.counter("flights into Barnabas", self.total)
        with ThreadPoolExecutor(1, "producer") as pool:
            # The last quarter comes after the kill, so that something is left to be done by the other worker.
            self._producing = pool.submit(produce.produce, self.folder, there + left * 3 // 4, written)
            self._start_workers()
            self._arrived = self.steps.counter("flights into the lake", self.total)
            if left:
                half = there + left // 2
                self._until(lambda: self._rows >= half and self._shared_out(), "half of the flights")
                self._kill_one()
            before = self._producing.result()
            self._producing = pool.submit(produce.produce, self.folder, self.total, written)
            if left:
                self._see_tasks_move()
            self._until(lambda: self._rows >= self.total, "the other flights")
            self._producing.result()
        self._until(lambda: self.lag() <= 0, "the last commit")
        if before:
            self._say(f"[bold]Resumed[/] {before:,} flights were in the topic already, {there:,} in the lake")

    def lag(self) -> int:
        """Give how many flights the connector's group has not committed."""
        return asyncio.run(self._lag())

    async def _lag(self) -> int:
        async with Admin(self.node.admin) as admin:
            committed = await admin.group_offsets(GROUP, _EVERY_PARTITION)
        return self.total - sum(each.offset for each in committed.values())

    def _start_workers(self) -> None:
        with self.steps.step("two Connect workers start, each with a Spark of its own"):
            self._until(self.workers.joined, "the start of the workers")
        for each in self.workers.living:
            self._say(f"[bold]Worker[/] {each.id}, process {each.process.pid}: REST API by https, with a password")
        with self.steps.step("tasks shared out"):
            self._until(self._created, f"the connector {CONNECTOR}")
            self._until(self._shared_out, "a task on each worker")
        self._say(f"[bold]Connector[/] {CONNECTOR}: {self._placement()}")
        for wrong in TRESPASSES:
            self._until(partial(self._refused, wrong), "a refusal")

    def _refused(self, wrong: Trespass) -> bool:
        """Say whether there was an answer; DemoError when it was another than is due."""
        answer = self._ask(wrong.path, wrong.method, wrong.body, login=wrong.login)
        if answer.status == _UNAVAILABLE:
            return False
        what = f"{wrong.method} {wrong.path} without {wrong.lacks}"
        if answer.status != wrong.status:
            raise DemoError(f"{what} was answered with {answer.status}, not {wrong.status}")
        self._say(f"[bold red]Refused[/] {what}: {answer.status} {answer.message}")
        return True

    def _created(self) -> bool:
        """Have the connector be there as it is to be; say whether the group took it: not while it rebalances."""
        config = {
            "name": CONNECTOR,
            "connector.class": plugin.CONNECTOR_CLASS,
            "tasks.max": str(TASKS),
            "topics": flights.TOPIC,
            "path": str(self.folder.lake),
            "partition.by": "month",
        }
        answer = self._ask(f"/connectors/{CONNECTOR}/config", "PUT", config)
        if answer.status >= 300 and answer.status not in (_CONFLICT, _UNAVAILABLE):
            raise DemoError(f"the connector {CONNECTOR} cannot be made: {answer.status} {answer.message}")
        return answer.status < 300

    def _kill_one(self) -> None:
        """Kill the worker of the first task, in the midst of its work."""
        rows, victim = self._rows, self.workers.kill(self._tasks["task 0"].worker_id)
        self._killed = time.monotonic()
        self._say(f"[bold yellow]Killed[/] worker {victim.id} (kill -9) with {rows:,} of {self.total:,} in the lake")

    def _see_tasks_move(self) -> None:
        self._until(self._shared_out, "the tasks on the other worker")
        took_s = time.monotonic() - self._killed
        self._say(f"[bold]Moved[/] {took_s:.1f} s after the kill: {self._placement()}")

    def _shared_out(self) -> bool:
        """Say whether every task runs, and every worker that lives has one; take note of where they are."""
        self._tasks = {name: part for name, part in self._parts().items() if name != "connector"}
        states = [part.state for part in self._tasks.values()]
        return states == ["RUNNING"] * TASKS and {part.worker_id for part in self._tasks.values()} == self._living()

    def _placement(self) -> str:
        return ", ".join(f"{name} on {part.worker_id}" for name, part in self._tasks.items())

    def _living(self) -> set[str]:
        return {worker.id for worker in self.workers.living}

    def _parts(self) -> Mapping[str, Part]:
        """Give the connector and its tasks, by what they are called; nothing while nobody tells."""
        answer = self._ask(f"/connectors/{CONNECTOR}/status")
        if answer.status != 200:
            return {}
        told: dict[str, Any] = {"connector": answer.value["connector"]}
        told |= {f"task {task['id']}": task for task in answer.value["tasks"]}
        return {name: Part(each["state"], each["worker_id"], each.get("trace") or "") for name, each in told.items()}

    def _ask(self, path: str, method: str = "GET", body: object = None, *, login: bool = True) -> Answer:
        """Ask a worker that lives; no answer is a 503."""
        try:
            return self.workers.rest.ask(self.workers.living[0].url.rstrip("/") + path, method, body, login=login)
        except UnreachableError as error:
            return Answer(_UNAVAILABLE, {"message": str(error)})

    def _until(self, done: Callable[[], bool], what: str) -> None:
        """Wait, and show how far the flights are; DemoError when something has failed, or nothing goes on any more."""
        self._changed = time.monotonic()
        while True:
            self._look()
            if done():
                return
            if time.monotonic() - self._changed > _STALL_S:
                raise DemoError(f"{what}: not there after {_STALL_S:.0f} s; see the logs in {self.folder.workers}")
            time.sleep(_POLL_S)

    def _look(self) -> None:
        if self._producing.done():
            self._producing.result()  # its failure is the one to show
        if not self.workers.joined():
            return
        rows = lake.rows(self.folder)
        if rows != self._rows:
            self._rows, self._changed = rows, time.monotonic()
        self._arrived(rows)
        for name, part in self._parts().items():
            if part.state == "FAILED" and part.worker_id in self._living():
                why = part.trace.strip().rpartition("\n")[2]
                raise DemoError(f"{name} of {CONNECTOR} has failed on {part.worker_id}: {why}")

    def _say(self, text: str) -> None:
        self.steps.console.print(text, soft_wrap=True)
